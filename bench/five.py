#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is promised of latency and throughput, each measured five times in one run: medians of five, and the worst of them.

    five.py BUILD [ROW...]      RUNS (5), SECONDS_A_LOAD (2) and SHARE (share.py) can be set; BEFORE is another build to
                                compare with; rows: before, tail, tiny, audit; needs root

Prints a row per promise, separated by tabs: its name, the ratio that counts, "<=" or ">=", what is expected, and all
ratios in the order in which they were measured. Things that are compared take turns, so that a busy moment hits both.
Run it on a quiet machine, or with SHARE=1."""
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(__file__))
from pairs import PROGRAM, Build

RUNS = int(os.environ.get("RUNS", 5))
TINY = f"/usr/local/bin/mas-bench-tiny.{os.getpid()}"  # where every sandbox sees it
EXEC, RUN = "/v1/sandboxes/{id}/exec", "/v1/run"


def row(name, ratios, op, expected, chosen=statistics.median):
    print(name, f"{chosen(ratios):.3f}", op, expected, *(f"{r:.2f}" for r in ratios), sep="\t", flush=True)


def in_turns(builds, measure):
    """What measure gives for each build, in their order; every second time they are asked in the opposite one."""
    in_turns.turn = not getattr(in_turns, "turn", False)
    found = {b: measure(b) for b in (builds if in_turns.turn else builds[::-1])}
    return [found[b] for b in builds]


def fresh_before(now, before):
    """With 16 clients, of another build's: what is answered a second."""
    ratios = []
    for _ in range(RUNS):
        b, n = in_turns([before, now], lambda x: x.load(RUN, {"command": PROGRAM}, 16)[0])
        ratios.append(n / b)
    row("fresh sandboxes a second with 16 clients / before", ratios, ">=", 1.25)


def fresh_tail(now):
    ratios = []
    for _ in range(RUNS):
        _, median, worst = now.load(RUN, {"command": PROGRAM}, 1)
        ratios.append(worst / median)
    row("fresh sandboxes of one client: 99th percentile / median", ratios, "<=", 4)


def tiny(now, warm):
    """Beside a server without any sandbox, with the cheapest program that there can be."""
    port = now.port + 100
    server = subprocess.Popen([os.path.join(now.build, "bench/bare-server"), str(port), TINY])
    for _ in range(200):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    body = '{"command":["%s"]}' % TINY
    things = [f"bare|http|{port}|/|{body}", f"exec|http|{now.port}|{EXEC.format(id=now.id)}|{body}",
              f"warm|http|{warm.port}|{RUN}|{body}"]
    try:
        found = []
        for _ in range(RUNS):
            out = subprocess.run([os.path.join(now.build, "bench/bench-compare"), "-n", "20", "-r", "5", *things],
                                 check=True, capture_output=True, text=True).stdout
            found.append({line.split("\t")[0]: float(line.split("\t")[2]) for line in out.splitlines()})
    finally:
        server.kill()
        server.wait()
    row("POST exec of the tiny program / bare server, nothing else in the run", [f["exec"] / f["bare"] for f in found], "<=", 1.2)
    row("POST /v1/run of it, warm pool / bare server, the same", [f["warm"] / f["bare"] for f in found], "<=", 1.4)


def audit(now, without):
    """The worst of all runs, each of which is the median of four pairs."""
    ratios = []
    for _ in range(RUNS):
        pairs = [in_turns([without, now], lambda x: x.load(EXEC, {"command": PROGRAM}, 16)[0]) for _ in range(4)]
        ratios.append(statistics.median(n / w for w, n in pairs))
    row(f"exec throughput with 16 clients, audit on / off, worst of {RUNS}", ratios, ">=", 0.95, min)


def main():
    build, before = sys.argv[1], os.environ.get("BEFORE")
    shutil.copy(os.path.join(build, "bench/tiny"), TINY)
    with tempfile.TemporaryDirectory(prefix="mas-five-") as work:
        started = []

        def start(where, *flags):
            started.append(Build(where, work, len(started), *flags))
            return started[-1]
        try:
            now = start(build)
            rows = sys.argv[2:] or ["before", "tail", "tiny", "audit"]
            if "before" in rows and before:
                fresh_before(now, start(before))
            if "tail" in rows:
                fresh_tail(now)
            if "tiny" in rows:
                tiny(now, start(build, "--warm-pool-size", "32"))
            if "audit" in rows:
                audit(now, start(build, "--audit=false"))
        finally:
            for b in started:
                b.process.terminate()
                b.process.wait()
            os.unlink(TINY)


main()
