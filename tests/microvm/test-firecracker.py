#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Firecracker's driver, against a program with its API and its vsock socket (firecracker.py) and a real guest.

MAS_MICROVM_DIR has what machines start from (scripts/microvm/machine.sh)."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from processes import all_pids, ancestors_of, proc_bytes

HERE = os.path.dirname(os.path.abspath(__file__))
MACHINE = os.environ["MAS_MICROVM_DIR"]
CLIENT = os.path.join(BUILD, "mas-toolrunner-client")
EXAMPLE = os.path.join(HERE, "../../scripts/microvm/microvm_config.example.json")
SPECIFICATION = os.path.join(HERE, "../../../shared/data/firecracker-api-1.16.1.yaml")
BOOT_S = 400  # on a busy host, by software emulation
place = tempfile.mkdtemp(prefix="mas-firecracker-")
atexit.register(shutil.rmtree, place, ignore_errors=True)
os.chmod(place, 0o755)


def make_program():
    """One file: a cell shows nothing that lies beside it."""
    path = os.path.join(place, "firecracker")
    with open(os.path.join(HERE, "firecracker.py")) as f:
        text = f.read()
    with open(os.path.join(HERE, "firecracker-api.json")) as f:
        table = f.read()
    khz = int(subprocess.run([os.path.join(BUILD, "tests/microvm/clock-rate")], check=True, stdout=subprocess.PIPE).stdout)
    with open(path, "w") as f:
        f.write(f"#!/usr/bin/python3\nAPI_TEXT = {table!r}\nCLOCK_KHZ = {khz}\n{text}")
    os.chmod(path, 0o755)
    return path


PROGRAM = make_program()


def drive(name, text):
    tree = os.path.join(place, name + ".tree")
    os.makedirs(tree)
    with open(os.path.join(tree, "hello"), "w") as f:
        f.write(text)
    image = os.path.join(place, name + ".ext4")
    subprocess.run(["/usr/sbin/mke2fs", "-q", "-t", "ext4", "-d", tree, image, "4M"], check=True)
    return image


def config(name="machine", **members):
    path = os.path.join(place, name + ".json")
    value = {
        "vmm": "firecracker",
        "firecracker_bin": PROGRAM,
        "kernel_image": os.path.realpath(MACHINE + "/vmlinux"),
        "initramfs": MACHINE + "/initramfs",
        "rootfs": MACHINE + "/root.img",
        "vsock": {"cid": 42, "uds_path": place + "/{id}.vsock"},
    }
    value.update(members)
    with open(path, "w") as f:
        json.dump(value, f)
    return path


def daemon(name="machine", **members):
    return Daemon("--create-ready-timeout", f"{BOOT_S}s", "--mounts-allow", place, "--runtime-config", config(name, **members),
                  runtime="microvm")


def box(d, **spec):
    a = d.request("POST", "/v1/sandboxes", spec, timeout=BOOT_S + 30)
    equal(a.status, 201, a)
    return Sandbox(d, a.json)


def emulators(d):
    """The processes of our Firecracker, by their pids."""
    warden = d.get("/v1/status").json["warden_pid"]
    return sorted(p for p in all_pids() if b"--api-sock" in proc_bytes(p, "cmdline") and warden in ancestors_of(p))


def requests_of(pid):
    with open(f"/proc/{pid}/root/workspace/requests") as f:
        return [r for r in map(json.loads, f) if r[0] != "KVM"]


def call(path, request, *flags):
    return subprocess.run([CLIENT, "--vsock", path, "--timeout", "120s", *flags], input=json.dumps(request),
                          capture_output=True, text=True)


# --- the table against the specification

def simple(spec):
    """A property of the specification as the table writes it."""
    if "$ref" in spec:
        return "$" + spec["$ref"].rsplit("/", 1)[1]
    if spec["type"] == "array":
        return "[" + simple(spec["items"]) + "]"
    if "enum" in spec:
        return "string:" + "|".join("None" if x is None else str(x) for x in spec["enum"])
    low, high = spec.get("minimum"), spec.get("maximum")
    if low is None and high is None:
        return spec["type"]
    return f"{spec['type']}:{'' if low is None else low}-{'' if high is None else high}"


