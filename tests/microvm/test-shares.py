#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Directories of the host in virtual machines: the same as in local sandboxes, by another way (src/vmm/share.h).

What a guest that keeps to no rule can say over the port is in tests/unit/test-share.c, and from a booted guest in
test-microvm.py. MAS_MICROVM_DIR has what machines
start from (scripts/microvm/machine.sh)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from unprivileged import make_user

BOOT_S = 240  # on a busy host, by software emulation
OWNER = 4711  # of the directories; its files show as the tool's
HOST = tempfile.mkdtemp(prefix="mas-shares-")
atexit.register(shutil.rmtree, HOST, ignore_errors=True)
os.chmod(HOST, 0o755)


def host_file(path, text, mode=0o644, owner=OWNER):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    os.chown(path, owner, owner)
    os.chown(os.path.dirname(path), OWNER, OWNER)


host_file(HOST + "/work/hello", "of the host\n")
host_file(HOST + "/work/private", "the owner's\n", 0o600)
host_file(HOST + "/work/others", "not the owner's\n", 0o600, owner=0)
host_file(HOST + "/data/hello", "to be read\n")
host_file(HOST + "/outside/secret", "outside\n")
host_file(HOST + "/work/sub/file", "below\n")
os.symlink(HOST + "/outside/secret", HOST + "/work/absolute")
os.symlink("../outside", HOST + "/work/relative")
os.mkfifo(HOST + "/work/fifo")

d = Daemon("--kill-grace", "1s", "--create-ready-timeout", f"{BOOT_S}s", runtime="microvm",
           config=f"mounts:\n  allow:\n    - {HOST}/work\n    - {HOST}/data\n")
d.start()
atexit.register(d.stop)


def create(**spec):
    return d.request("POST", "/v1/sandboxes", spec, timeout=BOOT_S + 30)


def mount(source, target, **more):
    return dict(source=HOST + source, target=target, **more)


a = create(mounts=[mount("/work", "/mnt/work", read_only=False), mount("/data", "/mnt/data", read_only=True)])
equal(a.status, 201, a)
sb = Sandbox(d, a.json)


@test("a directory of the host is read and written, with its owner's files as the tool's")
def test_read_and_write():
    v = sb.sh("cd /mnt/work; cat hello private sub/file; stat -c '%u %a' hello; cat others; ls; echo new > new; "
              "echo more >> hello; mkdir -p a/b; mv new a/b/moved; ln a/b/moved linked; chmod 640 linked; truncate -s 3 private; "
              "rm sub/file; rmdir sub; touch -d @1000000000 linked; df . | tail -1")
    check("of the host\nthe owner's\nbelow\n1000 644\n" in v["stdout"], v)
    check("others: Permission denied" in v["stderr"], v)
    with open(HOST + "/work/hello") as f:
        equal(f.read(), "of the host\nmore\n")
    st = os.stat(HOST + "/work/a/b/moved")
    equal((st.st_uid, st.st_gid, st.st_mode & 0o7777, st.st_nlink, st.st_mtime), (OWNER, OWNER, 0o640, 2, 1000000000))
    equal((os.stat(HOST + "/work/private").st_size, os.path.exists(HOST + "/work/sub")), (3, False))


@test("what the host changes is seen, and much of it at once, and programs run from there")
def test_much():
    host_file(HOST + "/work/later", "x" * 3000000)
    v = sb.sh("cd /mnt/work; wc -c < later; head -c 5000000 /dev/zero > big; sha256sum < big; cp /bin/echo e && ./e runs; "
              "for i in $(seq 300); do echo $i > f$i; done; ls | grep -c '^f[0-9]'; python3 -c \"import mmap; "
              "f = open('big', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:4] = b'mapp'; m.flush(); m.close()\"; rm f[0-9]*")
    zeros = subprocess.run("head -c 5000000 /dev/zero | sha256sum", shell=True, capture_output=True, text=True).stdout
    equal(v["stdout"], f"3000000\n{zeros}runs\n300\n", v)
    with open(HOST + "/work/big", "rb") as f:
        equal(f.read(5), b"mapp\0")


