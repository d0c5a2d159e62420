#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The configuration file of the runtime microvm: what it says is what machines are.

MAS_MICROVM_DIR has what machines start from (scripts/microvm/machine.sh)."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

MACHINE = os.environ["MAS_MICROVM_DIR"]
BOOT_S = 240  # on a busy host, by software emulation
place = tempfile.mkdtemp(prefix="mas-machine-")
atexit.register(shutil.rmtree, place, ignore_errors=True)
os.chmod(place, 0o755)


def full(name):
    """A case for when there is time."""
    return test(name) if os.environ.get("MAS_MICROVM_FULL") else lambda fn: fn


def drive(name, text, *options):
    tree = os.path.join(place, name + ".tree")
    os.makedirs(tree)
    with open(os.path.join(tree, "hello"), "w") as f:
        f.write(text)
    with open(os.path.join(tree, "big"), "wb") as f:
        f.write(os.urandom(4 << 20))
    image = os.path.join(place, name + ".ext4")
    subprocess.run(["/usr/sbin/mke2fs", "-q", "-t", "ext4", *options, "-d", tree, image, "8M"], check=True)
    return image


def config(**members):
    path = os.path.join(place, "machine.json")
    value = {
        "vmm": "qemu",
        "kernel_image": os.path.realpath(MACHINE + "/vmlinux"),
        "initramfs": MACHINE + "/initramfs",
        "rootfs": MACHINE + "/root.img",
        "vsock": {"cid": 3, "uds_path": place + "/{id}.vsock"},
    }
    value.update(members)
    with open(path, "w") as f:
        json.dump(value, f)
    return path


def daemon(**members):
    flags = ["--create-ready-timeout", f"{BOOT_S}s", "--runtime-config", config(**members)]
    return Daemon(*flags, runtime="microvm")


def box(d, **spec):
    a = d.request("POST", "/v1/sandboxes", spec, timeout=BOOT_S + 30)
    equal(a.status, 201, a)
    return Sandbox(d, a.json)


d = daemon(machine={"vcpu_count": 2, "mem_mib": 256}, boot_args="mas.test=1 loglevel=6",
           log_path=place + "/{id}.log", api_socket=place + "/{id}.qmp",
           drives=[{"drive_id": "data", "path_on_host": drive("data", "of the drive\n"), "is_read_only": True,
                    "rate_limiter": {"bandwidth": {"size": 1048576, "refill_time": 1000}}},
                   drive("other", "of the other\n")])
d.start()
atexit.register(d.stop)
shared = box(d)


@test("processors, memory and the kernel's line are what the file says")
def test_sizes():
    v = shared.sh("nproc; grep MemTotal /proc/meminfo; cat /proc/cmdline")
    lines = v["stdout"].split("\n")
    equal(lines[0], "2")
    check(180000 < int(lines[1].split()[1]) < 256 * 1024, v)
    check("mas.test=1" in v["stdout"], v)


@test("drives are there by their names, read-only, at the rate that the file says")
def test_drives():
    v = shared.sh("cat /media/data/hello /media/drive1/hello; echo x > /media/data/x; ls /media")
    equal(v["stdout"], "of the drive\nof the other\ndata\ndrive1\n")
    check("Read-only file system" in v["stderr"], v)
    began = time.monotonic()
    equal(shared.sh("cat /media/data/big | wc -c")["stdout"], f"{4 << 20}\n")
    check(time.monotonic() - began > 2, "4 MiB were faster than 1 MiB a second")


def emulators():
    warden = d.get("/v1/status").json["warden_pid"]
    return [p for p in below(warden) if "qemu-system" in command_of(p).split(" ")[0]]


@test("the emulator sees the machine's files and none that lie beside them")
def test_files():
    pids = emulators()
    equal(len(pids), 1)
    names = sorted(os.listdir(f"/proc/{pids[0]}/root/workspace/machine"))
    equal(names, ["drive-data", "drive-drive1", "initramfs", "root.img", "vmlinux"])


@test("the guest's console is in the operator's file, and QEMU's control behind the operator's socket")
def test_log_and_api():
    path = f"{place}/{shared.id}.log"
    equal(os.stat(path).st_mode & 0o777, 0o600)
    wait_for(lambda: "virtio_blk" in open(path, errors="replace").read(), "the console of the boot")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(f"{place}/{shared.id}.qmp")
        f = s.makefile("rw")
        check("QMP" in json.loads(f.readline()), "its greeting")
        for command in ("qmp_capabilities", "query-status"):
            f.write(json.dumps({"execute": command}) + "\n")
            f.flush()
            answer = json.loads(f.readline())
        equal(answer["return"]["status"], "running")
    equal(shared.sh("echo well")["stdout"], "well\n")


@test("the file of a console goes with its sandbox, and stays where the machine ended by itself")
def test_logs_go():
    sb = box(d)
    path = f"{place}/{sb.id}.log"
    check(os.path.exists(path), "it is there")
    equal(sb.delete().status, 200)
    wait_for(lambda: not os.path.exists(path), "it is gone")
    before = set(emulators())
    sb = box(d)
    path = f"{place}/{sb.id}.log"
    # Beside its own there may be one that the warden has begun meanwhile, to keep a machine ready.
    for pid in set(emulators()) - before:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: d.get(sb.path).json["state"] == "crashed", "it has crashed")
    check(os.path.exists(path), "it says why")
    equal(sb.delete().status, 200)


CLIENT = os.path.join(BUILD, "mas-toolrunner-client")


