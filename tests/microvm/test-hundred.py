#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A hundred machines one after another, with kill -9 of the daemon's processes in between: nothing of them is left.

Each has sockets and a console of its own on the host; those that are killed have a disk, or a network by address with a
link. It runs in a network namespace of its own, where every link and every rule is the daemon's. MAS_MICROVM_DIR has what
machines start from (scripts/microvm/machine.sh); MAS_MICROVM_MACHINES (100) is how many, at least five."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

MACHINE = os.environ["MAS_MICROVM_DIR"]
MACHINES = int(os.environ.get("MAS_MICROVM_MACHINES", "100"))
BOOT_S = 240  # on a busy host, by software emulation

os.environ["PATH"] += ":/usr/sbin:/sbin"
if os.environ.get("MAS_HUNDRED_INSIDE") != "1":
    os.environ["MAS_HUNDRED_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--net", sys.executable] + sys.argv)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for setting in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
    with open(f"/proc/sys/net/{setting}", "w") as f:
        f.write("1")

place = tempfile.mkdtemp(prefix="mas-hundred-")
atexit.register(shutil.rmtree, place, ignore_errors=True)
os.chmod(place, 0o755)
os.makedirs(place + "/ends")


def config():
    path = place + "/machine.json"
    with open(path, "w") as f:
        json.dump({"vmm": "qemu", "kernel_image": os.path.realpath(MACHINE + "/vmlinux"), "initramfs": MACHINE + "/initramfs",
                   "rootfs": MACHINE + "/root.img", "vsock": {"cid": 3, "uds_path": place + "/ends/{id}.vsock"},
                   "api_socket": place + "/ends/{id}.qmp", "log_path": place + "/ends/{id}.log",
                   "network": {"enabled": True, "tap_device": "tap-{id}", "allowed_cidrs": ["11.0.0.0/24"]}}, f)
    return path


d = Daemon("--kill-grace", "1s", "--create-ready-timeout", f"{BOOT_S}s", "--runtime-config", config(), runtime="microvm")


groups_seen = set()  # control groups of all machines


def box(**spec):
    a = d.request("POST", "/v1/sandboxes", spec, timeout=BOOT_S + 30)
    equal(a.status, 201, a)
    return Sandbox(d, a.json)


def emulators():
    warden = d.get("/v1/status").json["warden_pid"]
    return [p for p in below(warden) if command_of(p).startswith("/usr/bin/qemu-system")]


def groups_of(pid):
    """The directories of its control groups, whichever version the host has."""
    found = []
    for line in proc_text(pid, "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        name = controllers.removeprefix("name=")
        found += [g for g in (f"/sys/fs/cgroup/{name}{path}", f"/sys/fs/cgroup{path}") if path != "/" and os.path.isdir(g)]
    return found


def loops_below(top):
    """Loop devices whose file is below a directory; of a file that was removed, the kernel still says the name."""
    listed = subprocess.run(["losetup", "-n", "-O", "BACK-FILE"], stdout=subprocess.PIPE, text=True).stdout
    return [line for line in listed.splitlines() if line.strip().startswith(top)]


def links(*inside):
    listed = subprocess.run([*inside, "ip", "-o", "link"], stdout=subprocess.PIPE, text=True).stdout
    return [line.split(":")[1].split("@")[0].strip() for line in listed.splitlines()]


def taps():
    """In mas-net's own network."""
    net = named("mas-net", below(d.process.pid))
    return [name for pid in net for name in links("nsenter", "-t", str(pid), "-n") if name.startswith("b")]


def tables():
    return subprocess.run(["nft", "list", "tables"], stdout=subprocess.PIPE, text=True).stdout.split()


def kill_all():
    """All that could tidy up, with machines that have something of each kind: a disk, a link, sockets and consoles."""
    kept = box(limits={"memory_mb": 160, "disk_mb": 180})
    box(network={"cidrs": ["11.0.0.1"]})
    check(taps() and loops_below(d.dir), (taps(), loops_below(d.dir)))
    equal(len(os.listdir(place + "/ends")), 6)
    mine = emulators()
    groups = [g for pid in mine for g in groups_of(pid)]
    check(len(mine) == 2 and groups, (mine, groups))
    os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
    wait_for(lambda: d.get("/healthz").status == 200, "another control plane", BOOT_S)
    equal(kept.sh("echo well")["stdout"], "well\n")
    os.kill(d.get("/v1/status").json["warden_pid"], signal.SIGKILL)
    wait_for(lambda: not any(map(stat_fields, mine)), "its machines die with it", BOOT_S)
    d.process.wait()
    d.start()
    wait_for(lambda: not [g for g in groups if os.path.exists(g)], "its control groups are removed", BOOT_S)
    equal(os.listdir(place + "/ends"), [], "its sockets and consoles are removed")
    equal(taps(), [])
    for left in d.get("/v1/sandboxes").json["sandboxes"]:
        equal((left["state"], d.delete("/v1/sandboxes/" + left["id"]).status), ("crashed", 200))


@test("a hundred machines one after another, the daemon killed in between")
def test_a_hundred_machines():
    d.start()
    for i in range(MACHINES):
        with box() as sb:
            equal(sb.sh(f"echo {i}")["stdout"], f"{i}\n")
            groups_seen.update(g for pid in emulators() for g in groups_of(pid))
        if (i + 1) % (MACHINES // 5) == 0:
            kill_all()
    wait_for(lambda: not emulators(), "no process is left", BOOT_S)
    wait_for(lambda: not [g for g in groups_seen if os.path.exists(g)], "no control group is left", BOOT_S)
    check(len(groups_seen) >= MACHINES, groups_seen)


@test("nothing of them is left while the daemon runs: no socket, no file, no link, no loop device, no record")
def test_nothing_is_left():
    wait_for(lambda: not os.listdir(place + "/ends"), lambda: f"left: {os.listdir(place + '/ends')}", BOOT_S)
    wait_for(lambda: not loops_below(d.dir), lambda: f"left: {loops_below(d.dir)}", BOOT_S)
    equal(taps(), [])
    for name in ("places", "saved"):
        equal(os.listdir(f"{d.state}/warden/{name}"), [], name)


@test("nothing is left on the host when it has ended: no process, no link, no rule, no mount, no control group")
def test_nothing_is_left_at_the_end():
    mine = list(below(d.process.pid))
    d.stop()
    wait_for(lambda: not any(map(stat_fields, mine)), "its processes end", BOOT_S)
    equal(links(), ["lo"])
    equal(tables(), [])
    equal(loops_below(d.dir), [])
    with open("/proc/mounts") as f:
        equal([line for line in f if d.dir in line], [])
    equal([g for g in groups_seen if os.path.exists(g)], [])


main()