@test("a read-only one is so on the host's side, whatever the guest's kernel thinks")
def test_read_only():
    v = sb.sh("cat /mnt/data/hello; echo x > /mnt/data/x; echo x > /mnt/data/hello; rm /mnt/data/hello; chmod 777 /mnt/data/hello; ls /mnt/data")
    equal(v["stdout"], "to be read\nhello\n", v)
    equal(v["stderr"].count("Read-only file system"), 4, v)
    warden = d.get("/v1/status").json["warden_pid"]
    seen = [p for p in below(warden) if "/workspace/share/1" in proc_bytes(p, "mountinfo").decode()]
    check(len(seen) >= 3, "the emulator, mas-vmm and the processes that serve it")
    for pid in seen:
        rows = {x.split()[4]: x.split()[5].split(",") for x in proc_bytes(pid, "mountinfo").decode().splitlines()}
        check({"ro", "nosuid", "nodev"} <= set(rows["/workspace/share/1"]), rows)
        check({"rw", "nosuid", "nodev"} <= set(rows["/workspace/share/0"]), rows)
    for pid in seen:  # and none of them has a right over the host
        s = status_of(pid)
        check(all(int(x) >= 100000 for x in s["Uid"].split()) and s["Seccomp"] == "2" and s["NoNewPrivs"] == "1", s)


@test("links lead nowhere on the host, and no devices, fifos or users come from the guest")
def test_ways_out():
    v = sb.sh("cd /mnt/work; cat absolute; ls relative/; cat relative/secret; cat ../../../outside/secret; cat /mnt/work/../../outside/secret; "
              "ln -s /etc/shadow link; cat link; mknod null c 1 3; mknod disk b 8 0; cp /bin/true set; chmod 6755 set; "
              "timeout 2 cat fifo; echo end")
    check(v["stdout"].endswith("end\n") and "outside" not in v["stdout"], v)
    equal(v["stderr"].count("No such file or directory"), 6, v)
    equal([x for x in ("null", "disk") if os.path.lexists(f"{HOST}/work/{x}")], [])
    equal(os.readlink(HOST + "/work/link"), "/etc/shadow")  # which the host's own programs should not follow either
    equal(os.stat(HOST + "/work/set").st_mode & 0o7000, 0)
    with open(HOST + "/outside/secret") as f:
        equal(f.read(), "outside\n")
    for target in (HOST + "/outside", "/etc", HOST + "/work/relative"):
        a = create(mounts=[dict(source=target, target="/mnt/x")])
        check(a.status in (400, 403, 422) and "mount" in a.body.decode(), (target, a))


@test("such a machine boots, and cannot be kept, copied or put back")
def test_no_snapshots():
    equal(sb.created["effective"]["machine"], "booted")
    for path, body in (("/snapshot", {"name": "x"}), ("/fork", {})):
        a = d.request("POST", sb.path + path, body, timeout=60)
        check(a.status == 400 and "mounts" in a.json["error"]["message"], (path, a))
    equal(d.get("/v1/snapshots").json["snapshots"], [])
    a = create(mounts=[mount("/work", f"/mnt/{i}") for i in range(8)])
    check(a.status == 400 and "at most 7" in a.json["error"]["message"], a)


@test("a directory whose server on the host has ended fails, and no command waits for it")
def test_server_ends():
    served = os.stat(HOST + "/data")
    same = lambda pid: any(os.path.samestat(os.stat(f"/proc/{pid}/fd/{x}"), served) for x in os.listdir(f"/proc/{pid}/fd"))
    pids = [p for p in below(d.get("/v1/status").json["warden_pid"]) if same(p)]
    equal(len(pids), 1, pids)
    os.kill(pids[0], signal.SIGKILL)
    v = sb.sh("cat /mnt/data/hello; ls /mnt/data; cat /mnt/work/hello")
    check(v["stderr"].count("not connected") == 2 and v["stdout"] == "of the host\nmore\n", v)


