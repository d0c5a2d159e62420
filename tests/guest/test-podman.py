#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that podman holds, on cgroup version 2: which walls are reported, and that throughput is held."""
import socket
import subprocess

from host import *

DIR = "/srv/podman"


def answers():
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(DIR + "/sock")
            s.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200" in s.recv(64)
    except OSError:
        return False


for path in (DIR, "/srv/up", "/srv/work", "/srv/over"):
    os.mkdir(path)
subprocess.run(["mount", "-t", "overlay", "o", "-o", "lowerdir=/etc,upperdir=/srv/up,workdir=/srv/work", "/srv/over"],
               check=True)
service = subprocess.Popen(["podman", "--root", DIR + "/root", "--runroot", DIR + "/run", "--cgroup-manager", "cgroupfs",
                            "--events-backend", "file", "system", "service", "--time=0", f"unix://{DIR}/sock"],
                           stdin=subprocess.DEVNULL)
wait_for(answers, "podman starts", 120)
d = Daemon("--engines", "podman", "--podman-socket", DIR + "/sock", "--engine-timeout", "2m", "--create-ready-timeout",
           "4m", runtime="podman", config="mounts:\n  allow: [/srv/over]\n").start()
wait_for(lambda: [r for r in d.get("/v1/status").json["runtimes"] if r["name"] == "podman" and r["available"]],
         "podman is known", 180)


@test("podman: io_mb_per_s holds for what reaches the disk, and every limit names cgroup v2")
def test_podman_io_mb_per_s_holds_for_what_reaches():
    a = d.request("POST", "/v1/sandboxes", {"runtime": "podman", "limits": {
        "memory_mb": 64, "disk_mb": 64, "cpu_cores": 0.9, "max_processes": 40, "io_mb_per_s": 1}}, timeout=240)
    equal(a.status, 201, a)
    equal(by(a.json["effective"], "memory", "cpu", "processes", "io"), ["cgroup v2"] * 4)
    equal(a.json["effective"]["io"]["limit_mb_per_s"], 1)
    path = "/v1/sandboxes/" + a.json["id"]
    marker = f"group-of-{a.json['id']}"
    e = d.post(path + "/exec", {"command": ["sh", "-c", f": {marker}; sleep 100"], "async": True})
    wait_for(lambda: processes(marker), "the command runs", 60)
    group = TREE + proc_text(processes(marker)[0], "cgroup").strip().split("::", 1)[1]
    equal(read(group, "io.max").count("rbps=1048576 wbps=1048576"), 2, "the host's disk and its own")
    started = time.monotonic()
    r = d.request("POST", path + "/exec", {"command": ["dd", "if=/dev/zero", "of=/workspace/f", "bs=65536", "count=64",
                                                       "conv=fsync"]}, timeout=120)
    equal((r.status, r.json["exit_code"]), (200, 0), r)
    seconds = time.monotonic() - started
    check(seconds > 2, f"4 MiB were on the disk after {seconds:.2f} s; {read(group, 'io.stat')}")
    equal(d.request("DELETE", path, timeout=120).status, 200)


@test("podman: io_mb_per_s is refused by name for a host directory that is on no disk")
def test_podman_io_mb_per_s_is_refused_by_name_for_a_host():
    refused_create(d, "io", runtime="podman", limits={"io_mb_per_s": 1},
                   mounts=[{"source": "/srv/over", "target": "/mnt/over"}])


try:
    main()
finally:
    d.__exit__()
    service.terminate()
    service.wait()
