#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Many clients, a control plane that is killed every few seconds and a main process that is killed
now and then. What each command prints is known, so every byte is checked.

    SOAK_SECONDS=600 SOAK_CLIENTS=6 SOAK_SEED=1 tests/soak/soak.py

Rules that must hold, whatever is killed when:
  - an exec id that was answered is found again, with a status that is true, until its sandbox is deleted;
  - events are numbered from 1 without a gap or a repetition, start first, exit last and once;
  - a command that was not killed printed exactly its bytes, a killed one a beginning of them;
  - what a stream showed is what the logs say later;
  - after the main process' death everything that lived is reported as crashed, and everything that was
    answered before is known with the same status and the same bytes;
  - a write through a link is decided by the policy of that moment and by where the link leads;
  - a key whose revocation was answered never opens anything again;
  - changes (/v1/events) have every number once and in order over all kills, and tell of each change of an object once;
  - in the end nothing is left: process, mount, loop device, cgroup, file, row, descriptor, memory.
"""
import collections
import glob
import hashlib
import os
import random
import re
import sqlite3
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
CLIENTS = int(os.environ.get("SOAK_CLIENTS", "6"))
SEED = int(os.environ.get("SOAK_SEED", "0")) or random.randrange(1, 1 << 30)
# Seconds between two kills of the control plane, and of the main process: from, to.
CONTROL_EVERY = tuple(float(x) for x in os.environ.get("SOAK_CONTROL", "1,5").split(","))
WARDEN_EVERY = tuple(float(x) for x in os.environ.get("SOAK_WARDEN", "40,80").split(","))
QUIET_SHARE = 0.2              # of the time, at the end, without kills: memory is measured
SANDBOXES_EACH = 3
EXECS_EACH = 24                # remembered in one sandbox before it is deleted
RETRY_SECONDS = 60
ARMED_SECONDS = 3              # for the next answer, before the main process is killed without one
SETTLE_SECONDS = 4             # without a change, before descriptors are counted: the pool is full, helpers have ended
RSS_GROWTH_KB = 8192
PREFIX = f"mas-sandbox-soak{os.getpid()}-"  # two may run at once
TOKEN = "soak-token-of-the-operator"
POLICY_EVERY = (2.0, 6.0)      # seconds between two policies
# Two policies; each denies writing into another directory of a sandbox.
POLICIES = {name: f"version: 1\ndefault: allow\nrules:\n"
                  f"  - {{id: deny-{name}, verdict: deny, write: /workspace/{name}/**}}\n"
                  f"  - {{id: rest, verdict: allow, command: '*'}}\n" for name in ("one", "two")}
CONFIG = f"""
max_idempotency_keys: 400000
max_idempotency_keys_per_key: 200000
idle_ttl: 0
control_restarts: 1000
control_restart_window: 1s
kill_grace: 1s
max_execs_per_sandbox: 256
cgroup_prefix: {PREFIX}
events_max: 20000
"""

# Runs on both sides. A plan is a list of (stream, bytes, pause).
GENERATOR = r'''
import random
def plan(seed):
    r = random.Random(seed)
    kind = r.choice(["lines", "lines", "binary", "utf8", "large", "quiet", "slow", "both"])
    code = r.choice([0, 0, 0, 1, 3, 77, 255])
    out = []
    n = {"lines": 40, "binary": 12, "utf8": 30, "large": 24, "quiet": 0, "slow": 25, "both": 30}[kind]
    n = r.randint(0, n) if n else 0
    for i in range(n):
        stream = r.choice([1, 2]) if kind in ("both", "utf8", "binary") else 1
        pause = r.choice([0, 0, 0, 0.01, 0.05]) if kind != "slow" else r.uniform(0.05, 0.3)
        if kind == "binary":
            data = r.randbytes(r.randint(1, 9000))
        elif kind == "large":
            data = (b"%08d " % i) * r.randint(1, 9000)
        elif kind == "utf8":
            text = "".join(r.choice("a\u00e4\u20ac\U0001f600\n") for _ in range(r.randint(1, 60)))
            data = text.encode()
            cut = r.randint(0, len(data))
            out.append((stream, data[:cut], r.choice([0, 0.02])))
            data = data[cut:]
        else:
            data = b"".join(b"line %d %d\n" % (i, k) for k in range(r.randint(1, 8)))
        out.append((stream, data, pause))
    return out, code
'''
RUN = GENERATOR + r'''
import os, sys, time
def put(fd, data):
    while data:
        data = data[os.write(fd, data):]
steps, code = plan(int(sys.argv[1]))
for stream, data, pause in steps:
    put(stream, data)
    if pause:
        time.sleep(pause)
sys.exit(code)
'''
# As code, because the policy would see what a shell line writes to.
LINKS = """
import os
for name in "one", "two":
    os.makedirs(name, exist_ok=True)
    if not os.path.islink("to-" + name):
        os.symlink(name, "to-" + name)
