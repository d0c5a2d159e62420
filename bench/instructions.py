#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds against each other by the instructions that their daemons carry out for one request in user space.

    instructions.py OLD_BUILD NEW_BUILD [ROW...]      REQUESTS (7) can be set; needs root

Each row prints the median over REQUESTS requests of each build and new/old, for the control plane with its threads, for
the warden, and for both. Instructions are counted by stepping through both processes (bench/steps.c), so that neither
other work on the machine nor its clock matters; the kernel's own are not counted. Every kind of request is warmed up
without that, with the same daemon. WHERE=FILE writes the functions that took most, per build and process.

Steps are slow: about 50,000 a second where the machine has other work. The stream, of four million instructions, takes
a minute and a half per request and build, the others some ten seconds; one more request is made than is counted, and counts
differ by about one per cent, so that REQUESTS=2 is enough. The daemon is that much slower than the command, so that the
output is there before it is read, and comes as one event."""
import bisect
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/lib"))
from masd import Daemon

REQUESTS = int(os.environ.get("REQUESTS", 7))
WARM_UP = 20
QUIET_S = 0.3  # nothing is done any more for a request when nothing was done for so long
PROGRAM = ["/usr/bin/busybox", "true"]


def post(d, path, body):
    a = d.post(path, body, timeout=600)
    if a.status != 200:
        raise SystemExit(f"{d.command[0]}: {path}: {a}")
    return a.json


def stream(d, sb):
    """A command that prints 49 KB, and all of its events over a WebSocket."""
    e = d.post(f"/sandboxes/{sb.id}/exec", {"command": ["/usr/bin/seq", "10000"], "async": True}, timeout=600).json["exec_id"]
    ws = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={e}")
    ws.sock.settimeout(600)
    events = ws.events()
    if sum(len(e["data"]) for e in events if e["type"] == "output") != 48894:
        raise SystemExit(f"{d.command[0]}: the stream is not whole")


ROWS = {
    "exec": ((), lambda d, sb: post(d, sb.path + "/exec", {"command": PROGRAM})),
    "fresh one-shot": ((), lambda d, sb: post(d, "/v1/run", {"command": PROGRAM})),
    "warm one-shot": (("--warm-pool-size", "8"), lambda d, sb: post(d, "/v1/run", {"command": PROGRAM})),
    "stream of 49 KB": ((), stream),
    "tool call": ((), lambda d, sb: post(d, "/v1/sandbox/execute", {"tool": {"name": "calculator", "args": {"expression": "1+1"}}})),
}


class Steps:
    """Steps through the control plane and the warden of a daemon."""

    def __init__(self, d, work, where):
        status = d.get("/v1/status").json
        self.pids = [status["pid"], status["warden_pid"]]
        self.path, self.where = os.path.join(work, "counts"), where
        self.process = subprocess.Popen([os.path.join(work, "steps"), self.path, where or "-", *map(str, self.pids)],
                                        stdout=subprocess.PIPE)
        if self.process.stdout.readline() != b"ready\n":
            raise SystemExit("steps did not start")

    def counts(self):
        """Once nothing has changed for a while."""
        last, since = None, time.monotonic()
        while time.monotonic() - since < QUIET_S:
            with open(self.path, "rb") as f:
                now = struct.unpack("QQ", f.read())
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(QUIET_S / 10)
        return last

    def end(self):
        maps = [open(f"/proc/{pid}/maps").read() for pid in self.pids]
        self.process.terminate()
        self.process.wait()
        return maps


def symbols(path):
    """[(address, name)] of a file's functions, in order"""
    out = ""
    for flag in ("", "-D"):
        out += subprocess.run(["nm", "--defined-only", *flag.split(), path], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout
    found = {int(a, 16): n for a, k, n in (line.split() for line in out.splitlines() if len(line.split()) == 3) if k in "tTwWi"}
    return sorted(found.items())


def write_functions(f, title, where, maps, pid, requests, build):
    """Of the program and its libraries, by what is mapped where."""
    ranges = []
    for line in maps.splitlines():
        m = re.match(r"(\w+)-(\w+) \S+ (\w+) \S+ \S+\s*(.*)", line)
        if m and m[4].startswith("/"):
            own = os.path.join(build, os.path.basename(m[4]).split()[0])
            ranges.append((int(m[1], 16), int(m[2], 16), int(m[3], 16), own if os.path.exists(own) else m[4]))
    tables, taken = {}, {}
    for line in open(where):
        p, address, count = line.split()
        if int(p) != pid:
            continue
        address = int(address, 16)
        for start, end, offset, name in ranges:
            if start <= address < end:
                if name not in tables:
                    tables[name] = symbols(name)
                table = tables[name]
                i = bisect.bisect(table, (address - start + offset, "\x7f")) - 1
                key = f"{os.path.basename(name)} {table[i][1] if i >= 0 else '?'}"
                break
        else:
            key = "?"
        taken[key] = taken.get(key, 0) + int(count)
    print(f"\n{title}, process {pid}: instructions a request", file=f)
    for key, count in sorted(taken.items(), key=lambda x: -x[1])[:60]:
        print(f"{count / requests:10.0f}  {key}", file=f)


def measure(build, name, work, out):
    flags, request = ROWS[name]
    build = os.path.abspath(build)
    # A request takes so long here that each would have its own checkpoint of the audit, which is signed.
    with Daemon("--audit-checkpoint-interval", "24h", *flags, command=[os.path.join(build, "mas-sandboxd")]) as d:
        sb = d.sandbox()
        for _ in range(WARM_UP):
            request(d, sb)
        time.sleep(1)  # what is made ahead is there again
        where = os.path.join(work, "where") if out else None
        steps = Steps(d, work, where)
        request(d, sb)
        before, taken = steps.counts(), []
        for _ in range(REQUESTS):
            request(d, sb)
            now = steps.counts()
            taken.append([n - b for n, b in zip(now, before)])
            before = now
        maps = steps.end()
        if out:
            for pid, m in zip(steps.pids, maps):
                write_functions(out, f"{build}: {name}", where, m, pid, REQUESTS + 1, build)
    control, warden = (statistics.median(column) for column in zip(*taken))
    return control, warden, statistics.median(map(sum, taken))


def main():
    builds, rows = sys.argv[1:3], sys.argv[3:] or list(ROWS)
    out = open(os.environ["WHERE"], "w") if os.environ.get("WHERE") else None
    with tempfile.TemporaryDirectory(prefix="mas-instructions-") as work:
        subprocess.run(["cc", "-O2", "-o", os.path.join(work, "steps"), os.path.join(HERE, "steps.c")], check=True)
        print(f"{'old, new, new / old':<20} {'control plane':>26} {'warden':>26} {'both':>26}")
        for name in rows:
            old, new = (measure(b, name, work, out) for b in builds)
            print(f"{name:<20}", *(f"{o:10.0f} {n:9.0f} {n / o if o else 1:5.3f}" for o, n in zip(old, new)), flush=True)


if __name__ == "__main__":
    main()