def full(name):
    """A case for when there is time."""
    return test(name) if os.environ.get("MAS_MICROVM_FULL") else lambda fn: fn


def make_directories(owner):
    for name, text in (("more", "of the host\n"), ("less", "to be read\n")):
        host_file(f"{HOST}/{name}/hello", text, owner=owner)
        os.chown(f"{HOST}/{name}", owner, owner)


def use_directories(daemon, **spec):
    """In another sandbox: one directory to be written, one to be read. The owner of what was written."""
    body = dict(spec, mounts=[mount("/more", "/mnt/more", read_only=False), mount("/less", "/srv/deep/less")])
    a = daemon.request("POST", "/v1/sandboxes", body, timeout=BOOT_S + 30)
    equal(a.status, 201, a)
    with Sandbox(daemon, a.json) as other:
        v = other.sh("cat /mnt/more/hello /srv/deep/less/hello; echo new > /mnt/more/new; echo x > /srv/deep/less/x; stat -c %u /mnt/more/new; "
                     "echo own > /workspace/own; cat /workspace/own")
        equal(v["stdout"], "of the host\nto be read\n1000\nown\n", v)
        check("Read-only file system" in v["stderr"], v)
    with open(f"{HOST}/more/new") as f:
        equal(f.read(), "new\n")
        owner = os.stat(f.name).st_uid
    os.unlink(f.name)
    return owner


ALLOWED = f"mounts:\n  allow:\n    - {HOST}/more\n    - {HOST}/less\n"


@full("directories of the host are there in a machine with an image, too")
def test_with_an_image():
    make_directories(OWNER)
    with Daemon("--create-ready-timeout", f"{BOOT_S}s", runtime="microvm", config=ALLOWED) as own:
        equal(use_directories(own, image="default"), OWNER)


@full("an ordinary user's machines have that user's directories as local sandboxes have, by what everyone may do")
def test_ordinary_user():
    uid = make_user()
    make_directories(uid)
    os.chmod(HOST + "/more", 0o777)  # only root can map owners
    programs = tempfile.mkdtemp(prefix="mas-shares-programs-")
    atexit.register(shutil.rmtree, programs, ignore_errors=True)
    os.chmod(programs, 0o755)
    for name in ("mas-sandboxd", "mas-warden", "mas-toolrunner", "mas-tool-net", "mas-vmm"):
        shutil.copy(os.path.join(BUILD, name), programs)
    machine = os.path.join(HOST, "machine")  # as the user would have made it; root's files are no user's of a user namespace
    os.makedirs(machine)
    for name in ("vmlinux", "initramfs", "root.img"):
        shutil.copy(os.path.join(os.environ["MAS_MICROVM_DIR"], name), machine)
        os.chown(os.path.join(machine, name), uid, uid)
    own = Daemon("--create-ready-timeout", f"{BOOT_S}s", runtime="microvm", config=ALLOWED, env={"HOME": "/nonexistent", "XDG_STATE_HOME": ""},
                 command=["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", programs + "/mas-sandboxd"])
    own.flags[own.flags.index("--microvm-dir") + 1] = machine
    os.chown(own.dir, uid, uid)
    with own:
        owners = [use_directories(own), use_directories(own, runtime="local")]
        check(uid not in owners, owners)  # ids of the user's range: those of the two sandboxes


@test("what serves a directory goes with its machine")
def test_nothing_left():
    warden = d.get("/v1/status").json["warden_pid"]
    check(len(below(warden)) > 4, "they are there")
    equal(sb.delete().status, 200)
    wait_for(lambda: not [p for p in below(warden) if "/workspace/share" in proc_bytes(p, "mountinfo").decode()], "they are gone")


main()
