"""Started by oci.sh. Prints medians and ratios.

By hand means the container runtime's own command on a bundle with what ours has too: a user
namespace and the same system call list (bare: without both, as `runc spec` writes it)."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/lib"))
from masd import BUILD, Daemon

ROUNDS = int(os.environ.get("ROUNDS", "20"))
WORK = tempfile.mkdtemp(prefix="mas-bench-oci-", dir="/var/tmp")
os.chmod(WORK, 0o755)  # for the user namespaces of the peers
COMMANDS = {"crun": ["crun"], "runc": ["runc"],
            "gvisor": ["runsc", "--root", WORK + "/runsc", "--network=none", "--platform=ptrace", "--ignore-cgroups"]}
serial = 0


def bundle(name, argv, ours):
    path = os.path.join(WORK, name)
    os.makedirs(path + "/rootfs/bin")
    os.makedirs(path + "/rootfs/proc")
    os.makedirs(path + "/rootfs/dev")
    shutil.copy("/usr/bin/busybox", path + "/rootfs/bin/busybox")
    for base, _, _ in os.walk(path):
        os.chmod(base, 0o755)
    subprocess.run(["runc", "spec"], cwd=path, check=True)
    with open(path + "/config.json") as f:
        config = json.load(f)
    config["process"].update(terminal=False, args=argv)
    if ours:
        config["linux"].update({k: ours["linux"][k] for k in ("seccomp", "uidMappings", "gidMappings")})
        config["linux"]["namespaces"].append({"type": "user"})
        config["mounts"] = [m for m in config["mounts"] if m["destination"] in ("/proc", "/dev")]
    with open(path + "/config.json", "w") as f:
        json.dump(config, f)
    return path


def by_hand(runtime, path):
    global serial
    serial += 1
    subprocess.run(COMMANDS[runtime] + ["run", f"bench-{os.getpid()}-{serial}"], cwd=path, check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def timed(fn):
    begin = time.perf_counter()
    fn()
    return (time.perf_counter() - begin) * 1e3


def compare(title, ours, peers):
    """Each once a round; the medians, and ours to each peer's."""
    took = {name: [] for name in ["ours"] + list(peers)}
    for _ in range(ROUNDS):
        took["ours"].append(timed(ours))
        for name, fn in peers.items():
            took[name].append(timed(fn))
    mid = {name: statistics.median(v) for name, v in took.items()}
    print(f"{title}: ours {mid['ours']:.1f} ms" + "".join(
        f", {name} {mid[name]:.1f} ms (ratio {mid['ours'] / mid[name]:.2f})" for name in peers), flush=True)


def run(d, runtime):
    a = d.post("/v1/run", {"runtime": runtime, "command": ["/usr/bin/busybox", "true"]})
    assert a.status == 200 and a.json["exit_code"] == 0, a


def bench(d, runtime, ours):
    program = COMMANDS[runtime][0]
    same = bundle(runtime + "-same", ["/bin/busybox", "true"], ours)
    bare = bundle(runtime + "-bare", ["/bin/busybox", "true"], None)
    run(d, runtime)
    time.sleep(1)  # for launchers to be ready
    compare(f"one-shot, {runtime}", lambda: run(d, runtime),
            {f"{program} run": lambda: by_hand(runtime, same), f"{program} run, bare": lambda: by_hand(runtime, bare)})
    path = bundle(runtime + "-long", ["/bin/busybox", "sleep", "100000"], None)
    name = f"bench-{os.getpid()}-long"
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(COMMANDS[runtime] + ["run", "--detach", name], cwd=path, check=True, **quiet)
    try:
        with d.sandbox(runtime=runtime) as sb:
            compare(f"exec, {runtime}", lambda: sb.exec("/usr/bin/busybox", "true"),
                    {f"{program} exec": lambda: subprocess.run(COMMANDS[runtime] + ["exec", name, "/bin/busybox", "true"], check=True, **quiet)})
    finally:
        subprocess.run(COMMANDS[runtime] + ["kill", name, "KILL"], **quiet)
        time.sleep(0.2)
        subprocess.run(COMMANDS[runtime] + ["delete", name], **quiet)


def bench_warm():
    path = os.path.join(WORK, "gvisor-same")
    with Daemon("--warm-pool-size", "4", runtime="gvisor") as d:
        time.sleep(6)

        def warm():
            time.sleep(0.5)  # the pool fills again
            global took
            took = timed(lambda: run(d, "gvisor"))
        ours, hand = [], []
        for _ in range(max(5, ROUNDS // 2)):
            warm()
            ours.append(took)
            hand.append(timed(lambda: by_hand("gvisor", path)))
        a, b = statistics.median(ours), statistics.median(hand)
        print(f"one-shot, gvisor from a warm pool: ours {a:.1f} ms, runsc run {b:.1f} ms (ratio {a / b:.2f})", flush=True)


try:
    lines = subprocess.run([os.path.join(BUILD, "tests/unit/oci-config")], stdout=subprocess.PIPE, check=True).stdout
    ours = json.loads(lines.splitlines()[2])  # runc's: a seccomp section to compile
    with Daemon("--cgroup-prefix", f"mas-bench-{os.getpid()}") as d:
        for runtime in COMMANDS:
            if shutil.which(COMMANDS[runtime][0]):
                bench(d, runtime, ours)
    if shutil.which("runsc"):
        bench_warm()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