def call(path, request, *flags):
    return subprocess.run([CLIENT, "--vsock", path, "--timeout", f"{BOOT_S}s", *flags], input=json.dumps(request),
                          capture_output=True, text=True)


@test("one MAS request reaches the runner in the guest through the machine's vsock socket")
def test_vsock():
    path = f"{place}/{shared.id}.vsock"
    equal(os.stat(path).st_mode & 0o777, 0o600)
    p = call(path, {"id": "1", "tool": "calculator", "args": {"expression": "15*8+7"}})
    equal((p.returncode, json.loads(p.stdout)["result"]["result"]), (0, 127), p)
    p = call(path, {"tool_call_id": "2", "tool": {"name": "shell", "args": {"command": "uname -r; id -u"}}})
    answer = json.loads(p.stdout)
    check(answer["status"] == "ok" and "cloud" in answer["result"]["stdout"], p)
    equal(answer["result"]["stdout"].split()[-1], "1000")


@test("several clients at once are answered, each with its own answer, and another port with none")
def test_vsock_clients():
    path = f"{place}/{shared.id}.vsock"
    answers = {}

    def ask(i):
        answers[i] = call(path, {"id": str(i), "tool": "shell", "args": {"command": f"sleep 0.2; echo {i} | tee f{i}"}})
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not [p for p in answers.values() if p.returncode], answers)
    equal({i: json.loads(p.stdout)["result"]["stdout"] for i, p in answers.items()}, {i: f"{i}\n" for i in range(24)})
    p = call(path, {"id": "1", "tool": "calculator", "args": {}}, "--port", "5001")
    check(p.returncode == 1 and "nothing listens on port 5001" in p.stderr, p)
    equal(shared.sh("cat f3")["stdout"], "3\n")


@test("a client that says nothing, nonsense or half a line holds no other up")
def test_vsock_nonsense():
    path = f"{place}/{shared.id}.vsock"
    idle = []
    for text in (b"", b"GET / HTTP/1.1\r\n\r\n", b"CONNECT ", b"CONNECT 99999999999\n", b"CONNECT 5000\n", b"CONNECT 5000\n{\"id\":"):
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        s.sendall(text)
        idle.append(s)
    p = call(path, {"id": "1", "tool": "calculator", "args": {"expression": "1+1"}})
    equal(json.loads(p.stdout)["result"]["result"], 2)
    for s in idle:
        s.close()


@test("a file that is wrong stops the start, with a message of its own")
def test_refusals():
    for members, word in (({"kernel_imgae": "/x"}, "did you mean 'kernel_image'"),
                          ({"metrics_path": "/tmp/m"}, "metrics_path: QEMU writes no metrics"),
                          ({"vsock": {"cid": 3}}, "vsock.uds_path is required"),
                          ({"pool": {"size": 2}, "vsock": {"cid": 3, "uds_path": "/tmp/u"}}, "{id} is required")):
        p = subprocess.run([os.path.join(BUILD, "mas-sandboxd"), "-runtime", "microvm", "-runtime-config", config(**members),
                            "--check-config"], capture_output=True, text=True)
        check(p.returncode != 0 and word in p.stderr, (members, p))


@test("the socket of a machine goes with its sandbox")
def test_socket_goes():
    shared.delete()
    wait_for(lambda: not [n for n in os.listdir(place) if n.endswith((".vsock", ".qmp"))], "nothing is left")


@full("a drive that can be written is one machine's at a time, and has what was written when that ends")
def test_writable_drive():
    image = drive("written", "of the host\n", "-E", "root_owner=1000:1000")
    work = os.path.join(place, "work")
    os.makedirs(work)
    os.chown(work, 4711, 4711)
    drives = [{"drive_id": "data", "path_on_host": image, "is_read_only": False}, place + "/other.ext4"]
    with daemon(drives=drives) as own:
        with box(own) as sb:
            equal(sb.created["effective"]["machine"], "booted")
            v = sb.sh("cat /media/data/hello /media/drive1/hello; echo mine > /media/data/made; echo x > /media/drive1/x; echo x > /media/x")
            equal(v["stdout"], "of the host\nof the other\n", v)
            check("/media/drive1/x: Read-only" in v["stderr"] and "/media/x:" in v["stderr"] and "data/made" not in v["stderr"], v)
            a = own.request("POST", "/v1/sandboxes", {}, timeout=BOOT_S)
            check(a.status == 409 and "drive 'data'" in a.json["error"]["message"], a)
            for path, body in (("/snapshot", {"name": "x"}), ("/fork", {})):
                a = own.request("POST", sb.path + path, body, timeout=60)
                check(a.status == 400 and "is_read_only" in a.json["error"]["message"], (path, a))
        with box(own, image="default") as sb:  # it ended without a word to its kernel; and an image shows drives, too
            v = sb.sh("cat /media/data/made /media/drive1/hello; echo again > /media/data/made")
            equal(v["stdout"], "mine\nof the other\n", v)
    p = subprocess.run(["/usr/sbin/e2fsck", "-fp", image], capture_output=True, text=True)  # which replays its journal
    check(p.returncode in (0, 1), p)
    kept = subprocess.run(["/usr/sbin/debugfs", "-R", "cat made", image], capture_output=True, text=True).stdout
    equal(kept, "again\n")


@test("files that are not there are told by name")
def test_missing():
    with daemon(rootfs=place + "/none.ext4") as other:
        a = other.post("/v1/sandboxes", {})
        check(a.status != 201 and place + "/none.ext4" in a.json["error"]["message"], a)


main()