"""
exec(GENERATOR)

counts = collections.Counter()
problems = []
stop_kills = threading.Event()
stop_clients = threading.Event()


class Gone(Exception):
    """The connection broke: nobody knows what became of the request."""


class World:
    """The daemon and its deaths."""

    def __init__(self):
        self.place = tempfile.mkdtemp(prefix="mas-soak-policy-")
        self.policy = os.path.join(self.place, "policy.yaml")
        self.denied = "one"         # what the policy denies to write, and since when that is sure
        self.settled = 0.0
        self.write_policy("one")
        self.daemon = Daemon("--debug-endpoints", "--auth-token", TOKEN, "--policy-file", self.policy,
                             config=CONFIG, env={"MAS_SOAK": "1"})
        self.daemon.token = TOKEN
        self.epoch = 0              # deaths of the main process
        self.kills = []             # (from, to, of what), oldest first: it died in between
        self.lock = threading.Lock()
        self.strike_at = threading.Lock()
        self.armed = False          # the next answer is the last one
        self.struck = threading.Event()
        self.began = 0.0

    def write_policy(self, name):
        with open(self.policy + ".new", "w") as f:
            f.write(POLICIES[name])
        os.rename(self.policy + ".new", self.policy)

    def change_policy(self):
        """The other policy, until the daemon has it. Meanwhile nobody knows which one decides."""
        name = "two" if self.denied == "one" else "one"
        want = hashlib.sha256(POLICIES[name].encode()).hexdigest()
        self.settled = float("inf")
        self.write_policy(name)
        end = time.time() + RETRY_SECONDS
        while time.time() < end:
            try:
                with self.lock:  # not while the next main process starts: it does not listen to signals yet
                    self.daemon.process.send_signal(signal.SIGHUP)
                if self.daemon.get("/v1/status", timeout=5).json["policy"]["revision"] == want:
                    break
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                pass
            time.sleep(0.1)
        else:
            report(f"policy {name} is not loaded")
        self.denied, self.settled = name, time.time()
        counts["policy changes"] += 1

    def control_pid(self):
        try:
            return self.daemon.get("/v1/status", timeout=5).json["pid"]
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return None

    def kill_control(self):
        pid = self.control_pid()
        if pid:
            try:
                began = time.time()
                os.kill(pid, signal.SIGKILL)
                self.kills.append((began, time.time(), "control plane"))
                counts["kills of the control plane"] += 1
            except ProcessLookupError:
                pass

    def strike(self):
        """Kills the main process, once."""
        with self.strike_at:
            if self.armed:
                self.armed = False
                self.epoch += 1
                self.began = time.time()
                self.daemon.process.kill()
                self.struck.set()

    def is_orphan(self, answer):
        """Whether a control plane said this that outlived the main process by a moment."""
        return b"the warden is gone" in answer.body and time.time() - self.began < RETRY_SECONDS

    def told(self):
        """Somebody has just heard of an end: when a record could be missing, it is now."""
        if self.armed:
            self.strike()

    def kill_warden(self):
        with self.lock:
            self.struck.clear()
            self.armed = True
            if not self.struck.wait(ARMED_SECONDS):
                self.strike()
            self.daemon.process.wait()
            self.kills.append((self.began, time.time(), "main process"))
            self.daemon.log.close()
            counts["kills of the main process"] += 1
            self.daemon.start()


world = World()


def clock(t):
    return time.strftime("%H:%M:%S", time.localtime(t)) + f"{t % 1:.4f}"[1:] if t else "never"


def times_of(e):
    """When things happened to an exec, among the kills: a problem is to be a proof and not a guess."""
    first, last = e.begun - 1, (e.final_at or e.answered or time.time()) + 5
    kills = [f"{what} {clock(began)}..{clock(ended)}" for began, ended, what in list(world.kills)
             if ended >= first and began <= last]
    return (f" [epoch {e.epoch}, now {world.epoch}; begun {clock(e.begun)}, answered {clock(e.answered)}, "
            f"end seen {clock(e.final_at)} in {e.final_where}; killed: {'; '.join(kills) or 'nothing'}]")


def report(what, e=None):
    counts["problems"] += 1
    line = f"{time.strftime('%H:%M:%S')} {threading.current_thread().name}: {what}{times_of(e) if e else ''}"
    problems.append(line)
    print("PROBLEM " + (line if len(line) < 2000 else line[:500] + " ... " + line[-1500:]), flush=True)


def call(method, path, body=None, **kw):
    """One request. Gone when the connection broke."""
    try:
        return world.daemon.request(method, path, body, timeout=60, **kw)
    except (OSError, http.client.HTTPException) as e:
        counts["requests that broke"] += 1
        raise Gone(str(e))


def call_again(method, path, body=None, **kw):
    """A request that may be repeated, until it is answered."""
    end = time.time() + RETRY_SECONDS
    while True:
        try:
            return call(method, path, body, **kw)
        except Gone as e:
            if time.time() > end:
                raise RuntimeError(f"no answer within {RETRY_SECONDS} s: {method} {path}: {e}")
            time.sleep(0.05)


class Exec:
    def __init__(self, seed, id_, how, epoch, begun):
        self.seed, self.id, self.how, self.epoch = seed, id_, how, epoch
        self.begun, self.answered = begun, time.time()
        self.killed = False     # we asked for its end, perhaps in vain
        self.events = []        # as a stream showed them
        self.final = None       # status and exit code, once seen
        self.final_at, self.final_where = 0.0, "nothing"
        self.timeout = how == "timed"
        steps, self.code = ([], None) if self.timeout else plan(seed)
        self.want = {s: b"".join(d for t, d, _ in steps if t == s) for s in (1, 2)}


class Box:
    def __init__(self, id_, epoch, alias, narrow):
        self.id, self.path, self.epoch = id_, "/v1/sandboxes/" + id_, epoch
        self.alias, self.narrow = alias, narrow  # narrow: its policy allows three tools and nothing else
        self.execs = []
        self.files = {}
        self.deleting = False


def event_bytes(v):
    return base64.b64decode(v["data_base64"]) if "data_base64" in v else v["data"].encode()


def bytes_of(events):
    out = {1: b"", 2: b""}
    for v in events:
        if v["type"] == "output":
            out[1 if v["stream"] == "stdout" else 2] += event_bytes(v)
    return out


def check_order(e, events, whole, where):
    seqs = [v["seq"] for v in events]
    if seqs != list(range(1, len(seqs) + 1)):
        odd = [i for i, s in enumerate(seqs) if s != i + 1][:3]
        report(f"{e.id} ({where}): sequence numbers wrong at {odd}, {len(seqs)} events: {seqs[:5]}...{seqs[-5:]}", e)
    types = [v["type"] for v in events]
    if types and types[0] != "start":
        report(f"{e.id} ({where}): the first event is {types[0]}", e)
    if "exit" in types[:-1] or (whole and types[-1:] != ["exit"]):
        report(f"{e.id} ({where}): exit is not last or not there: {types[-4:]} of {len(types)}", e)
    if set(types) - {"start", "output", "exit"}:
        report(f"{e.id} ({where}): unexpected events {set(types)}", e)


def check_bytes(e, got, whole, where):
    for s in (1, 2):
        want = e.want[s]
        good = got[s] == want if whole else want.startswith(got[s])
        counts["bytes checked"] += len(got[s])
        if not good:
            at = next((i for i, (a, b) in enumerate(zip(got[s], want)) if a != b), min(len(got[s]), len(want)))
            report(f"{e.id} ({where}, {e.how}, seed {e.seed}): stream {s} has {len(got[s])} bytes, "
                   f"{len(want)} are right; differs at {at}: {got[s][at:at+40]!r} not {want[at:at+40]!r}", e)


def outcome(status):
    return status["status"], status.get("exit_code")


def is_crash(status):
    return status["status"] == "failed" and "sandbox_crash" in status.get("error", "")


def check_status(e, status, where, crashed_allowed):
    """A final status must be the truth, and must not change."""
    now = outcome(status)
    if now == ("completed", e.code) or (e.timeout and now[0] == "timed_out"):
        pass
    elif e.killed and (now[0] == "canceled" or now == ("failed", 137) or now == ("failed", 143)):
        pass
    elif crashed_allowed and is_crash(status):
        pass
    else:
        report(f"{e.id} ({where}, {e.how}): {now} {status.get('error')!r}, want ('completed', {e.code})"
               f"{' or killed' if e.killed else ''}", e)
    if e.final and e.final != now:
        report(f"{e.id} ({where}, {e.how}): was {e.final}, now {now} {status.get('error')!r}", e)
    if not e.final:
        e.final, e.final_at, e.final_where = now, time.time(), where
        world.told()


class Client(threading.Thread):
    def __init__(self, number):
        super().__init__(name=f"client-{number}", daemon=True)
        self.r = random.Random(SEED * 1000 + number)
        self.boxes = []

    def run(self):
        while not stop_clients.is_set():
            try:
                self.step()
            except Gone:
                pass
            except Exception:
                report(traceback.format_exc())
        for b in list(self.boxes):
            try:
                self.finish(b)
            except Exception:
                report(traceback.format_exc())

    def step(self):
        for b in list(self.boxes):
            if b.epoch != world.epoch:
                self.finish(b)
        if not self.boxes or (len(self.boxes) < SANDBOXES_EACH and self.r.random() < 0.15):
            self.create()
            return
        b = self.r.choice(self.boxes)
        if len(b.execs) >= EXECS_EACH or self.r.random() < 0.02:
            self.finish(b)
            return
        ops = [(self.begin, 6), (self.sync, 4), (self.follow, 5), (self.look, 4), (self.cancel, 1),
               (self.kill, 1), (self.upload, 2), (self.download, 2), (self.tool, 1), (self.one_shot, 1),
               (self.timed, 1), (self.input, 1), (self.keyed, 1), (self.through_link, 3), (self.revoke, 1)]
        op = self.r.choices([o for o, _ in ops], [w for _, w in ops])[0]
        (self.denied if b.narrow else op)(b)

    # --- sandboxes

    def create(self):
        epoch = world.epoch
        kind = self.r.choice(["native", "a", "b"])
        alias, narrow = None, False
        if kind == "native":
            a = call("POST", "/v1/sandboxes", {"env": {"SOAK": "1"}})
        elif kind == "a":
            alias = f"agent-{self.r.randrange(1 << 40):x}"
            narrow = self.r.random() < 0.4
            policy = {"policy": {"AllowedTools": ["calculator", "file_write", "file_read"]}} if narrow else {}
            a = call("POST", "/v1/sandbox/create", dict(policy, sandbox_id=alias))
        else:
            a = call("POST", "/sandboxes", {"command": ["sleep", "5"]} if self.r.random() < 0.3 else {})
        if a.status not in (200, 201):
            if epoch == world.epoch and not world.is_orphan(a):  # else: "the warden is gone", and so it was
                report(f"create {kind}: {a}")
            return
        b = Box(a.json.get("id") or alias, epoch, alias, narrow)
        self.boxes.append(b)
        if epoch != world.epoch:
            self.find_epoch(b)
        counts[f"creates ({kind})"] += 1

    def find_epoch(self, b):
        """The main process died during its creation: which of the two made it?"""
        with world.lock:
            epoch = world.epoch
            a = call_again("GET", b.path)
        if a.status != 200:
            report(f"{b.id}, whose creation was answered, is not found: {a}")
        elif a.json["state"] != "crashed":
            b.epoch = epoch

    def finish(self, b):
        """Looks at everything a last time, then deletes it."""
        lost = self.is_lost(b)
        for e in b.execs:
            self.verify(b, e, lost)
        if not lost and self.is_lost(b):
            return  # died meanwhile: the next round looks again
        b.deleting = True
        for _ in range(20):
            a = call_again("DELETE", b.path)
            if a.status in (200, 204, 404):
                break
            time.sleep(0.1)
        else:
            report(f"delete {b.id}: {a}")
        if call_again("GET", b.path).status != 404:
            report(f"{b.id} is there after its deletion")
        counts["deletes"] += 1
        self.boxes.remove(b)

    def is_lost(self, b):
        """Whether the main process died under it; then it must say so."""
        if b.epoch == world.epoch:
            return False
        with world.lock:
            pass  # until the next one runs
        a = call_again("GET", b.path)
        if a.status != 200 or a.json["state"] != "crashed":
            report(f"{b.id} of an earlier main process: {a}")
        counts["sandboxes reported as crashed"] += 1
        return True

    # --- execs

    def exec_path(self, b, e):
        return f"{b.path}/execs/{e.id}"

    def command(self, seed):
        return ["python3", "-S", "-c", RUN, str(seed)]

    def begin(self, b):
        seed = self.r.randrange(1 << 40)
        path = (b.path if self.r.random() < 0.5 else "/sandboxes/" + b.id) + "/exec"
        begun = time.time()
        a = call("POST", path, {"command": self.command(seed), "async": True})
        if self.refused(b, a):
            return
        b.execs.append(Exec(seed, a.json["exec_id"], "async", b.epoch, begun))
        counts["async execs"] += 1

    def refused(self, b, a):
        """Only a sandbox that died with the main process refuses."""
        if a.status == 200:
            return False
        if b.epoch == world.epoch:
            report(f"exec in {b.id}: {a}")
        raise Gone("refused")

    def sync(self, b):
        seed = self.r.randrange(1 << 40)
        epoch, begun = world.epoch, time.time()
        a = call("POST", b.path + "/exec", {"command": self.command(seed)})
        if self.refused(b, a):
            return
        got = a.json
        e = Exec(seed, got["exec_id"], "sync", b.epoch, begun)
        crashed = is_crash(got)
        if crashed and epoch == world.epoch:
            report(f"{e.id}: {got.get('error')}", e)
        check_status(e, got, "answer", crashed)
        out = {s: base64.b64decode(got[k + "_base64"]) if k + "_base64" in got else got[k].encode()
               for s, k in ((1, "stdout"), (2, "stderr"))}
        check_bytes(e, out, got["status"] == "completed", "answer")
        b.execs.append(e)
        counts["sync execs"] += 1

    def one_shot(self, b):
        seed, epoch, begun = self.r.randrange(1 << 40), world.epoch, time.time()
        a = call("POST", "/v1/run", {"command": self.command(seed)})
        if a.status != 200:
            if epoch == world.epoch and not world.is_orphan(a):
                report(f"/v1/run: {a}")
            return
        e, got = Exec(seed, "one-shot", "run", epoch, begun), a.json
        out = {s: base64.b64decode(got[k + "_base64"]) if k + "_base64" in got else got[k].encode()
               for s, k in ((1, "stdout"), (2, "stderr"))}
        check_status(e, got, "answer", epoch != world.epoch)
        check_bytes(e, out, got["status"] == "completed", "answer")
        counts["one-shots"] += 1

    def timed(self, b):
        """A command that ends by its timeout, also when nobody was there to see it."""
        begun = time.time()
        a = call("POST", b.path + "/exec", {"command": ["sleep", "100"], "async": True,
                                            "timeout_ms": self.r.choice([500, 3000])})
        if self.refused(b, a):
            return
        b.execs.append(Exec(0, a.json["exec_id"], "timed", b.epoch, begun))
        counts["execs with a timeout"] += 1

    def input(self, b):
        text = "".join(chr(self.r.randrange(32, 0x2000)) for _ in range(self.r.choice([1, 1000, 100000])))
        a = call("POST", b.path + "/exec", {"command": ["cat"], "stdin": text})
        if self.refused(b, a):
            return
        if a.json["stdout"] != text and b.epoch == world.epoch:
            report(f"cat in {b.id}: {len(a.json['stdout'])} characters, {len(text)} are right: {outcome(a.json)}")
        counts["execs with input"] += 1

    def keyed(self, b):
        """One-shots that are repeated with their key until they are answered; short, or they never are."""
        body, headers = {"command": ["echo", str(self.r.random())]}, {"Idempotency-Key": f"key-{self.r.random()}"}
        first, second = (call_again("POST", "/v1/run", body, headers=headers) for _ in range(2))
        if first.status != 200 or first.json["stdout"] != body["command"][1] + "\n":
            report(f"/v1/run with a key: {first}")
        elif second.json != first.json:
            report(f"/v1/run with a key: {first}, then {second}")
        counts["keyed one-shots"] += 1

    def running(self, b):
        return [e for e in b.execs if not e.final]

    def follow(self, b):
        """A WebSocket or NDJSON stream, left after a while, resumed later."""
        some = self.running(b) or b.execs
        if not some:
            return
        e = self.r.choice(some)
        since = len(e.events)
        counts["streams"] += 1
        if since:
            counts["streams resumed"] += 1
        try:
            if self.r.random() < 0.6:
                self.follow_ws(b, e, since)
            else:
                self.follow_ndjson(b, e, since)
        finally:
            check_order(e, e.events, False, "stream")
            check_bytes(e, bytes_of(e.events), False, "stream")
        if e.events and e.events[-1]["type"] == "exit":
            check_status(e, e.events[-1], "exit event", b.epoch != world.epoch)

    def take(self, e, text):
        e.events.append(json.loads(text))
        counts["events streamed"] += 1

    def follow_ws(self, b, e, since):
        leave = self.r.choice([3, 30, 10 ** 9])
        try:
            ws = world.daemon.ws(f"/sandboxes/{b.id}/stream?exec_id={e.id}&since={since}")
            ws.sock.settimeout(30)
        except (OSError, AssertionError) as problem:
            raise Gone(str(problem))
        if ws.status != 101:
            ws.close()
            if b.epoch == world.epoch:
                report(f"stream of {e.id}: {ws.head}")
            raise Gone("refused")
        try:
            for m in ws.messages():
                self.take(e, m)
                leave -= 1
                if leave == 0:
                    break
        except (OSError, EOFError):
            pass
        finally:
            ws.close()

    def follow_ndjson(self, b, e, since):
        leave = self.r.choice([3, 30, 10 ** 9])
        conn = http.client.HTTPConnection("127.0.0.1", world.daemon.port, timeout=30)
        try:
            conn.request("GET", f"{self.exec_path(b, e)}/logs?follow=1&since={since}", headers={"Authorization": "Bearer " + TOKEN})
            r = conn.getresponse()
            if r.status != 200:
                if b.epoch == world.epoch:
                    report(f"logs of {e.id}: {r.status} {r.read()[:200]}")
                raise Gone("refused")
            while leave:
                line = r.readline()
                if not line.endswith(b"\n"):
                    break
                self.take(e, line)
                leave -= 1
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            conn.close()

    def look(self, b):
        if not b.execs:
            return
        e = self.r.choice(b.execs)
        a = call("GET", self.exec_path(b, e))
        if a.status != 200:
            report(f"{e.id} ({e.how}) is not found: {a}", e)
        elif a.json["status"] not in ("running", "canceling"):
            check_status(e, a.json, "status", b.epoch != world.epoch)
        elif e.final:
            report(f"{e.id} ({e.how}) was {e.final}, now {a.json['status']}", e)
        counts["status looks"] += 1

    def cancel(self, b):
        some = self.running(b)
        if not some:
            return
        e = self.r.choice(some)
        e.killed = True
        a = call("POST", self.exec_path(b, e) + "/cancel")
        if a.status not in (200, 409) and b.epoch == world.epoch:
            report(f"cancel {e.id}: {a}")
        counts["cancels"] += 1

    def kill(self, b):
        some = self.running(b)
        if not some:
            return
        e = self.r.choice(some)
        e.killed = True
        a = call("POST", self.exec_path(b, e) + "/signal", {"signal": self.r.choice(["KILL", "TERM"])})
        if a.status not in (200, 409) and b.epoch == world.epoch:
            report(f"signal {e.id}: {a}")
        counts["signals"] += 1

    # --- files and tools

    def upload(self, b):
        name = f"file-{self.r.randrange(4)}"
        data = self.r.randbytes(self.r.choice([0, 1, 1000, 300000, 3000000]))
        b.files.pop(name, None)
        a = call("PUT", f"{b.path}/files/content?path=/workspace/{name}", data)
        if a.status != 200:
            if b.epoch == world.epoch:
                report(f"upload to {b.id}: {a}")
            raise Gone("refused")
        b.files[name] = data
        counts["uploads"] += 1

    def through_link(self, b):
        """Links that change places all the time: only where one leads counts, and the policy of the moment."""
        a = call("POST", b.path + "/exec", {"command": ["python3", "-S", "-c", LINKS]})
        if self.refused(b, a):
            return
        name, nested = self.r.choice(["one", "two"]), self.r.choice(["", "/."])
        settled, denied, began = world.settled, world.denied, time.time()
        a = call("PUT", f"{b.path}/files/content?path=/workspace/to-{name}{nested}/f", b"x")
        sure = settled < began and world.settled == settled
        if b.epoch != world.epoch:
            raise Gone("refused")
        if a.status not in (200, 403) or (sure and (a.status == 403) != (name == denied)):
            report(f"write through a link into '{name}' while '{denied}' is denied (sure: {sure}): {a}")
        counts[f"writes through links ({a.status})"] += 1

    def revoke(self, b):
        a = call("POST", "/v1/keys", {"name": f"soak {self.r.randrange(1 << 30)}", "roles": ["agent"]})
        if a.status not in (200, 201):
            report(f"make a key: {a}")
            return
        key, own = a.json["id"], {"Authorization": "Bearer " + a.json["secret"]}
        a = call_again("POST", "/v1/run", {"command": ["true"]}, headers=own)
        if a.status not in (200, 502, 503):
            report(f"run with a fresh key: {a}")
        a = call_again("DELETE", f"/v1/keys/{key}")
        if a.status not in (200, 409):
            report(f"revoke: {a}")
        for _ in range(3):
            a = call_again("POST", "/v1/run", {"command": ["true"]}, headers=own)
            if a.status != 401:
                report(f"run with a revoked key: {a}")
            time.sleep(0.2)
        counts["keys revoked"] += 1

    def download(self, b):
        if not b.files:
            return
        name = self.r.choice(list(b.files))
        a = call("GET", f"{b.path}/files/content?path=/workspace/{name}")
        if a.status != 200:
            if b.epoch == world.epoch:
                report(f"download from {b.id}: {a}")
            raise Gone("refused")
        if a.body != b.files[name]:
            report(f"download from {b.id}: {len(a.body)} bytes, {len(b.files[name])} are right")
        counts["downloads"] += 1

    def denied(self, b):
        """The policy holds on every way in, before and after restarts."""
        if self.r.random() < 0.7:
            self.tool(b)
            return
        a = call("POST", b.path + "/exec", {"command": ["true"], "async": True})
        if a.status != 403 and b.epoch == world.epoch:
            report(f"a command that the policy forbids: {a}")
        counts["commands denied by policy"] += 1

    def tool(self, b):
        if not b.alias:
            return
        name, args, want = self.r.choice([("calculator", {"expression": "6*7"}, 42),
                                          ("shell", {"command": "id"}, None)][:2 if b.narrow else 1])
        a = call("POST", "/v1/sandbox/execute",
                 {"sandbox_id": b.alias, "tool": {"name": name, "args": args}})
        if b.epoch != world.epoch:
            return
        got = a.json
        if want is None and got.get("error", {}).get("message") != "tool not allowed":
            report(f"a tool that the policy forbids: {a}")
        if want is not None and (got.get("result") or {}).get("result") != want:
            report(f"calculator: {a}")
        counts["tool calls"] += 1

    # --- the last look

    def verify(self, b, e, lost):
        end = time.time() + 90
        while True:
            a = call_again("GET", self.exec_path(b, e))
            lost = lost or b.epoch != world.epoch
            if a.status != 200:
                report(f"{e.id} ({e.how}) is not found: {a}, lost={lost}", e)
                return
            if a.json["status"] not in ("running", "canceling"):
                break
            if time.time() > end:
                report(f"{e.id} ({e.how}) does not end: {a}", e)
                return
            time.sleep(0.1)
        check_status(e, a.json, "last look", lost)
        self.verify_logs(b, e, a.json)

    def verify_logs(self, b, e, status):
        whole = status["status"] == "completed"
        for _ in range(100):
            a = call_again("GET", self.exec_path(b, e) + "/logs")
            if a.status != 200:
                report(f"logs of {e.id}: {a}", e)
                return
            events = [json.loads(x) for x in a.body.splitlines() if x.endswith(b"}")]
            if events and events[-1]["type"] == "exit":
                break
            time.sleep(0.05)  # the connection broke in the middle
        check_order(e, events, True, "logs")
        check_bytes(e, bytes_of(events), whole, "logs")
        if outcome(events[-1]) != outcome(status):
            report(f"{e.id}: the exit event says {outcome(events[-1])}, the status {outcome(status)}", e)
        seen = e.events
        if events[:len(seen)] != seen:
            at = next(i for i, v in enumerate(seen) if i >= len(events) or events[i] != v)
            report(f"{e.id}: a stream showed {str(seen[at])[:300]}, the logs say "
                   f"{str(events[at] if at < len(events) else None)[:300]}", e)
        counts["execs checked to the last byte" if whole else "killed execs checked"] += 1


class Changes(threading.Thread):
    """Follows the journal of changes as the operator, who is told of all; comes back with its last number."""

    def __init__(self):
        super().__init__(daemon=True, name="changes")
        self.last, self.seen = 0, set()

    def run(self):
        while not stop_clients.is_set():
            try:
                self.follow()
            except BROKEN:
                pass
            except Exception:
                report(traceback.format_exc())
            time.sleep(0.02)

    def follow(self):
        conn = http.client.HTTPConnection("127.0.0.1", world.daemon.port, timeout=1)  # then it comes back
        try:
            conn.request("GET", "/v1/events", headers={"Accept": "text/event-stream", "Authorization": "Bearer " + TOKEN,
                                                       "Last-Event-ID": str(self.last)})
            answer = conn.getresponse()
            if answer.status != 200:
                return
            counts["readers of changes"] += 1
            for line in answer:
                if line.startswith(b"data: ") and line.endswith(b"}\n"):
                    self.take(json.loads(line[6:]))
                if stop_clients.is_set():
                    return
        finally:
            conn.close()

    def take(self, e):
        what = (e["id"], e["type"]) if "id" in e else e
        if e["seq"] != self.last + 1:
            report(f"after change {self.last} comes {e}")
        if e["type"] in ("sandbox.created", "sandbox.crashed", "sandbox.deleted", "exec.started", "exec.ended"):
            if what in self.seen:
                report(f"told twice: {e}")
            self.seen.add(what)
        self.last = e["seq"]
        counts["changes"] += 1


def governor(until):
    r = random.Random(SEED + 1)
    while time.time() < until and not stop_clients.wait(r.uniform(*POLICY_EVERY)):
        try:
            world.change_policy()
        except Exception:
            report(traceback.format_exc())


def killer(until):
    r = random.Random(SEED)
    next_warden = time.time() + r.uniform(*WARDEN_EVERY)
    while time.time() < until:
        if stop_kills.wait(r.uniform(*CONTROL_EVERY)):
            return
        try:
            if time.time() > next_warden:
                world.kill_warden()
                next_warden = time.time() + r.uniform(*WARDEN_EVERY)
            else:
                world.kill_control()
            if world.daemon.process.poll() is not None:
                report(f"the main process has ended: {world.daemon.process.returncode}\n" + world.daemon.log_text())
                stop_clients.set()
                return
        except Exception:
            report(traceback.format_exc())


# --- what is left

def rss_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss_Anon:"))


def descriptors(pid):
    """What they are and how many of each."""
    return collections.Counter(re.sub(r"[0-9]+", "N", link) for link in descriptors_of(pid).values())


def settled_descriptors(pid):
    """Once blanks are made and helpers that come and go have gone."""
    now, since, end = descriptors(pid), time.time(), time.time() + 60
    while time.time() < min(since + SETTLE_SECONDS, end):
        time.sleep(0.1)
        last, now = now, descriptors(pid)
        since = since if last == now else time.time()
    return now


def few_descriptors(pid, was):
    """The same, where there may be leftovers: until there are none, or for long enough."""
    end = time.time() + 60
    now = descriptors(pid)
    while now.total() > was.total() and time.time() < end:
        time.sleep(0.1)
        now = descriptors(pid)
    return now


def own_processes():
    """Of this build: executables in its directory, and commands with our generator."""
    found = []
    for p in all_pids():
        exe, line = proc_link(p, "exe"), command_of(p)
        if exe.startswith(BUILD + "/mas-") or "def plan(seed)" in line or PREFIX in proc_text(p, "cgroup"):
            found.append(f"{p} {exe} {line[:80]!r}")
    return found


def cgroups():
    return glob.glob(f"/sys/fs/cgroup/{PREFIX}*") + glob.glob(f"/sys/fs/cgroup/*/{PREFIX}*")


def mounts(directory):
    with open("/proc/self/mountinfo") as f:
        return [line.strip() for line in f if directory in line]


def loops(directory):
    out = subprocess.run(["losetup", "-n", "-O", "NAME,BACK-FILE"], stdout=subprocess.PIPE, text=True).stdout
    return [line for line in out.splitlines() if directory in line]


def rows(path):
    with sqlite3.connect(path) as db:
        return {t: db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("sandbox", "exec")}


def check_empty(before):
    """The daemon runs, everything is deleted."""
    d = world.daemon
    listed = call_again("GET", "/v1/sandboxes?limit=1000").json["sandboxes"]
    for b in listed:  # whose create was never answered
        counts["sandboxes of creates that broke"] += 1
        call_again("DELETE", "/v1/sandboxes/" + b["id"])
    for what, pid in (("main process", d.process.pid), ("control plane", world.control_pid())):
        was, now = before[what], few_descriptors(pid, before[what])
        print(f"descriptors of the {what}: {was.total()} at the start, {now.total()} at the end")
        if now.total() > was.total():
            report(f"the {what} has {now.total()} descriptors, had {was.total()}; more: {dict(now - was)}, "
                   f"fewer: {dict(was - now)}; all: {dict(now)}")
    wait_until(lambda: not glob.glob(d.state + "/control/ex-*"), 10)
    left = glob.glob(d.state + "/control/ex-*")
    if left:
        report(f"journal files left: {left[:5]}")


def check_stopped(tmp_before):
    d = world.daemon
    started = time.time()
    code = d.stop()
    print(f"stopped with {code} in {time.time() - started:.1f} s")
    if code != 0:
        report(f"the daemon ended with {code}")
    wait_until(lambda: not own_processes() and not cgroups(), 5)
    for what, found in (("process", own_processes()), ("cgroup", cgroups()), ("mount", mounts(d.dir)),
                        ("loop device", loops(d.dir))):
        if found:
            report(f"{what} left: {found[:5]}")
    left = [os.path.relpath(os.path.join(p, f), d.state) for p, _, fs in os.walk(d.state) for f in fs]
    print(f"files in the state directory: {sorted(left)}")
    if any(x.endswith((".dat", ".idx", ".new")) for x in left):
        report(f"journal files left: {left[:5]}")
    kept = {x: os.path.getsize(os.path.join(d.state, x)) for x in left if "/recent-" in x}
    if any(kept.values()):
        report(f"rows that never came to the database: {kept}")
    found = rows(d.state + "/control/state.db")
    print(f"rows: {found}")
    if any(found.values()):
        report(f"rows left: {found}")
    new = {x for x in set(glob.glob("/tmp/mas-sandbox-*")) - tmp_before}
    print(f"temporary directories of daemons, before and now: {len(tmp_before)}, {len(new)} new")


def check_log():
    """Whoever died without our killing it."""
    with open(world.daemon.log_path, errors="replace") as f:
        lines = f.read().splitlines()
    odd = [x for x in lines if ("control plane died" in x and "signal=9" not in x) or "control plane failed" in x
           or "gateway died" in x or "gateway failed" in x or "Sanitizer" in x or "runtime error" in x]
    for x in odd[:5]:
        report("in the log: " + x)
    crashes = [x for x in lines if "sandbox crashed" in x]
    for x in crashes[:5]:
        report("in the log: " + x)


def wait_until(condition, seconds):
    end = time.time() + seconds
    while not condition() and time.time() < end:
        time.sleep(0.05)


def measure(before, quiet):
    """Memory while everything runs and nothing is killed: flat after a first part."""
    pids = {"main process": world.daemon.process.pid, "control plane": world.control_pid()}
    time.sleep(quiet * 0.4)
    first = {k: rss_kb(p) for k, p in pids.items()}
    time.sleep(quiet * 0.6)
    for k, p in pids.items():
        try:
            last = rss_kb(p)
        except OSError:
            report(f"the {k} died by itself:\n" + world.daemon.log_text())
            continue
        print(f"anonymous memory of the {k}: {first[k]} kB, then {last} kB")
        if last > first[k] + RSS_GROWTH_KB:
            report(f"the {k} grew from {first[k]} to {last} kB")


def main_soak():
    print(f"soak: {SECONDS:.0f} s, {CLIENTS} clients, seed {SEED}", flush=True)
    tmp_before = set(glob.glob("/tmp/mas-sandbox-*"))
    d = world.daemon.start()
    try:
        call_again("POST", "/v1/run", {"command": ["true"]})
        before = {"main process": settled_descriptors(d.process.pid),
                  "control plane": settled_descriptors(world.control_pid())}
        quiet = min(SECONDS * QUIET_SHARE, 120)
        clients = [Client(i) for i in range(CLIENTS)]
        hunter = threading.Thread(target=killer, args=[time.time() + SECONDS - quiet], daemon=True)
        ruler = threading.Thread(target=governor, args=[time.time() + SECONDS - quiet], daemon=True)
        changes = Changes()
        for t in clients + [hunter, ruler, changes]:
            t.start()
        hunter.join()
        ruler.join()
        time.sleep(1)
        measure(before, quiet)
        stop_clients.set()
        for t in clients + [changes]:
            t.join(180)
            if t.is_alive():
                report(f"{t.name} hangs")
        check_empty(before)
        check_stopped(tmp_before)
        check_log()
        keep = bool(problems)
        if keep:
            with open("/tmp/mas-soak.log", "w") as f:
                with open(d.log_path, errors="replace") as g:
                    f.write(g.read())
            print("the daemon's log: /tmp/mas-soak.log")
    finally:
        d.__exit__()
        shutil.rmtree(world.place, ignore_errors=True)
    for k in sorted(counts):
        print(f"{counts[k]:>12} {k}")
    print(f"soak: {'FAILED, ' + str(len(problems)) + ' problems' if problems else 'passed'} (seed {SEED})")
    sys.exit(1 if problems else 0)


main_soak()