@test("what the test knows of Firecracker's API is what its specification says")
def test_the_table_is_the_specification():
    if not os.path.exists(SPECIFICATION):
        raise Skip("the specification is not here")
    import yaml
    with open(SPECIFICATION) as f:
        spec = yaml.load(f, Loader=yaml.BaseLoader)
    with open(os.path.join(HERE, "firecracker-api.json")) as f:
        table = json.load(f)
    equal(table["version"], spec["info"]["version"])
    for key, (kind, _) in table["requests"].items():
        method, path = key.split(" ")
        body = [p for p in spec["paths"][path][method.lower()]["parameters"] if p["in"] == "body"][0]
        equal(body["schema"]["$ref"].rsplit("/", 1)[1], kind, key)
    for name, members in table["types"].items():
        there = spec["definitions"][name]
        if isinstance(members, str):
            equal(simple(there), members, name)
            continue
        wanted = {n + ("!" if n in there.get("required", []) else ""): simple(p) for n, p in there["properties"].items()}
        equal(members, wanted, name)


# --- machines

d = daemon(drives=[{"drive_id": "data", "path_on_host": drive("data", "of the drive\n"),
                    "rate_limiter": {"bandwidth": {"size": 1048576, "refill_time": 1000, "one_time_burst": 4096},
                                     "ops": {"size": 100, "refill_time": 1000}}}],
           boot_args="console=ttyS0 mas.test=1 loglevel=6", log_path=place + "/{id}.log", metrics_path=place + "/{id}.metrics",
           api_socket=place + "/{id}.api")
d.start()
atexit.register(d.stop)
shared = box(d)


@test("a machine of Firecracker's is configured in the documented order, kept, and restored from a file")
def test_the_order():
    equal((shared.created["effective"]["vmm"], shared.created["effective"]["machine"]), ("firecracker", "booted"))
    said = requests_of(emulators(d)[0])
    equal([r for r in said if r[3] is not None], [])
    equal([f"{m} {p}" for m, p, _, _ in said],
          ["PUT /metrics", "PUT /machine-config", "PUT /boot-source", "PUT /drives/rootfs", "PUT /drives/data", "PUT /vsock", "PUT /balloon",
           "PUT /actions", "PATCH /vm", "PUT /snapshot/create", "PUT /metrics", "PUT /snapshot/load"])
    bodies = {p: b for _, p, b, _ in said}
    equal(bodies["/machine-config"], {"vcpu_count": 1, "mem_size_mib": 512, "smt": False})
    equal((bodies["/drives/rootfs"]["is_root_device"], bodies["/drives/rootfs"]["is_read_only"]), (True, True))
    equal(bodies["/drives/data"]["rate_limiter"], {"bandwidth": {"size": 1048576, "refill_time": 1000, "one_time_burst": 4096},
                                                  "ops": {"size": 100, "refill_time": 1000}})
    equal(bodies["/vsock"]["guest_cid"], 42)
    check(bodies["/boot-source"]["boot_args"].startswith("console=ttyS0 mas.test=1 "), bodies["/boot-source"])
    equal(bodies["/snapshot/load"]["mem_backend"]["backend_type"], "File")


