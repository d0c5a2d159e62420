#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of virtual machines that callers have: kept, copied, put back, removed.

MAS_MICROVM_DIR has what machines start from (scripts/microvm/machine.sh)."""
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from guarded import Guarded
from masd import *

BOOT_S = 240  # on a busy host, by software emulation
FLAGS = ("--kill-grace", "1s", "--create-ready-timeout", f"{BOOT_S}s", "--max-snapshots", "2")

d = shared_daemon(*FLAGS, runtime="microvm")
WAIT = BOOT_S + 60

# A process that outlives the command that starts it, and whose memory is what a copy must have.
KEEPER = """
import os, socket, sys
if os.fork(): sys.exit()
os.setsid()
for fd in (0, 1, 2): os.dup2(os.open('/dev/null', os.O_RDWR), fd)
s = socket.socket(socket.AF_UNIX); s.bind('/tmp/keeper'); s.listen(); n = 0
while True:
    c, _ = s.accept(); n += 1; c.sendall(str(n).encode()); c.close()
"""
ASK = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/tmp/keeper'); print(s.recv(9).decode())"
PERSONAL = ("head -c 16 /dev/urandom | od -An -tx1; head -c 16 /dev/random | od -An -tx1; "
            "cat /proc/sys/kernel/random/uuid; cat /proc/sys/kernel/random/boot_id; mktemp -u; "
            "python3 -c 'import uuid, secrets; print(uuid.uuid4()); print(secrets.token_hex(16))'")


def full(name):
    """A case for when there is time."""
    return test(name) if os.environ.get("MAS_MICROVM_FULL") else lambda fn: fn


def box(daemon=d, **spec):
    a = daemon.request("POST", "/v1/sandboxes", spec, timeout=WAIT)
    equal(a.status, 201, a)
    return Sandbox(daemon, a.json)


def post(path, body, daemon=d):
    return daemon.request("POST", path, body, timeout=WAIT)


def saved_files(daemon=d):
    place = os.path.join(daemon.dir, "state/warden/saved")
    return sorted(os.listdir(place))


def recorded():
    """What the audit says was done with the shared sandbox."""
    records = [json.loads(x) for x in d.get("/v1/audit?limit=1000").body.splitlines()]
    return {r.get("outcome") for r in records if r["kind"] == "sandbox" and r.get("sandbox") == shared.id}


def count(sb):
    v = sb.exec("python3", "-c", ASK)
    equal(v["exit_code"], 0, v)
    return int(v["stdout"])


shared = box()
equal(shared.exec("python3", "-c", KEEPER)["exit_code"], 0)
wait_for(lambda: shared.sh("test -S /tmp/keeper; echo $?")["stdout"] == "0\n", "the keeper listens", BOOT_S)


@test("copies have files, processes and their memory, and share no random number, no id and no clock")
def test_copies_share_nothing_new():
    shared.sh("echo before > /workspace/file")
    equal((count(shared), count(shared)), (1, 2))
    shared.sh(PERSONAL)  # whatever a kernel keeps once it was asked
    a = post(shared.path + "/fork", {"count": 3})
    equal(a.status, 201, a)
    copies = [Sandbox(d, c) for c in a.json["sandboxes"]]
    equal(len({c.id for c in copies} | {shared.id}), 4)
    boxes = [shared] + copies
    for sb in copies:
        equal(sb.created["effective"]["machine"], "restored")
        equal(sb.sh("cat /workspace/file; echo mine > /workspace/file")["stdout"], "before\n")
    equal([count(sb) for sb in boxes], [3] * 4)
    equal(shared.sh("cat /workspace/file")["stdout"], "before\n")
    seen = [sb.sh(PERSONAL)["stdout"].splitlines() for sb in boxes]
    for i in range(4):
        for j in range(i):
            check(len(seen[i]) == 7 and not set(seen[i]) & set(seen[j]), (seen[i], seen[j]))
    for sb in boxes:
        before = time.time()
        now = float(sb.sh("date +%s.%N")["stdout"])
        check(before - 2 < now < time.time() + 2, (before, now, time.time()))
    for sb in copies:
        equal(sb.delete().status, 200)
    equal(count(shared), 4)
    wait_for(lambda: saved_files() == [], "what the copies were made of is gone")
    check("fork" in recorded(), recorded())


@test("a sandbox goes back to its snapshot, and its commands end")
def test_a_sandbox_goes_back():
    shared.sh("echo first > /workspace/file")
    n = count(shared)
    a = post(shared.path + "/snapshot", {"name": "first"})
    equal((a.status, a.json.get("name"), a.json.get("sandbox"), a.json.get("runtime")), (201, "first", shared.id, "microvm"), a)
    check(1 << 20 < a.json["bytes"] < 512 << 20, a.json)
    equal(count(shared), n + 1)
    shared.sh("echo second > /workspace/file; echo x > /workspace/other")
    e = d.post(shared.path + "/exec", {"command": ["sleep", "1000"], "async": True}).json["exec_id"]
    a = post(shared.path + "/restore", {"snapshot": "first"})
    equal((a.status, a.json.get("id"), a.json.get("state")), (200, shared.id, "ready"), a)
    equal(d.get(f"{shared.path}/execs/{e}").json["status"], "canceled")
    equal(shared.sh("cat /workspace/file; ls /workspace")["stdout"].split()[:2], ["first", "file"])
    equal(count(shared), n + 1)
    random = [shared.sh("cat /proc/sys/kernel/random/uuid")["stdout"]]
    for _ in range(2):  # as often as one likes, and never the same numbers
        equal(post(shared.path + "/restore", {"snapshot": "first"}).status, 200)
        random.append(shared.sh("cat /proc/sys/kernel/random/uuid")["stdout"])
        equal(count(shared), n + 1)
    equal(len(set(random)), 3, random)
    check({"snapshot", "restore"} <= recorded(), recorded())


@test("a control plane that is killed while a sandbox goes back leaves no command that goes on under another's record")
def test_killed_while_going_back():
    # Once before the machine has gone back, once behind it, and once when its commands are forgotten.
    faults = "snapshot.back-recorded:1:1,snapshot.back:1:2,snapshot.forgotten:1:3"
    with Daemon("--debug-endpoints", *FLAGS, runtime="microvm", env={"MAS_FAULT": faults}) as daemon:
        sb = box(daemon)
        script = "i=0; while :; do i=$((i + 1)); echo line $i; echo $i > /workspace/count; sleep 0.2; done"
        lines = lambda: int(sb.sh("cat /workspace/count")["stdout"] or 0)
        for name in ("before", "between", "after"):
            e = daemon.post(sb.path + "/exec", {"command": ["sh", "-c", script], "async": True}).json["exec_id"]
            wait_for(lambda: lines() > 3, "it prints")
            equal(post(sb.path + "/snapshot", {"name": name}, daemon).status, 201)
            n = lines()
            wait_for(lambda: lines() > n + 3, "it prints more than the snapshot's has")
            try:
                post(sb.path + "/restore", {"snapshot": name}, daemon)
            except OSError:
                pass  # there is no answer any more
            ready = lambda: daemon.get(sb.path).status == 200 and daemon.post(sb.path + "/exec", {"command": ["true"]}).status == 200
            wait_for(ready, "another control plane, which has the sandbox", WAIT)
            v = daemon.get(f"{sb.path}/execs/{e}").json
            check(v["status"] == "canceled" and "restored" in json.dumps(v), v)

            n = lines()
            time.sleep(1)
            equal(lines(), n, "no command of that machine goes on")
            sb.sh("rm /workspace/count")
            equal(daemon.delete("/v1/snapshots/" + name).status, 200)



def emulators():
    return [p for p in below(d.get("/v1/status").json["warden_pid"]) if command_of(p).startswith("/usr/bin/qemu-system")]


@full("a machine that stood still while it was kept has the right time afterwards")
def test_time_after_standing_still():
    (emulator,) = emulators()
    vmm = int(status_of(emulator)["PPid"])
    written = lambda: [f for f in saved_files() if f.endswith(".memory.new")
                       and os.stat(os.path.join(d.dir, "state/warden/saved", f)).st_blocks]
    answers = []
    keeping = threading.Thread(target=lambda: answers.append(post(shared.path + "/snapshot", {"name": "slow"})))
    keeping.start()
    try:
        while not written():  # the machine stands still from before the first byte
            check(not answers, answers)
        os.kill(vmm, signal.SIGSTOP)
        time.sleep(5)
        check(written() and not answers, "it was caught in the middle")
    finally:
        os.kill(vmm, signal.SIGCONT)
        keeping.join()
    equal(answers[0].status, 201, answers)
    equal(d.delete("/v1/snapshots/slow").status, 200)
    before = time.time()
    now = float(shared.sh("date +%s.%N")["stdout"])
    check(before - 2 < now < time.time() + 2, (before, now, time.time()))


def rooms():
    """What the groups of the machines that run may use."""
    limits = []
    for pid in emulators():
        group = [x for x in proc_bytes(pid, "cgroup").decode().splitlines() if x.startswith("0::") or ":memory:" in x][-1].split(":")
        for path in (f"/sys/fs/cgroup{group[2]}", f"/sys/fs/cgroup/memory{group[2]}"):
            for name in ("memory.max", "memory.limit_in_bytes"):
                if os.path.exists(os.path.join(path, name)):
                    with open(os.path.join(path, name)) as f:
                        limits.append(f.read().strip())
    return sorted(limits)


@test("a machine that is restored and kept again and again is given room once")
def test_room_does_not_grow():
    seen = []
    for _ in range(3):
        equal(post(shared.path + "/restore", {"snapshot": "first"}).status, 200)
        equal(post(shared.path + "/snapshot", {"name": "round"}).status, 201)
        equal(d.delete("/v1/snapshots/round").status, 200)
        seen.append(rooms())
    if not seen[0]:
        raise Skip("machines have no memory group here")
    equal((seen[1], seen[2]), (seen[0], seen[0]))


@full("a command that runs when its sandbox is copied goes on there, and ends in the copy")
def test_commands_end_in_copies():
    e = d.post(shared.path + "/exec", {"command": ["sh", "-c", "echo $$ > /workspace/pid; exec sleep 1000"], "async": True}).json["exec_id"]
    wait_for(lambda: shared.sh("cat /workspace/pid")["stdout"].strip(), "it runs")
    a = post(shared.path + "/fork", {})
    equal(a.status, 201, a)
    copy = Sandbox(d, a.json["sandboxes"][0])
    equal(copy.sh("kill -0 $(cat /workspace/pid) 2>/dev/null; echo $?")["stdout"], "1\n")
    equal(shared.sh("kill -0 $(cat /workspace/pid); echo $?")["stdout"], "0\n")
    equal(d.get(f"{shared.path}/execs/{e}").json["status"], "running")
    equal(d.get(f"{copy.path}/execs").json["execs"][0]["status"], "completed")
    equal(d.post(f"{shared.path}/execs/{e}/cancel", {}).status, 200)
    equal(copy.delete().status, 200)


@full("a disk of the machine's own is copied, and its copies do not meet")
def test_a_disk_is_copied():
    with box(limits={"memory_mb": 160, "disk_mb": 180}) as sb:
        equal(sb.created["effective"]["disk"]["by"], "loop image")
        sb.sh("head -c 3000000 /dev/urandom > /workspace/data; echo old > /workspace/file; sync")
        sum_of = sb.sh("sha256sum < /workspace/data")["stdout"]
        a = post(sb.path + "/fork", {"count": 2})
        equal(a.status, 201, a)
        copies = [Sandbox(d, c) for c in a.json["sandboxes"]]
        for i, c in enumerate(copies):
            equal(c.sh("sha256sum < /workspace/data; cat /workspace/file")["stdout"], sum_of + "old\n")
            c.sh(f"echo {i} > /workspace/file; head -c 1000000 /dev/zero > /workspace/data; sync")
        equal([c.sh("cat /workspace/file; wc -c < /workspace/data")["stdout"] for c in copies], ["0\n1000000\n", "1\n1000000\n"])
        equal(sb.sh("cat /workspace/file; sha256sum < /workspace/data")["stdout"], "old\n" + sum_of)
        a = post(sb.path + "/restore", {"snapshot": "first"})
        check(a.status == 400 and "other limits" in a.json["error"]["message"], a)
        equal(sb.sh("cat /workspace/file")["stdout"], "old\n")  # it was left as it is
        for c in copies:
            equal(c.delete().status, 200)


@test("what cannot be is refused by name")
def test_refusals():
    for path, body, status, word in (
            ("/snapshot", {}, 400, "name"), ("/snapshot", {"name": "A b"}, 400, "name"), ("/snapshot", {"name": "first"}, 409, "first"),
            ("/snapshot", {"name": "x", "more": 1}, 400, "more"), ("/fork", {"count": 0}, 400, "count"), ("/fork", {"count": 17}, 400, "count"),
            ("/restore", {"snapshot": "none"}, 404, "none"), ("/restore", {}, 400, "snapshot")):
        a = post(shared.path + path, body)
        check(a.status == status and word in a.json["error"]["message"], (path, body, a))
    equal(post(shared.path + "/snapshot", {"name": "second"}).status, 201)
    a = post(shared.path + "/snapshot", {"name": "third"})
    check(a.status == 429 and "max_snapshots" in a.json["error"]["message"], a)
    equal(d.post(shared.path + "/pause").status, 200)
    a = post(shared.path + "/snapshot", {"name": "third"})
    check(a.status == 409 and "paused" in a.json["error"]["message"], a)
    equal(d.post(shared.path + "/resume").status, 200)
    with box(runtime="local") as sb:
        for path, body in (("/snapshot", {"name": "x"}), ("/fork", {}), ("/restore", {"snapshot": "first"})):
            a = post(sb.path + path, body)
            check(a.status == 400 and a.json["error"]["code"] == "unsupported" and "microvm" in a.json["error"]["message"], a)


@full("snapshots outlive kill -9 of everything, and are removed with their files")
def test_snapshots_outlive_the_daemon():
    names = [k["name"] for k in d.get("/v1/snapshots").json["snapshots"]]
    equal(names, ["first", "second"])
    os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
    wait_for(lambda: d.get("/healthz").status == 200, "another control plane")
    equal([k["name"] for k in d.get("/v1/snapshots").json["snapshots"]], names)
    equal(post(shared.path + "/restore", {"snapshot": "second"}).status, 200)
    check(count(shared) > 0, "it works")
    os.kill(d.get("/v1/status").json["warden_pid"], signal.SIGKILL)
    d.process.wait()
    d.start()
    equal([k["name"] for k in d.get("/v1/snapshots").json["snapshots"]], names)
    with box() as other:  # another sandbox of that size, made by another daemon
        n_before = other.sh("cat /workspace/file 2>/dev/null")["stdout"]
        equal(n_before, "")
        equal(post(other.path + "/restore", {"snapshot": "first"}).status, 200)
        equal(other.sh("cat /workspace/file")["stdout"], "first\n")
        check(count(other) > 0, "its processes are there")
    for name in names:
        equal(d.delete("/v1/snapshots/" + name).status, 200)
        equal(d.delete("/v1/snapshots/" + name).status, 404)
    equal((saved_files(), d.get("/v1/snapshots").json["snapshots"]), ([], []))


@full("a copy has no rules that end some day")
def test_timed_rules_are_not_copied():
    with box(network={"allow": [{"host": "always.example", "ports": [80]}]}) as sb:
        a = d.request("PATCH", sb.path + "/network", {"allow": [{"host": "once.example", "ports": [80], "for": "1h"}]})
        equal(a.status, 200, a)
        check("once.example" in d.get(sb.path + "/network").body.decode(), "the first has it")
        a = post(sb.path + "/fork", {})
        equal(a.status, 201, a)
        with Sandbox(d, a.json["sandboxes"][0]) as copy:
            rules = d.get(copy.path + "/network").body.decode()
            check("always.example" in rules and "once.example" not in rules, rules)


@full("copies of a machine whose image is denied by now are not made")
def test_copies_of_a_denied_image():
    head = "version: 1\ndefault: allow\nrules:\n"
    flags = ("--create-ready-timeout", f"{BOOT_S}s")
    with Guarded(head + "  - {id: none, verdict: deny, image: other}\n", *flags, runtime="microvm") as guarded:
        sb = box(guarded, image="default")
        guarded.replace(head + "  - {id: no-more, verdict: deny, image: default}\n")
        a = guarded.request("POST", sb.path + "/fork", {}, timeout=WAIT)
        check(a.status == 403 and "no-more" in a.body.decode(), a)
        equal(len(guarded.get("/v1/sandboxes").json["sandboxes"]), 1)


@test("snapshots that belong to no key any more are an operator's to remove")
def test_operators_remove_snapshots():
    for k in d.get("/v1/snapshots").json["snapshots"]:
        equal(d.delete("/v1/snapshots/" + k["name"]).status, 200)
    with box() as sb:
        equal(post(sb.path + "/snapshot", {"name": "left"}).status, 201)
    d.stop()
    keys = {}
    for role in ("agent", "operator"):
        p = subprocess.run([SBX, "keys", "add", role, "-roles", role, "-state-dir", os.path.join(d.dir, "state")],
                           capture_output=True, text=True)
        equal(p.returncode, 0, p.stderr)
        keys[role] = {"Authorization": "Bearer " + dict(x.split("=", 1) for x in p.stdout.split())["secret"]}
    d.token = keys["operator"]["Authorization"].split()[1]
    d.start()
    for query in ("", "?owner="):
        equal(d.request("DELETE", "/v1/snapshots/left" + query, headers=keys["agent"]).status, 404)
    a = d.request("GET", "/v1/snapshots", headers=keys["operator"])
    equal([(k["name"], k["owner"]) for k in a.json["snapshots"]], [("left", "")])
    equal(d.request("DELETE", "/v1/snapshots/left?owner=key_other", headers=keys["operator"]).status, 404)

    def sbx(*words):
        return subprocess.run([SBX, *words, "-addr", f"http://127.0.0.1:{d.port}", "-token", d.token], capture_output=True, text=True)
    check("OWNER" in sbx("snapshot", "ls").stdout, "whose they are")
    p = sbx("snapshot", "rm", "-owner", "key_other", "left")
    check(p.returncode != 0 and "left" in p.stderr, p)
    p = sbx("snapshot", "rm", "-owner", "", "left")
    equal((p.returncode, p.stdout), (0, "deleted\n"), p)
    equal(saved_files(), [])


main()
