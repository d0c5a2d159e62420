#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: what is theirs alone. The conformance suite has what all runtimes do alike.

MAS_MICROVM_DIR has what machines start from (scripts/microvm/machine.sh)."""
import fcntl
import http.server
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

MACHINE = os.environ["MAS_MICROVM_DIR"]
F_GET_SEALS, F_SEAL_WRITE = 1034, 8
BOOT_S = 240  # on a busy host, by software emulation
HOSTILE = os.path.join(BUILD, "tests/microvm/hostile-guest")
# What each hostile guest must end as: its create fails, or its sandbox does soon after.
MODES = ["stale", "silent", "garbage", "failure", "panic", "power-off", "panic-later", "news-later", "huge-frame",
         "wrong-frames", "no-mark"]
QUICK = ["stale", "huge-frame"]  # the others when there is time: MAS_MICROVM_FULL
# Those that boot well, so that they are kept, and do harm once they have their order.
LATER = ["panic-later", "news-later", "huge-frame", "wrong-frames"]


def emulators(d):
    """Of this daemon: processes whose ancestor its warden is."""
    warden = d.get("/v1/status").json["warden_pid"]
    return sorted(p for p in below(warden) if command_of(p).startswith("/usr/bin/qemu-system"))


def machine_with(first_process, mode, place):
    """A directory to start machines from, with another first process."""
    tree = os.path.join(place, "tree")
    os.makedirs(tree)
    subprocess.run(f"cd {tree} && cpio -id --quiet < {MACHINE}/initramfs", shell=True, check=True)
    shutil.copy(first_process, os.path.join(tree, "init"))
    with open(os.path.join(tree, "mode"), "w") as f:
        f.write(mode)
    made = os.path.join(place, "machine")
    os.makedirs(made)
    subprocess.run(f"cd {tree} && find . | cpio -o -H newc --quiet -R 0:0 > {made}/initramfs", shell=True, check=True)
    for name in ("vmlinux", "root.img"):
        os.link(os.path.realpath(os.path.join(MACHINE, name)), os.path.join(made, name)) if same_disk(place) else \
            shutil.copy(os.path.realpath(os.path.join(MACHINE, name)), os.path.join(made, name))
    return made


def same_disk(place):
    return os.stat(place).st_dev == os.stat(os.path.realpath(os.path.join(MACHINE, "vmlinux"))).st_dev


d = shared_daemon("--kill-grace", "1s", "--create-ready-timeout", f"{BOOT_S}s", runtime="microvm")


def create(daemon=d, **spec):
    return daemon.request("POST", "/v1/sandboxes", spec, timeout=BOOT_S + 30)


def box(daemon=d, **spec):
    a = create(daemon, **spec)
    equal(a.status, 201, a)
    return Sandbox(daemon, a.json)


shared = box()


@test("a machine has a kernel of its own, and says that it is one")
def test_a_machine_has_a_kernel_of_its_own():
    v = shared.sh("uname -r; cat /proc/1/cmdline | tr '\\0' ' '")
    check("cloud" in v["stdout"] and "mas-toolrunner --pid1" in v["stdout"], v)
    check(v["stdout"].split()[0] != os.uname().release, "it is the host's")
    e = shared.created["effective"]
    for wall in ("filesystem", "network", "syscalls", "memory"):
        equal(e[wall]["by"], "virtual machine", wall)
    equal(e["network"]["mode"], "none")


@test("a machine reaches hosts by name through the gateway, and nothing else")
def test_a_machine_reaches_hosts_by_name():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"x" * (1 << 20)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.2", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    with Daemon("--create-ready-timeout", f"{BOOT_S}s", runtime="microvm", config='gateway_allow_private: ["127.0.0.2"]\n') as own:
        b = box(own, network={"allow": [{"host": "127.0.0.2", "ports": [port]}]})
        equal(b.created["effective"]["network"]["mode"], "names")
        get = "import sys,urllib.request as u\ntry: print(len(u.urlopen(sys.argv[1],timeout=60).read()))\nexcept Exception as e: print(e)"
        for _ in range(3):
            v = b.exec("python3", "-c", get, f"http://127.0.0.2:{port}/")
            equal(v["stdout"], "1048576\n", (v, own.get(f"/v1/sandboxes/{b.id}/network/log").body))
        v = b.exec("python3", "-c", get, f"http://127.0.0.3:{port}/")
        check("403" in v["stdout"], v)
        v = b.exec("python3", "-c", "import socket\ntry: socket.create_connection(('127.0.0.2',%d),9)\nexcept OSError as e: print(e.errno)" % port)
        equal(v["stdout"], "111\n", v)
    server.shutdown()


@test("the emulator is in the walls of a local sandbox: user, network, filter, nothing to gain")
def test_the_emulator_is_in_the_walls_of_a_local_sandbox():
    pid = emulators(d)[0]
    s = status_of(pid)
    check(all(int(x) >= 100000 for x in s["Uid"].split()), s["Uid"])
    equal((s["Seccomp"], s["NoNewPrivs"], int(s["CapEff"], 16), int(s["CapBnd"], 16) & ~0xe0), ("2", "1", 0, 0))
    for space in ("net", "user", "mnt", "pid", "ipc"):
        check(os.readlink(f"/proc/{pid}/ns/{space}") != os.readlink(f"/proc/self/ns/{space}"), space)
    links = os.listdir(f"/proc/{pid}/fd")
    opened = [os.readlink(f"/proc/{pid}/fd/{n}") for n in links]
    check(not [x for x in opened if x.startswith("/") and
               not x.startswith(("/dev/", "/workspace/machine/", "/memfd:machine-"))], opened)
    for n, link in zip(links, opened):  # what other machines are copies of
        if link.startswith("/memfd:machine-"):
            with open(f"/proc/{pid}/fd/{n}", "rb") as f:
                check(fcntl.fcntl(f, F_GET_SEALS) & F_SEAL_WRITE, link)
    check("machine-memory" in " ".join(opened), opened)
    with open(f"/proc/{pid}/net/dev") as f:
        equal([line.split(":")[0].strip() for line in f.readlines()[2:]], ["lo"])


@test("in the guest, too, a tool has another user than the runner, a filter and no rights")
def test_in_the_guest_too_a_tool_has_another_user():
    v = shared.sh("grep -E '^(Uid|Seccomp|NoNewPrivs|CapBnd|CapEff):' /proc/self/status; mount -t tmpfs x /mnt; "
                  "echo x > /etc/x; cat /dev/vport0p1; ls /dev | wc -l")
    for line in ("Uid:\t1000\t1000\t1000\t1000", "Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000"):
        check(line in v["stdout"], (line, v))
    check("Read-only" in v["stderr"] and "vport0p1: No such file" in v["stderr"], v)


@test("what a machine cannot have is refused by name")
def test_what_a_machine_cannot_have_is_refused_by_name():
    for spec, word in (({"network": {"cidrs": ["192.0.2.0/24"]}}, "network"),
                       ({"limits": {"memory_mb": 64}}, "128 MiB")):
        a = create(**spec)
        check(a.status in (400, 403, 404, 422, 501) and word in a.json["error"]["message"], (spec, a))


@test("an image is the root of its machines: read-only, shared, with a disk above it, and kept once")
def test_an_image_is_the_root_of_its_machines():
    for origin in ("booted", "restored"):
        with box(image="default") as sb:
            equal(sb.created["effective"]["machine"], origin)
            equal(sb.created["effective"]["disk"]["by"], "loop image")
            v = sb.sh("grep -E ' (/|/workspace) ' /proc/mounts; stat -c '%u %n' / /etc /workspace; echo mine > /workspace/file; "
                      "echo x > /etc/passwd; cat /workspace/file")
            check("image / overlay" in v["stdout"] and "/workspace ext4" in v["stdout"] and "0 /etc" in v["stdout"], v)
            check("1000 /workspace" in v["stdout"] and "mine" in v["stdout"], v)
            check("/etc/passwd: Permission denied" in v["stderr"], v)  # which is root's, in the guest, too
            equal(sb.sh("test -e /opt/other; echo $?; echo o > /tmp/other")["stdout"], "1\n")


@test("an image of before there were disks is refused with the way out")
def test_an_image_without_a_disk_is_refused():
    with Daemon("--create-ready-timeout", f"{BOOT_S}s") as plain:  # its images are local sandboxes' only
        equal(plain.request("POST", "/v1/run", {"image": "default", "command": ["true"]}, timeout=120).json["exit_code"], 0)
        a = create(plain, runtime="microvm", image="default")
        check(a.status in (400, 422, 501) and "images_disks" in a.json["error"]["message"], a)


@test("a disk that memory does not hold is a disk of the machine's own, and as large as it was asked for")
def test_a_disk_that_memory_does_not_hold_is_a_disk():
    with box(limits={"memory_mb": 160, "disk_mb": 180}) as sb:
        equal(sb.created["effective"]["disk"]["by"], "loop image")
        v = sb.sh("grep ' /workspace ' /proc/mounts; head -c 120000000 /dev/zero > big && wc -c < big; rm big; "
                  "head -c 200000000 /dev/zero > big; rm big; echo here > file; cat file")
        check("/workspace ext4" in v["stdout"] and "120000000" in v["stdout"] and v["stdout"].endswith("here\n"), v)
        check("No space left" in v["stderr"], v)


# What copies of one machine could have in common: the kernel's numbers, its ids, addresses that it chose, the runner's.
PERSONAL = ("head -c 16 /dev/urandom | od -An -tx1; head -c 16 /dev/random | od -An -tx1; cat /proc/sys/kernel/random/boot_id; "
            "cat /proc/sys/kernel/random/uuid; grep -E 'stack|vdso' /proc/self/maps; mktemp -u")


@test("copies of one machine share no random number, no id and no clock")
def test_copies_of_one_machine_share_no_random_number():
    seen, clocks = [], []
    began = time.time()
    copies = [box() for _ in range(3)]
    for sb in copies:
        equal(sb.created["effective"]["machine"], "restored")
        v = sb.sh(PERSONAL)
        seen.append(v["stdout"].splitlines())
        time.sleep(1.5)
        before = time.time()
        now = float(sb.sh("date +%s.%N")["stdout"])
        check(before - 2 < now < time.time() + 2, (before, now, time.time()))
        clocks.append(now)
    for a in range(3):
        for b in range(a):
            check(len(seen[a]) > 5 and not set(seen[a]) & set(seen[b]), (seen[a], seen[b]))
    check(clocks == sorted(clocks) and clocks[0] > began, clocks)
    for sb in copies:
        equal(sb.delete().status, 200)


@test("a machine of another size boots, and says so")
def test_a_machine_of_another_size_boots():
    with box(limits={"memory_mb": 200}) as sb:
        equal(sb.created["effective"]["machine"], "booted")
        equal(sb.sh("echo well")["stdout"], "well\n")


@test("a machine that dies while it is kept fails alone, and the next is kept")
def test_a_machine_that_dies_while_it_is_kept_fails_alone():
    with Daemon("--create-ready-timeout", f"{BOOT_S}s", runtime="microvm") as own:
        killer = threading.Thread(target=lambda: (wait_for(lambda: emulators(own), "it boots", BOOT_S),
                                                  os.kill(emulators(own)[0], signal.SIGKILL)))
        killer.start()
        a = create(own)
        killer.join()
        check(a.status in (500, 502, 503), a)
        for origin in ("booted", "restored"):
            with box(own) as sb:
                equal(sb.created["effective"]["machine"], origin)
                equal(sb.sh("echo well")["stdout"], "well\n")


@test("kill -9 of the control plane in the middle of output: the next one has every byte")
def test_kill_of_the_control_plane_in_the_middle_of_output():
    path = shared.path + "/execs/" + d.post(shared.path + "/exec", {
        "command": ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo line-$i-0123456789012345678901234567890123456789; i=$((i+1)); done"],
        "async": True}).json["exec_id"]
    for _ in range(3):
        time.sleep(0.3)
        os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
        wait_for(lambda: d.get("/healthz").status == 200, "another control plane")
    wait_for(lambda: d.get(path).json["status"] == "completed", "its end", BOOT_S)
    events = [json.loads(x) for x in d.get(path + "/logs").body.splitlines()]
    text = "".join(e["data"] for e in events if e["type"] == "output")
    equal(text, "".join(f"line-{i}-0123456789012345678901234567890123456789\n" for i in range(3000)))
    equal(shared.sh("echo well")["stdout"], "well\n")


@test("an emulator that is killed ends its own sandbox, and no other")
def test_an_emulator_that_is_killed_ends_its_own_sandbox():
    before = set(emulators(d))
    sb = box()
    pid = (set(emulators(d)) - before).pop()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: d.get(sb.path).json["state"] == "crashed", "it is seen")
    a = d.post(sb.path + "/exec", {"command": ["true"]})
    equal((a.status, a.json["error"]["code"]), (502, "sandbox_crash"))
    equal(sb.delete().status, 200)
    wait_for(lambda: set(emulators(d)) == before, "nothing of it is left")
    equal(shared.sh("echo well")["stdout"], "well\n")


@test("a machine stands still while it is paused, and goes on")
def test_a_machine_stands_still_while_it_is_paused():
    shared.sh("rm -f ticks; (while sleep 0.05; do echo tick >> ticks; done) >/dev/null 2>&1 &")
    wait_for(lambda: shared.sh("wc -l < ticks")["stdout"].strip() not in ("", "0"), "it ticks")
    equal(d.post(shared.path + "/pause").status, 200)
    time.sleep(1)
    equal(d.post(shared.path + "/resume").status, 200)
    check(int(shared.sh("wc -l < ticks")["stdout"]) > 0, "it goes on")
    equal(shared.sh("echo well")["stdout"], "well\n")


def copies(daemon):
    """Emulators that do not boot: the machine whose first state is kept goes on as a copy, too."""
    return processes("-incoming", emulators(daemon))


@test("a machine that was made ahead is given out once")
def test_a_machine_that_was_made_ahead_is_given_out_once():
    with Daemon("--microvm-blanks", "1", "--create-ready-timeout", f"{BOOT_S}s", runtime="microvm") as pool:
        wait_for(lambda: copies(pool), "one is made", BOOT_S)
        ahead = emulators(pool)
        with box(pool) as sb:
            check(set(ahead) <= set(emulators(pool)), "another one was made for it")
            equal(sb.sh("echo well")["stdout"], "well\n")
            wait_for(lambda: len(emulators(pool)) == 2, "the next one is made")
        wait_for(lambda: not set(ahead) & set(emulators(pool)), "it was used once")


if os.environ.get("MAS_MICROVM_FULL"):
    @test("a hostile guest gets nowhere by the port of a directory but into that directory")
    def test_a_hostile_guest_and_a_directory():
        with tempfile.TemporaryDirectory(prefix="mas-hostile-", dir=os.path.dirname(os.path.realpath(MACHINE))) as place:
            os.chmod(place, 0o755)
            for name in ("work", "outside"):
                os.makedirs(f"{place}/{name}")
                os.chown(f"{place}/{name}", 4711, 4711)
            with open(f"{place}/outside/secret", "w") as f:
                f.write("secret")
            hostile = Daemon("--create-ready-timeout", f"{BOOT_S}s", "--mounts-allow", f"{place}/work", runtime="microvm")
            hostile.flags[hostile.flags.index("--microvm-dir") + 1] = machine_with(HOSTILE, "share", place)
            with hostile:
                body = {"mounts": [{"source": f"{place}/work", "target": "/mnt/work", "read_only": False}]}
                threading.Thread(target=hostile.request, args=("POST", "/v1/sandboxes", body), kwargs={"timeout": BOOT_S}, daemon=True).start()
                wait_for(lambda: "made" in os.listdir(f"{place}/work"), "what it may make is made", BOOT_S)
                equal(hostile.run("echo", "well", runtime="local")["stdout"], "well\n")
            equal(sorted(os.listdir(f"{place}/work")), ["link", "made"])
            equal(os.listdir(f"{place}/outside"), ["secret"])
            equal(sorted(x for x in os.listdir(place) if x not in ("tree", "machine")), ["outside", "work"])


for mode in MODES if os.environ.get("MAS_MICROVM_FULL") else QUICK:
    @test(f"a hostile guest ({mode}) ends its own sandbox, and nothing of it is left")
    def test_a_hostile_guest_ends_its_own_sandbox(mode=mode):
        with tempfile.TemporaryDirectory(prefix="mas-hostile-", dir=os.path.dirname(os.path.realpath(MACHINE))) as place:
            os.chmod(place, 0o755)
            made = machine_with(HOSTILE, mode, place)
            limit = "15s" if mode in ("silent", "no-mark") else f"{BOOT_S}s"
            hostile = Daemon("--create-ready-timeout", limit, runtime="microvm")
            at = hostile.flags.index("--microvm-dir")
            hostile.flags[at + 1] = made
            with hostile:
                for _ in range(2 if mode in LATER else 1):  # the second is a copy of the first, as it was before
                    a = create(hostile)
                    if a.status == 201:
                        path = "/v1/sandboxes/" + a.json["id"]
                        wait_for(lambda: hostile.get(path).json.get("state") == "crashed", "it is seen")
                        equal(hostile.delete(path).status, 200)
                    else:
                        check(a.status in (500, 502, 503, 504) and a.json["error"]["message"], a)
                        check("\ufffd" not in a.json["error"]["message"], a)
                        if mode == "stale":
                            check("scripts/microvm/machine.sh" in a.json["error"]["message"], a)
                    wait_for(lambda: not emulators(hostile), "nothing of it is left")
                equal(hostile.run("echo", "well", runtime="local")["stdout"], "well\n")


main()
