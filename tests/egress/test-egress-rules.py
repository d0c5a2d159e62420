#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of a sandbox's network: who decides on them, what they mean, how they change, and what is told of them.

All servers are of the test's own, on loopback addresses that the operator has opened, in a network namespace that has
nothing else; names are in an /etc/hosts of its own. A server counts every connection that it accepts. Needs root; skips
without.
"""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
if os.geteuid() != 0 or not shutil.which("ip"):
    print("1..0 # SKIP needs root and ip")
    sys.exit(77)
if os.environ.get("MAS_EGRESS_INSIDE") != "1":
    os.environ["MAS_EGRESS_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, os.path.abspath(__file__)] + sys.argv[1:])

import http.server  # noqa: E402
import json  # noqa: E402
import socketserver  # noqa: E402
import threading  # noqa: E402

from guarded import Guarded  # noqa: E402
from masd import Daemon, check, equal, main, test, wait_for  # noqa: E402
from mcp import Client  # noqa: E402

HOSTS = """127.0.0.1 localhost
127.0.0.2 one.test two.test deep.one.test xn--bcher-kva.test asked.test
127.0.0.3 other.test mail.test
"""
OPEN = 'gateway_allow_private: ["127.0.0.2", "127.0.0.3"]\n'

directory = tempfile.mkdtemp(prefix="mas-egress-")
os.chmod(directory, 0o755)
atexit.register(shutil.rmtree, directory, True)
with open(f"{directory}/hosts", "w") as f:
    f.write(HOSTS)
with open(f"{directory}/resolv.conf", "w") as f:
    f.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
subprocess.run(["mount", "--bind", f"{directory}/hosts", "/etc/hosts"], check=True)
subprocess.run(["mount", "--bind", f"{directory}/resolv.conf", os.path.realpath("/etc/resolv.conf")], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

seen = []  # (address, port, "METHOD path") of every request, in order


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen.append((*self.server.server_address, f"{self.command} {self.path}"))
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"hello\n")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64


for where in (("127.0.0.2", 80), ("127.0.0.2", 8080), ("127.0.0.3", 80)):
    threading.Thread(target=Server(where, Handler).serve_forever, daemon=True).start()


def fetch(url):
    """A command that prints the status of the answer."""
    return ["curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", url]


def run(d, box, *argv, **more):
    a = d.post(f"/v1/sandboxes/{box}/exec", dict(command=list(argv), timeout_ms=30000, **more))
    assert a.status == 200, a
    return a.json


def status(d, box, url, *options):
    """What curl in the sandbox is answered with."""
    return run(d, box, *fetch(url), *options)["stdout"]


def silent(what, *args, **more):
    """Calls it, and no server may see a request of it."""
    before = len(seen)
    out = what(*args, **more)
    equal(seen[before:], [], args)
    return out


# --- every way in

POLICY = """version: 1
default: allow
rules:
  - id: no-mail
    verdict: deny
    host: ["mail.test"]
"""


def hosts_of(name):
    return {"allow": [{"host": name}]}


def way_native(d, name):
    a = d.post("/v1/sandboxes", {"network": hosts_of(name)})
    return status(d, a.json["id"], f"http://{name}/") if a.status == 201 else a


def way_run(d, name):
    a = d.post("/v1/run", {"command": fetch(f"http://{name}/"), "network": hosts_of(name)})
    return a.json["stdout"] if a.status == 200 else a


def way_sbx(d, name):
    a = d.post("/sandboxes", {"allowed_hosts": [name]})
    return status(d, a.json["id"], f"http://{name}/") if a.status == 200 else a


def mas_result(a):
    return a.json["result"]["stdout"] if a.json["status"] == "ok" else a


def shell(name):
    return {"name": "shell", "args": {"command": " ".join(fetch(f"http://{name}/"))}}


def way_mas_box(d, name):
    a = d.post("/v1/sandbox/create", {"policy": {"Network": {"Enabled": True, "AllowedHosts": [name]}}})
    if a.status != 200:
        return a
    return mas_result(d.post("/v1/sandbox/execute", {"sandbox_id": a.json["sandbox_id"], "tool": shell(name)}))


def way_mas_call(d, name):
    return mas_result(d.post("/v1/sandbox/execute", {"tool": shell(name), "policy": {"Network": {"Enabled": True, "AllowedHosts": [name]}}}))


def way_mcp(d, name):
    client = Client(d)
    a = client.call("create_sandbox", network=hosts_of(name))["result"]
    if a.get("isError"):
        return a
    return client.call("run_command", command=" ".join(fetch(f"http://{name}/")))["result"]["structuredContent"]["stdout"]


WAYS = (way_native, way_run, way_sbx, way_mas_box, way_mas_call, way_mcp)


@test("whichever way a sandbox comes into being: its hosts are reached, and the policy decided on each of them")
def test_every_way_in_is_decided_on():
    with Guarded(POLICY, config=OPEN) as d:
        for way in WAYS:
            equal(way(d, "one.test").strip(), "200", way.__name__)
            before = len([r for r in d.records(kind="refusal") if r.get("tool") == "network"])
            refused = silent(way, d, "mail.test")
            check("no-mail" in str(refused), (way.__name__, refused))
            equal(len([r for r in d.records(kind="refusal") if r.get("tool") == "network"]), before + 1, way.__name__)


@test("MAS: a policy without a network, or with one that is off, has no proxy; both policies together name the hosts")
def test_mas_policies_name_the_hosts():
    def net(*hosts, on=True):
        return {"Network": {"Enabled": on, "AllowedHosts": list(hosts)}}

    with Daemon(config=OPEN) as d:
        for policy in ({}, net("one.test", on=False), {"Network": {"Enabled": True}}):
            a = silent(d.post, "/v1/sandbox/execute", {"tool": {"name": "shell", "args": {"command": "echo [$HTTP_PROXY]"}}, "policy": policy})
            equal(mas_result(a), "[]\n", policy)
        box = d.post("/v1/sandbox/create", {"policy": net("one.test", "other.test")}).json["sandbox_id"]
        equal(mas_result(d.post("/v1/sandbox/execute", {"sandbox_id": box, "tool": shell("one.test"), "policy": net("*.test")})), "200")
        equal(mas_result(d.post("/v1/sandbox/execute", {"sandbox_id": box, "tool": shell("two.test")})), "403")


main()
