#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Everything is killed with -9 right after an answer: what a client was told is true ever after, and an
id that it saw is known."""
import contextlib
import os
import sqlite3
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *

ROUNDS = 8
CLIENTS = 4
ANSWERS = 30  # that are waited for before the kill; a different number in each round


def known(a):
    return a["status"], a.get("exit_code")


def is_end(a):
    return a["status"] not in ("running", "canceling")


class Seen:
    """What was said of one command."""

    def __init__(self, sandbox, id_, want):
        self.path, self.want = f"/v1/sandboxes/{sandbox}/execs/{id_}", want
        self.end = None     # status and exit code
        self.events = []    # of a stream


class Client(threading.Thread):
    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world, self.number, self.seen, self.problem = world, number, [], None
        self.sandbox = world.daemon.post("/v1/sandboxes", {}).json["id"]

    def run(self):
        try:
            for i in range(10 ** 9):
                text = f"{self.number} {i} {self.world.round}"
                (self.sync, self.begin, self.stream, self.listed)[i % 4](text, i % 5)
        except BROKEN + (http.client.HTTPException, ValueError):
            pass  # the daemon is dead: so it should be
        except Exception:
            self.problem = traceback.format_exc()

    def command(self, text, code):
        """Some in memory, some in files."""
        much = 2000 if code == 3 else 1
        return {"command": ["sh", "-c", f"i=0; while [ $i -lt {much} ]; do echo {text} $i {'x' * 40}; "
                                        f"i=$((i+1)); done; exit {code}"]}, \
            "".join(f"{text} {i} {'x' * 40}\n" for i in range(much))

    def ask(self, method, path, body=None):
        a = self.world.daemon.request(method, path, body)
        if a.status != 200 and not self.world.killed:
            raise AssertionError(f"{method} {path}: {a}")
        if a.status != 200:
            raise ValueError("it is dying")
        return a.json

    def post(self, body):
        return self.ask("POST", f"/v1/sandboxes/{self.sandbox}/exec", body)

    def keep(self, id_, want):
        self.seen.append(Seen(self.sandbox, id_, want))
        return self.seen[-1]

    def told(self, s, answer):
        """Counted from here on, and perhaps the last one."""
        if is_end(answer) and "sandbox_crash" not in answer.get("error", ""):
            s.end = known(answer)
        self.world.answered()

    def sync(self, text, code):
        body, want = self.command(text, code)
        a = self.post(body)
        s = self.keep(a["exec_id"], want)
        self.told(s, a)

    def begin(self, text, code):
        body, want = self.command(text, code)
        a = self.post(dict(body, **{"async": True}))
        s = self.keep(a["exec_id"], want)
        self.told(s, a)
        while not s.end:
            self.told(s, self.ask("GET", s.path))

    def stream(self, text, code):
        body, want = self.command(text, code)
        conn = http.client.HTTPConnection("127.0.0.1", self.world.daemon.port, timeout=30)
        try:
            conn.request("POST", f"/v1/sandboxes/{self.sandbox}/exec", json.dumps(dict(body, stream=True)))
            r, s = conn.getresponse(), None
            while True:
                line = r.readline()
                if not line.endswith(b"\n"):
                    return
                v = json.loads(line)
                if "exec_id" not in v:
                    raise ValueError("it is dying") if self.world.killed else AssertionError(v)
                s = s or self.keep(v["exec_id"], want)
                s.events.append(v)
                self.told(s, v if v["type"] == "exit" else {"status": "running"})
        finally:
            conn.close()

    def listed(self, _text, _code):
        """Its id is seen by somebody else first."""
        body = {"command": ["sleep", "60"]}
        waiter = threading.Thread(target=swallow, args=(self.post, body), daemon=True)
        waiter.start()
        found = None
        while not found:
            a = self.ask("GET", f"/v1/sandboxes/{self.sandbox}/execs")
            found = next((e for e in a["execs"] if not is_end(e)), None)
            self.world.answered()
            if not waiter.is_alive():
                return
        s = self.keep(found["exec_id"], None)
        self.told(s, found)
        self.world.daemon.post(f"{s.path}/signal", {"signal": "KILL"})
        waiter.join(30)


def swallow(fn, *args):
    try:
        fn(*args)
    except BROKEN + (http.client.HTTPException, ValueError, AssertionError):
        pass


class World:
    def __init__(self, daemon):
        self.daemon, self.lock, self.left, self.killed, self.round = daemon, threading.Lock(), 0, False, 0

    def answered(self):
        """Counts, and kills at the last: at once, in the thread that has just been told."""
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.killed = True
                self.daemon.process.kill()

    def restart(self):
        self.daemon.process.wait()
        self.daemon.log.close()
        self.daemon.start()
        self.killed = False


def check_seen(d, s, what):
    a = d.get(s.path)
    equal(a.status, 200, f"{what}: an id that was given out: {a}")
    check(is_end(a.json), f"{what}: {a.json}")
    if s.end:
        equal(known(a.json), s.end, f"{what}: {a.json}")
    events = [json.loads(x) for x in d.get(s.path + "/logs").body.splitlines()]
    seen = s.events if s.end else [v for v in s.events if v["type"] != "exit"]
    equal(events[:len(seen)], seen, f"{what}: what its stream showed")
    out = "".join(v["data"] for v in events if v["type"] == "output")
    if s.want is None:
        return
    check(out == s.want if s.end else s.want.startswith(out),
          f"{what}: {len(out)} bytes of output, {len(s.want)} are right, it was told {s.end}")


@test("whatever was answered before kill -9 of everything is known afterwards, with the same bytes")
def test_whatever_was_answered_before_kill_9():
    if os.environ.get("MAS_RUNTIME", "").split("-")[0] in ("podman", "docker"):
        raise Skip("their containers outlive the daemon")
    d = Daemon().start()
    try:
        world, ends = World(d), 0
        for world.round in range(ROUNDS):
            world.left = ANSWERS + 7 * world.round
            clients = [Client(world, i) for i in range(CLIENTS)]
            for c in clients:
                c.start()
            for c in clients:
                c.join(PATIENCE_S)
                check(not c.is_alive() and not c.problem, c.problem or "a client hangs")
            world.restart()
            for c in clients:
                for s in c.seen:
                    check_seen(d, s, f"round {world.round}, {s.path}")
                    ends += bool(s.end)
            for c in clients:
                equal(d.delete(f"/v1/sandboxes/{c.sandbox}").status, 200)
        check(ends > ROUNDS * CLIENTS, f"{ends} ends were told")
        equal(d.stop(), 0)
        equal([os.path.getsize(f"{d.state}/control/recent-{i}.log") for i in (0, 1)], [0, 0], "what is kept in the end")
    finally:
        d.__exit__()


@test("what was kept of a start does not undo an end that the database has")
def test_what_was_kept_of_a_start_does_not_undo_an_end():
    d = Daemon().start()
    try:
        sb = d.sandbox()
        waiter = threading.Thread(target=swallow, args=(sb.sh, "while [ ! -e go ]; do sleep 0.02; done; echo end"),
                                  daemon=True)
        waiter.start()
        kept = f"{d.state}/control/recent-0.log"
        wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] == 1, "the command")
        with contextlib.closing(sqlite3.connect(d.state + "/control/state.db", timeout=PATIENCE_S)) as db:
            db.execute("BEGIN IMMEDIATE")  # so that what is kept stays for as long as we look
            e = d.get(sb.path + "/execs").json["execs"][0]["exec_id"]
            with open(kept, "rb") as f:
                start = f.read()
        check(e.encode() in start, "its start is kept before its id is seen")
        sb.sh("touch go")
        waiter.join(PATIENCE_S)
        d.wait_recorded(e)
        d.process.kill()
        d.process.wait()
        d.log.close()
        with open(kept, "r+b") as f:
            f.truncate(0)
            f.write(start)
        d.start()
        status = d.get(f"{sb.path}/execs/{e}").json
        equal(known(status), ("completed", 0), status)
        check("end" in d.get(f"{sb.path}/execs/{e}/logs").body.decode(), "its output")
    finally:
        d.__exit__()


main()
