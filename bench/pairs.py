#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds against each other, in turns: what a change costs.

    pairs.py OLD_BUILD NEW_BUILD      PAIRS (5), SECONDS_A_LOAD (2) and SHARE (share.py) can be set; needs root

For each kind of request it prints the median over all pairs of new/old: the median latency with one client, its 99th
percentile, the time with 16 clients (the inverse of what was answered a second), and the processor time that one request took in the daemon's
processes and in sandboxes, with what is made ahead for the next one and what is taken apart after it, but without kernel
threads. The last is the steadiest where other work shares the machine."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import share

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/lib"))
from masd import below

PAIRS = int(os.environ.get("PAIRS", 5))
SECONDS = int(os.environ.get("SECONDS_A_LOAD", 2))
SETTLE_S = 1  # blanks are made again and sandboxes taken apart within it
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
PROGRAM = ["/usr/bin/busybox", "true"]


class Build:
    def __init__(self, build, work, number, *flags):
        share.enter()
        self.build, self.port = os.path.abspath(build), 10000 + os.getpid() % 5000 * 4 + number
        state = os.path.join(work, str(number))
        self.process = subprocess.Popen(
            [os.path.join(self.build, "mas-sandboxd"), "-listen", f"127.0.0.1:{self.port}", "--state-dir", state, *flags],
            stderr=open(state + ".log", "w"))
        for _ in range(200):
            try:
                self.post("/v1/run", {"command": PROGRAM})
                break
            except OSError:
                time.sleep(0.05)
        self.id = self.post("/v1/sandboxes", {})["id"]
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/status", timeout=10) as answer:
            share.add_sandboxes(json.load(answer)["warden_pid"])

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def load(self, path, body, clients):
        """(requests answered a second, median latency in microseconds, 99th percentile)"""
        out = subprocess.run([os.path.join(self.build, "bench/load"), str(self.port), path.format(id=self.id),
                              json.dumps(body), str(clients), str(SECONDS)], check=True, capture_output=True, text=True)
        rate, good, limited, other, median, worst = out.stdout.split()
        if float(good) == 0 or float(other) > 0:
            raise SystemExit(f"{self.build}: {path} is not answered with 200: {out.stdout}")
        return float(rate), float(median), float(worst)

    def cpu_ns(self):
        """Of all processes that there are, by their threads, and of those that have ended, by whom waited for them:
        a sandbox's time would otherwise count or not, depending on which process did its work."""
        time.sleep(SETTLE_S)
        total = 0
        for pid in [self.process.pid, *below(self.process.pid)]:
            try:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
                        total += int(f.read().split()[0])
                with open(f"/proc/{pid}/stat") as f:
                    total += sum(map(int, f.read().rpartition(") ")[2].split()[13:15])) * TICK_NS
            except OSError:
                pass  # it ended
        return total

    def measure(self, path, body):
        before = self.cpu_ns()
        rate, latency, worst = self.load(path, body, 1)
        cpu = (self.cpu_ns() - before) / (rate * SECONDS)
        return latency, worst, 1 / self.load(path, body, 16)[0], cpu


ROWS = [
    ("exec", "plain", "/v1/sandboxes/{id}/exec", {"command": PROGRAM}),
    ("fresh one-shot", "plain", "/v1/run", {"command": PROGRAM}),
    ("warm one-shot", "pool", "/v1/run", {"command": PROGRAM}),
    ("output of 49 KB", "plain", "/v1/sandboxes/{id}/exec", {"command": ["/usr/bin/seq", "10000"]}),
    ("tool call", "plain", "/v1/sandbox/execute", {"tool": {"name": "calculator", "args": {"expression": "1+1"}}}),
]


def main():
    with tempfile.TemporaryDirectory(prefix="mas-pairs-") as work:
        plain = [Build(b, work, i) for i, b in enumerate(sys.argv[1:3])]
        pool = [Build(b, work, 2 + i, "--warm-pool-size", "32") for i, b in enumerate(sys.argv[1:3])]
        try:
            print(f"{'new / old, median of ' + str(PAIRS) + ' pairs':<34} {'latency':>8} {'99 %':>6} {'16 clients':>11} {'cpu':>6}")
            for name, which, path, body in ROWS:
                builds = pool if which == "pool" else plain
                ratios = []
                for turn in range(PAIRS):
                    order = builds if turn % 2 else builds[::-1]
                    result = {b: b.measure(path, body) for b in order}
                    ratios.append([n / o for o, n in zip(result[builds[0]], result[builds[1]])])
                latency, worst, load, cpu = (statistics.median(column) for column in zip(*ratios))
                print(f"{name:<34} {latency:8.3f} {worst:6.3f} {load:11.3f} {cpu:6.3f}", flush=True)
        finally:
            for b in plain + pool:
                b.process.terminate()
                b.process.wait()


if __name__ == "__main__":
    main()
