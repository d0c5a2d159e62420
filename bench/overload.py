#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What overload does. Needs root.

    overload.py BUILD            SECONDS_A_LOAD (3) can be set

Throughput of exec with 16 clients, which saturate two cores, and with four times as many; then the
latency of one client while a neighbouring sandbox runs a fork bomb, floods its output, or has a
thousand idle WebSockets, against the latency while it does nothing, in turns.
"""
import base64
import json
import os
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import density

ROUNDS = 4
SAMPLES = 40
BODY = {"command": ["/usr/bin/busybox", "true"]}


def load(build, daemon, path, clients):
    seconds = os.environ.get("SECONDS_A_LOAD", "3")
    out = subprocess.run([f"{build}/bench/load", str(daemon.port), path, json.dumps(BODY), str(clients), seconds],
                         stdout=subprocess.PIPE, check=True, text=True).stdout
    return float(out.split("\t")[0])


def latency(daemon, path):
    samples = []
    for _ in range(SAMPLES):
        us, _ = density.timed(lambda: daemon.ask("POST", path, BODY))
        samples.append(us)
        time.sleep(0.002)
    return statistics.median(samples)


class Neighbour:
    """A sandbox that misbehaves while this is entered."""

    def __init__(self, daemon, argv, sockets=0):
        self.daemon, self.argv, self.count, self.sockets = daemon, argv, sockets, []

    def __enter__(self):
        self.path = "/v1/sandboxes/" + self.daemon.ask("POST", "/v1/sandboxes", {})["id"]
        if self.argv:
            exec_id = self.daemon.ask("POST", self.path + "/exec", {"command": self.argv, "async": True})["exec_id"]
            for _ in range(self.count):
                self.sockets.append(self.open(exec_id))
            time.sleep(0.5)

    def open(self, exec_id):
        s = socket.create_connection(("127.0.0.1", self.daemon.port))
        key = base64.b64encode(os.urandom(16)).decode()
        s.sendall(f"GET /sandboxes/{self.path.rsplit('/', 1)[1]}/stream?exec_id={exec_id} HTTP/1.1\r\n"
                  f"Host: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        return s

    def __exit__(self, *_):
        for s in self.sockets:
            s.close()
        self.daemon.ask("DELETE", self.path)


def main():
    build = os.path.abspath(sys.argv[1])
    daemon = density.Daemon(build, 10)
    try:
        path = "/v1/sandboxes/" + daemon.ask("POST", "/v1/sandboxes", {})["id"] + "/exec"
        rates = {16: [], 64: []}
        for _ in range(3):
            for clients in rates:
                rates[clients].append(load(build, daemon, path, clients))
        kinds = {"nothing": (None, 0), "fork_bomb": (["sh", "-c", "f() { f | f & }; f; sleep 600"], 0),
                 "flood": (["yes"], 0), "idle_websockets": (["sleep", "600"], 1000)}
        found = {name: [] for name in kinds}
        for _ in range(ROUNDS):
            for name, (argv, sockets) in kinds.items():
                with Neighbour(daemon, argv, sockets):
                    found[name].append(latency(daemon, path))
                time.sleep(0.2)
    finally:
        daemon.close()
    peak, over = statistics.median(rates[16]), statistics.median(rates[64])
    print(f"throughput_16_clients\t{peak:.0f}")
    print(f"throughput_64_clients\t{over:.0f}")
    print(f"throughput_ratio\t{over / peak:.3f}")
    base = statistics.median(found["nothing"])
    print(f"latency_us\t{base:.0f}")
    for name in list(kinds)[1:]:
        print(f"latency_ratio_{name}\t{statistics.median(found[name]) / base:.3f}")


main()
