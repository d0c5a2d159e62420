# SPDX-License-Identifier: Apache-2.0
"""Started by oci.sh. Prints NAME, minimum and median in microseconds, as bench-compare does.

By hand means the container runtime's own command on an equal bundle: our own config.json, with its
user namespace, system call list, capabilities and mounts, over a root with busybox alone. Bare is
what `runc spec` writes, which has neither user namespace nor system call list."""
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/lib"))
from masd import BUILD, Daemon

ROUNDS = os.environ.get("ROUNDS", "10")
WORK = tempfile.mkdtemp(prefix="mas-bench-oci-", dir="/var/tmp")
os.chmod(WORK, 0o755)  # for the user namespaces of the peers
PEERS = {"crun": ["crun"], "runc": ["runc"],
         "gvisor": ["runsc", "--root", WORK + "/runsc", "--network=none", "--platform=ptrace", "--ignore-cgroups"]}
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
BODY = '{"command":["/usr/bin/busybox","true"]%s}'


def configs():
    """Our config.json of each runtime, for a plain sandbox."""
    text = subprocess.run([os.path.join(BUILD, "tests/unit/oci-config")], stdout=subprocess.PIPE, check=True).stdout
    return dict(zip(PEERS, [json.loads(line) for line in text.splitlines()[::2]]))


def equal_config(path, config):
    config = json.loads(json.dumps(config))
    config["linux"].pop("cgroupsPath", None)  # the peer makes its own
    config["root"]["path"] = "rootfs"
    for mount in config["mounts"]:
        for base in ("/rootfs", "/disk"):  # a place in what is mounted over the root, too
            os.makedirs(path + base + mount["destination"], exist_ok=True)
        if mount["type"] == "bind":
            mount["source"] = path + "/disk" + mount["destination"]
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        node = f"{path}/disk/dev/{name}"
        os.makedirs(os.path.dirname(node), exist_ok=True)
        os.mknod(node, stat.S_IFCHR, os.stat("/dev/" + name).st_rdev)
        os.chmod(node, 0o666)
    return config


def bundle(name, argv, ours=None):
    path = os.path.join(WORK, name)
    for part in ("bin", "proc", "dev", "sys"):
        os.makedirs(f"{path}/rootfs/{part}")
    shutil.copy("/usr/bin/busybox", path + "/rootfs/bin/busybox")
    subprocess.run(["runc", "spec"], cwd=path, check=True)
    with open(path + "/config.json") as f:
        config = equal_config(path, ours) if ours else json.load(f)
    config["process"].update(terminal=False, args=argv)
    with open(path + "/config.json", "w") as f:
        json.dump(config, f)
    return path


def script(name, line):
    path = os.path.join(WORK, name)
    with open(path, "w") as f:
        f.write(f"#!/bin/sh\n{line} >/dev/null 2>&1 </dev/null\n")
    os.chmod(path, 0o755)
    return path


def run_script(runtime, kind, path):
    return script(f"{runtime}-run-{kind}", f"cd {path} && exec {' '.join(PEERS[runtime])} run {kind}-$$")


def compare(*things):
    """Each once a round, so that a busy moment hits all alike."""
    subprocess.run([os.path.join(BUILD, "bench/bench-compare"), "-n", "1", "-r", ROUNDS, *things], check=True)


def bench(d, runtime, config):
    program = PEERS[runtime][0]
    same = run_script(runtime, "equal", bundle(runtime + "-equal", ["/bin/busybox", "true"], config))
    bare = run_script(runtime, "bare", bundle(runtime + "-bare", ["/bin/busybox", "true"]))
    body = BODY % f',"runtime":"{runtime}"'
    d.post("/v1/run", json.loads(body))
    time.sleep(1)  # for launchers to be ready
    compare(f"POST /v1/run, {runtime}|http|{d.port}|/v1/run|{body}", f"{program} run, equal bundle|spawn|{same}",
            f"{program} run, bare bundle|spawn|{bare}")
    name = f"bench-{os.getpid()}-long"
    command = PEERS[runtime]
    path = bundle(runtime + "-long", ["/bin/busybox", "sleep", "100000"], config)
    execs = script(runtime + "-exec", f"exec {' '.join(command)} exec {name} /bin/busybox true")
    subprocess.run(command + ["run", "--detach", name], cwd=path, check=True, **QUIET)
    try:
        with d.sandbox(runtime=runtime) as sb:
            compare(f"POST exec, {runtime}|http|{d.port}|{sb.path}/exec|{BODY % ''}",
                    f"{program} exec, equal bundle|spawn|{execs}")
    finally:
        subprocess.run(command + ["kill", name, "KILL"], **QUIET)
        time.sleep(0.2)
        subprocess.run(command + ["delete", name], **QUIET)


def bench_warm():
    with Daemon("--warm-pool-size", "8", "--cgroup-prefix", f"mas-warm-{os.getpid()}", runtime="gvisor") as d:
        for _ in range(100):
            if "sandbox_warm_pool_ready 8" in d.get("/metrics").body.decode():
                break
            time.sleep(0.2)
        compare(f"POST /v1/run, gvisor, warm pool|http|{d.port}|/v1/run|{BODY % ''}",
                f"runsc run, beside a warm pool|spawn|{WORK}/gvisor-run-equal")


try:
    ours = configs()
    with Daemon("--cgroup-prefix", f"mas-bench-{os.getpid()}") as d:
        for runtime in PEERS:
            if shutil.which(PEERS[runtime][0]):
                bench(d, runtime, ours[runtime])
    if shutil.which("runsc"):
        bench_warm()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
