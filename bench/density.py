#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What idle sandboxes cost, and what their number does to others. Needs root.

    density.py BUILD [SANDBOXES]         default 1000

Prints, as `name<TAB>value`: memory (PSS of a sandbox's processes) and CPU time of an idle sandbox (over a
minute: of all their processes, and of the daemon's beyond what one with few sandboxes uses), then medians of create and exec at 10 and at SANDBOXES idle ones and their ratios, measured in turns
with two daemons so that a noisy moment hits both.
"""
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 12
FEW = 10
IDLE_SECONDS = int(os.environ.get("IDLE_SECONDS", "60"))


class Daemon:
    def __init__(self, build, idle, settings="", patience_s=60):
        self.patience_s = patience_s
        self.work = tempfile.mkdtemp(dir="/var/tmp", prefix="mas-bench.")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        with open(f"{self.work}/config.yaml", "w") as f:
            f.write(f"max_sandboxes: {idle + 200}\nidle_ttl: 1h\n{settings}")
        self.process = subprocess.Popen(
            [f"{build}/mas-sandboxd", "-listen", f"127.0.0.1:{self.port}", "--state-dir", f"{self.work}/state",
             "--config", f"{self.work}/config.yaml"], stdout=subprocess.DEVNULL,
            stderr=open(f"{self.work}/log", "w"))
        self.connection = None
        for _ in range(200):
            try:
                self.status = self.ask("GET", "/v1/status")
                break
            except OSError:
                self.connection = None
                time.sleep(0.05)
        else:
            with open(f"{self.work}/log") as f:
                raise RuntimeError("the daemon does not start: " + f.read())

    def ask(self, method, path, body=None):
        if not self.connection:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience_s)
        self.connection.request(method, path, None if body is None else json.dumps(body),
                                {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text) if text else None

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.work, ignore_errors=True)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return f.read().split()


def runners(daemon):
    """Host pids of the sandboxes' first processes."""
    found = []
    for child in children(daemon.status["warden_pid"]):
        try:
            with open(f"/proc/{child}/cmdline", "rb") as f:
                if b"--pid1" in f.read():
                    found.append(child)
        except OSError:
            pass
    return found


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))


def cpu_us(pid):
    with open(f"/proc/{pid}/schedstat") as f:
        return int(f.read().split()[0]) / 1000


def timed(call):
    start = time.perf_counter()
    result = call()
    return (time.perf_counter() - start) * 1e6, result


def measure(daemon, samples):
    """One create, one exec in it, one delete."""
    us, sandbox = timed(lambda: daemon.ask("POST", "/v1/sandboxes", {}))
    samples["create"].append(us)
    path = f"/v1/sandboxes/{sandbox['id']}"
    us, _ = timed(lambda: daemon.ask("POST", f"{path}/exec", {"command": ["/usr/bin/busybox", "true"]}))
    samples["exec"].append(us)
    daemon.ask("DELETE", path)


def fill(daemon, count):
    for i in range(count):
        daemon.ask("POST", "/v1/sandboxes", {})
        if i % 50 == 49:
            time.sleep(0.05)  # blanks are made again


def processes(daemon):
    """The warden, the control plane, the gateway, the janitor, blanks, and the sandboxes' runners."""
    warden = str(daemon.status["warden_pid"])
    return [warden] + children(warden)


def cpu_of_all(daemon):
    total = 0
    for pid in processes(daemon):
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                total += cpu_us(f"{pid}/task/{task}")
        except OSError:
            pass
    return total


def idle_cost(few, many, sandboxes):
    memory = statistics.median(pss_kib(p) for p in runners(many))
    time.sleep(2)  # blanks are full again
    before = [cpu_of_all(d) for d in (few, many)]
    time.sleep(IDLE_SECONDS)
    used = [cpu_of_all(d) - b for d, b in zip((few, many), before)]
    return memory, (used[1] - used[0]) / (sandboxes - FEW) * 60 / IDLE_SECONDS


def main():
    build = os.path.abspath(sys.argv[1])
    many = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    daemons = [Daemon(build, FEW), Daemon(build, many)]
    try:
        for daemon, count in zip(daemons, (FEW, many)):
            fill(daemon, count)
        memory, cpu = idle_cost(*daemons, many)
        samples = [{"create": [], "exec": []} for _ in daemons]
        for _ in range(ROUNDS):
            for daemon, s in zip(daemons, samples):
                for _ in range(10):
                    measure(daemon, s)
                    time.sleep(0.005)
    finally:
        for daemon in daemons:
            daemon.close()
    print(f"idle_pss_kib\t{memory:.0f}")
    print(f"idle_cpu_us_a_minute\t{cpu:.1f}")
    for name in ("create", "exec"):
        few, lots = (statistics.median(s[name]) for s in samples)
        print(f"{name}_at_{FEW}_us\t{few:.0f}")
        print(f"{name}_at_{many}_us\t{lots:.0f}")
        print(f"{name}_ratio\t{lots / few:.3f}")


if __name__ == "__main__":
    main()