@test("console, metrics and API are where the operator's file says")
def test_outside():
    wait_for(lambda: "virtio_blk" in open(f"{place}/{shared.id}.log", errors="replace").read(), "the console of the boot")
    wait_for(lambda: "utc_timestamp_ms" in open(f"{place}/{shared.id}.metrics").read(), "what Firecracker counts")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(f"{place}/{shared.id}.api")
        body = b'{"action_type":"InstanceStart"}'
        s.sendall(b"PUT /actions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        answer = s.recv(4096)
        check(answer.startswith(b"HTTP/1.1 400 ") and b"not supported after starting" in answer, answer)


@test("directories of the host are refused by name")
def test_no_mounts():
    a = d.request("POST", "/v1/sandboxes", {"mounts": [{"source": place, "target": "/mnt/x"}]}, timeout=60)
    check(a.status == 400 and "mounts: Firecracker" in a.json["error"]["message"], a)
    a = d.request("POST", "/v1/sandboxes", {"network": {"cidrs": ["192.0.2.0/24"]}}, timeout=60)
    check(a.status == 400 and "by address: Firecracker" in a.json["error"]["message"], a)


@test("commands run in the guest, over its vsock, with output, input, status and files")
def test_commands():
    v = shared.sh("uname -r; cat /media/data/hello; cat /proc/cmdline; ls /sys/class/virtio-ports 2>/dev/null; exit 3")
    equal(v["exit_code"], 3)
    check("cloud" in v["stdout"] and "of the drive\n" in v["stdout"] and "mas.vsock=5000" in v["stdout"], v)
    equal(shared.sh("head -c 3000000 /dev/zero | tr '\\0' x | wc -c")["stdout"], "3000000\n")
    v = shared.sh("i=0; while [ $i -lt 2000 ]; do echo line-$i; i=$((i+1)); done")
    equal(v["stdout"], "".join(f"line-{i}\n" for i in range(2000)))


@test("JSON lines reach the runner through the machine's vsock socket, from several clients at once")
def test_vsock():
    path = f"{place}/{shared.id}.vsock"
    equal(os.stat(path).st_mode & 0o777, 0o600)
    p = call(path, {"id": "1", "tool": "calculator", "args": {"expression": "15*8+7"}})
    equal((p.returncode, json.loads(p.stdout)["result"]["result"]), (0, 127), p)
    answers = {}

    def ask(i):
        answers[i] = json.loads(call(path, {"id": str(i), "tool": "shell", "args": {"command": f"echo {i} | tee f{i}"}}).stdout)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal({i: a["result"]["stdout"] for i, a in answers.items()}, {i: f"{i}\n" for i in range(8)})


@test("no port but the clients' is open once a machine has its order")
def test_other_ports():
    path = f"{place}/{shared.id}.vsock"
    for port in ("5001", str(0x6d617301), str(0x6d617302)):
        p = call(path, {"id": "1", "tool": "calculator", "args": {}}, "--port", port)
        check(p.returncode == 1 and f"nothing listens on port {port}" in p.stderr, p)
    equal(shared.sh("echo well")["stdout"], "well\n")


@test("kill -9 of the control plane: the next one has the machine")
def test_adoption():
    os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
    wait_for(lambda: d.get("/healthz").status == 200, "another control plane")
    wait_for(lambda: shared.sh("cat f3").get("stdout") == "3\n", "its machine answers", 120)


@test("Firecracker can use /dev/kvm in its cell, and a local sandbox has none")
def test_kvm():
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except OSError:
        raise Skip("there is no /dev/kvm here")
    with open(f"/proc/{emulators(d)[0]}/root/workspace/requests") as f:
        equal(json.loads(f.readline())[:2], ["KVM", 12])
    equal(d.run("ls", "/dev/kvm", runtime="local")["exit_code"], 2)


@test("auto is Firecracker where its program and /dev/kvm are there, and QEMU elsewhere")
def test_auto():
    if not os.environ.get("MAS_MICROVM_FULL"):
        raise Skip("two boots more; check-microvm-full has the time")
    for program, vmm in ((PROGRAM, "firecracker" if os.access("/dev/kvm", os.R_OK | os.W_OK) else "qemu"), (place + "/none", "qemu")):
        with daemon(name="auto", vmm="auto", firecracker_bin=program) as other:
            with box(other, limits={"memory_mb": 160}) as sb:
                equal((sb.created["effective"]["vmm"], sb.sh("echo well")["stdout"]), (vmm, "well\n"))


@test("contract A's example is accepted as it is")
def test_example():
    p = subprocess.run([os.path.join(BUILD, "mas-sandboxd"), "-runtime", "microvm", "-runtime-config", EXAMPLE, "--check-config"],
                       capture_output=True, text=True)
    equal(p.returncode, 0, p.stderr)


@test("a copy is restored without being configured, and the socket of a machine goes with it")
def test_copy():
    if not os.environ.get("MAS_MICROVM_FULL"):
        raise Skip("a boot more; check-microvm-full has the time")
    before = set(emulators(d))
    with box(d) as sb:
        equal(sb.created["effective"]["machine"], "restored")
        equal(sb.sh("echo well; ls f3 2>/dev/null")["stdout"], "well\n")
        pid = (set(emulators(d)) - before).pop()
        equal([f"{m} {p}" for m, p, _, _ in requests_of(pid)], ["PUT /metrics", "PUT /snapshot/load"])
        check(os.path.exists(f"{place}/{sb.id}.vsock"), "it is there")
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", "it is seen")
    wait_for(lambda: not os.path.exists(f"{place}/{sb.id}.vsock"), "it is gone")
    equal(shared.sh("echo well")["stdout"], "well\n")


@test("what Firecracker refuses is told in its words, and a program that is none ends the create")
def test_refusals():
    if not os.environ.get("MAS_MICROVM_FULL"):
        raise Skip("check-microvm-full has the time")
    broken = os.path.join(place, "broken")
    with open(PROGRAM) as f, open(broken, "w") as to:
        to.write(f.read().replace('"vcpu_count!": "integer:1-32"', '"vcpu_count!": "boolean"'))
    os.chmod(broken, 0o755)
    for program, word in ((broken, "vcpu_count is not a boolean"), ("/usr/bin/false", "start Firecracker")):
        with daemon(name=os.path.basename(program), firecracker_bin=program) as other:
            a = other.request("POST", "/v1/sandboxes", {}, timeout=BOOT_S + 30)
            check(a.status in (500, 502, 503) and word in a.json["error"]["message"], a)
            equal(emulators(other), [])


main()
