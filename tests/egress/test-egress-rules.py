#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of a sandbox's network: who decides on them, what they mean, how they change, and what is told of them.

All servers are of the test's own, on loopback addresses that the operator has opened, in a network namespace that has
nothing else; names are in an /etc/hosts of its own. A server counts every connection that it accepts. Needs root; skips
without.
"""
import atexit
import ctypes
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

import contextlib  # noqa: E402
import http.client  # noqa: E402
import http.server  # noqa: E402
import json  # noqa: E402
import socketserver  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

from faults import again, once  # noqa: E402
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


# Ways past a proxy of one's own, to that of the sandbox: each must fail at its connect.
PAST = """import ctypes, errno, os, socket, struct, sys
here, other = ('127.0.0.1', 3128), int(sys.argv[1])
def tried(name, fn):
    try: fn(); print(name, 'open')
    except OSError as e: print(name, errno.errorcode[e.errno])
def plain(to):
    s = socket.socket(); s.settimeout(5); s.connect(to)
def fast(call):
    s = socket.socket(); s.settimeout(5); call(s)
tried('plain', lambda: plain(here))
tried('other', lambda: plain(('127.0.0.1', other)))
tried('mapped', lambda: socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', 3128)))
tried('zero', lambda: plain(('0.0.0.0', 3128)))
tried('sendto', lambda: fast(lambda s: s.sendto(b'x', 0x20000000, here)))
tried('sendmsg', lambda: fast(lambda s: s.sendmsg([b'x'], [], 0x20000000, here)))
tried('option', lambda: fast(lambda s: (s.setsockopt(6, 30, 1), s.connect(here))))
tried('mptcp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(here))
def nowhere():
    s = socket.socket(); s.bind(('127.0.0.1', 0)); s.connect(here)
tried('bound', nowhere)
"""


@test("MAS: a call with fewer hosts than its sandbox reaches those and no others, whatever it tries, and records name it")
def test_a_narrower_call_has_a_proxy_of_its_own():
    def net(*hosts, on=True):
        return {"Network": {"Enabled": on, "AllowedHosts": list(hosts)}}

    def call(d, box, tool, **more):
        return mas_result(d.post("/v1/sandbox/execute", dict(sandbox_id=box, tool=tool, **more)))

    def command(line):
        return {"name": "shell", "args": {"command": line}}

    with Daemon(config=OPEN) as d:
        box = d.post("/v1/sandbox/create", {"policy": net("one.test", "other.test")}).json["sandbox_id"]
        equal(call(d, box, shell("other.test")), "200")
        if os.environ.get("MAS_RUNTIME", "").endswith(("gvisor", "microvm")):  # whose kernels have no such wall
            a = silent(d.post, "/v1/sandbox/execute", {"sandbox_id": box, "tool": shell("one.test"), "policy": net("one.test")})
            check("needs Landlock of ABI 4" in str(a.json), a)
            return
        for hosts, name, want in ((("one.test",), "one.test", "200"), (("one.test",), "other.test", "403"), (("other.test", "two.test"), "other.test", "200"),
                                  (("two.test",), "two.test", "403"), (("two.test",), "one.test", "403")):
            what = call if want == "200" else lambda *a, **m: silent(call, *a, **m)
            equal(what(d, box, shell(name), policy=net(*hosts)), want, (hosts, name))
        equal(silent(call, d, box, shell("one.test"), policy=net("one.test", on=False)), "403")
        equal(call(d, box, shell("other.test")), "200")  # the others have what they had
        # Two at once, each with its own; a port that is the sandbox's own server's is not reached either.
        d.post(f"/v1/sandboxes/{box}/exec", {"command": ["python3", "-m", "http.server", "-b", "127.0.0.1", "8000"], "async": True})
        wait_for(lambda: run(d, box, "sh", "-c", "NO_PROXY=* curl -s -o /dev/null http://127.0.0.1:8000/")["exit_code"] == 0, "the server listens")
        run(d, box, "sh", "-c", "cat >/tmp/past.py", stdin=PAST)
        out = silent(call, d, box, command("env | grep -c =http://127.0.0.1:3128; echo $HTTP_PROXY; python3 /tmp/past.py 8000"), policy=net("one.test"))
        lines = out.split("\n")
        equal(lines[0], "0", out)
        check(lines[1].startswith("http://127.0.0.1:2"), out)
        equal({line.split()[1] for line in lines[2:] if line}, {"EACCES", "ENOTSUP", "EPERM"}, out)
        # What an ended call leaves behind has no way out any more, also when others have come.
        call(d, box, command("mkdir /tmp/a /tmp/b; echo x >/tmp/a/f; mv /tmp/a/f /tmp/b/f; (sleep 2; curl -sS -m 9 -o /dev/null http://one.test/ >/tmp/late 2>&1; echo $? >>/tmp/late) >/dev/null 2>&1 </dev/null & true"),
             policy=net("one.test"))
        equal(silent(call, d, box, command("sleep 4; cat /tmp/late /tmp/b/f"), policy=net("one.test")).split("\n")[-3:], ["7", "x", ""])
        # Records: the command's own, though others run.
        events = [json.loads(x) for x in d.get(f"/v1/sandboxes/{box}/network/log?limit=1000").body.splitlines()]
        denied = [e["data"] for e in events if e["type"] == "network.denied"]
        check(denied and all(e.get("exec_id", "").startswith("ex-") for e in denied), events)


@test("MAS: a call is not reached by a widening of its sandbox beyond its own hosts, also where it began with all of them")
def test_a_widening_does_not_reach_a_call():
    both = {"Network": {"Enabled": True, "AllowedHosts": ["one.test", "other.test"]}}
    with Daemon(config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}]}}).json["id"]
        line = "touch /workspace/runs; until [ -e /workspace/go ]; do sleep 0.1; done; for h in one two other; do curl -s -o /dev/null -w '%{http_code} ' -m 9 http://$h.test/; done"

        def call():
            with contextlib.suppress(OSError, http.client.HTTPException):  # the control plane is killed
                d.post("/v1/sandbox/execute", {"sandbox_id": box, "tool": {"name": "shell", "args": {"command": line}}, "policy": both})

        threading.Thread(target=call, daemon=True).start()
        wait_for(lambda: d.get(f"/v1/sandboxes/{box}/files/stat?path=/workspace/runs").status == 200, "it runs")
        widen = lambda host: d.request("PATCH", f"/v1/sandboxes/{box}/network", {"allow": [{"host": host, "ports": [80], "for": "10m"}]})
        for _ in range(2):
            a = widen("two.test")
            check(a.status == 409 and "fewer hosts" in a.json["error"]["message"], a)
            d.kill_control()
        equal(widen("other.test").status, 200, "which its policy has")
        equal(d.put(f"/v1/sandboxes/{box}/files/content?path=/workspace/go", b"").status, 200)
        wait_for(lambda: d.get(f"/v1/sandboxes/{box}/execs").json["execs"][0]["status"] != "running", "its end")
        log = lambda: [json.loads(x) for x in d.get(f"/v1/sandboxes/{box}/network/log?limit=1000").body.splitlines()]
        wait_for(lambda: {e["data"]["host"] for e in log()} == {"one.test", "two.test", "other.test"}, "all three are in the log")
        for host, want in (("one.test", "network.allowed"), ("two.test", "network.denied"), ("other.test", "network.allowed")):
            equal({e["type"] for e in log() if e["data"]["host"] == host} - {"network.closed"}, {want}, host)
        wait_for(lambda: widen("two.test").status == 200, "it has ended")


@test("a sandbox of an earlier control plane is not widened before its runner has told of the commands it has")
def test_an_adopted_sandbox_is_not_widened_early():
    with Daemon(config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}]}}).json["id"]
        if d.post(f"/v1/sandboxes/{box}/pause", {}).status != 200:
            return  # a runtime that cannot; there is no other way to keep a runner from telling
        wider = {"host": "two.test", "ports": [80], "for": "10m"}
        equal(change(d, box, allow=[wider]).status, 200)
        d.kill_control()
        a = change(d, box, allow=[dict(wider, ports=[8080])])
        check(a.status == 409 and "has to be resumed" in a.json["error"]["message"], a)
        equal(change(d, box, drop=["two.test:80"]).status, 200, "what narrows waits for nothing")
        equal(d.post(f"/v1/sandboxes/{box}/resume", {}).status, 200)
        wait_for(lambda: change(d, box, allow=[dict(wider, ports=[8080])]).status == 200, "it has told")


@test("MAS: a yes to a widening is not used up where a call that began meanwhile keeps the sandbox from it")
def test_a_grant_outlasts_a_conflict():
    with Guarded(ASKING, config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}]}}).json["id"]
        wider, answers = {"host": "two.test", "ports": [80], "for": "10m"}, []
        waits = threading.Thread(target=lambda: answers.append(change(d, box, {"X-Mas-Approval": "wait"}, allow=[wider])), daemon=True)
        waits.start()
        pending = lambda: d.get("/v1/approvals?status=pending").json["approvals"]
        wait_for(pending, "the question")
        id = pending()[0]["id"]
        line = "touch /workspace/runs; until [ -e /workspace/go ]; do sleep 0.1; done"
        body = {"sandbox_id": box, "tool": {"name": "shell", "args": {"command": line}}, "policy": {"Network": {"Enabled": True, "AllowedHosts": ["one.test"]}}}
        call = threading.Thread(target=lambda: d.post("/v1/sandbox/execute", body), daemon=True)
        call.start()
        wait_for(lambda: d.get(f"/v1/sandboxes/{box}/files/stat?path=/workspace/runs").status == 200, "it runs")
        equal(d.post(f"/v1/approvals/{id}/approve", {}).status, 200)
        waits.join(60)
        equal([a.status for a in answers], [409], answers)
        equal(d.get(f"/v1/approvals/{id}").json["status"], "approved")
        equal(d.put(f"/v1/sandboxes/{box}/files/content?path=/workspace/go", b"").status, 200)
        call.join(60)
        wait_for(lambda: change(d, box, {"X-Mas-Approval-Id": id}, allow=[wider]).status == 200, "the yes holds")
        equal(status(d, box, "http://two.test/"), "200")


@test("a yes to a widening is not used up where the sandbox has as many rules as the gateway takes")
def test_a_grant_outlasts_a_full_list():
    with Guarded(ASKING, config=OPEN) as d:
        names = lambda kind, n: [{"host": f"{kind}{i}.test"} for i in range(n)]
        box = d.post("/v1/sandboxes", {"network": {"allow": names("a", 1024), "deny": names("d", 1023)}}).json["id"]
        wider = {"host": "two.test", "ports": [80], "for": "10m"}
        a = change(d, box, allow=[wider])
        equal(a.status, 202, a)
        id = d.get("/v1/approvals?status=pending").json["approvals"][0]["id"]
        equal(change(d, box, deny=[{"host": "last.test"}]).status, 200)
        equal(d.post(f"/v1/approvals/{id}/approve", {}).status, 200)
        a = change(d, box, {"X-Mas-Approval-Id": id}, allow=[wider])
        equal((a.status, a.json["error"].get("field")), (400, "allow"), a)
        a = change(d, box, deny=[{"host": "one-more.test"}])
        equal((a.status, a.json["error"].get("field")), (400, "deny"), a)
        equal(d.get(f"/v1/approvals/{id}").json["status"], "approved")
        equal(change(d, box, drop=["a0.test"]).status, 200)
        a = change(d, box, {"X-Mas-Approval-Id": id}, allow=[wider])
        equal(a.status, 200, f"the yes holds: {a}")


@test("a widening is for as long as was asked, also where the clock ticks while it is compared with the rules that are there")
def test_a_tick_changes_no_duration():
    with Guarded(ASKING, config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": f"a{i}.test"} for i in range(1000)]}}).json["id"]
        for i in range(24 if os.environ.get("MAS_EGRESS_FULL") else 4):
            time.sleep((0.992 + 0.001 * (i % 8) - time.time()) % 1)
            equal(change(d, box, allow=[{"host": "two.test", "ports": [80], "for": "10m"}]).status, 202)
        asked = [d.get(f"/v1/approvals/{a['id']}").json["subject"]["network"] for a in d.get("/v1/approvals?status=pending").json["approvals"]]
        equal({n["for_seconds"] for n in asked}, {600})


CLOSING = "  - {id: closed, verdict: deny, tool: network, host: [%s]}\n"


@test("what the policy denies counts among the rules that the gateway takes: at creation, at a widening, and when a policy is read again")
def test_the_policys_hosts_count():
    names = lambda kind, n: [{"host": f"{kind}{i}.test"} for i in range(n)]
    with Guarded(ASKING + CLOSING % "mail.test", config=OPEN) as d:
        a = d.post("/v1/sandboxes", {"network": {"allow": names("a", 1024), "deny": names("d", 1024)}})
        check(a.status == 400 and "policy" in a.json["error"]["message"], a)
        box = d.post("/v1/sandboxes", {"network": {"allow": names("a", 1023) + [{"host": "one.test"}], "deny": names("d", 1023)}}).json["id"]
        equal(status(d, box, "http://one.test/"), "200")
        a = change(d, box, allow=[{"host": "two.test", "ports": [80], "for": "10m"}])
        equal((a.status, d.get("/v1/approvals?status=pending").json["approvals"]), (400, []), "it is refused before a person is asked")
        equal(change(d, box, deny=[{"host": "last.test"}]).status, 400)
        equal(status(d, box, "http://one.test/"), "200")
        d.replace(ASKING + CLOSING % "mail.test, two.mail.test, three.mail.test")
        equal(silent(status, d, box, "http://one.test/"), "403", "too many rules allow nothing")
        wait_for(lambda: "too many hosts" in d.log_text(), "the log says why")
        equal(change(d, box, drop=["a0.test"]).status, 200, "one less is still too many, and no reason to keep it")
        equal(silent(status, d, box, "http://one.test/"), "403")
        equal(change(d, box, drop=["a1.test"]).status, 200)
        equal(status(d, box, "http://one.test/"), "200")


@test("MAS: a call with fewer hosts than its sandbox keeps them where the control plane died before it was on record")
def test_a_narrower_call_outlives_the_control_plane():
    if os.environ.get("MAS_RUNTIME", "").endswith(("gvisor", "microvm")):
        return  # which have no such calls
    with Daemon("--debug-endpoints", env={"MAS_FAULT": "exec.spawned"}, config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}, {"host": "other.test"}]}}).json["id"]
        line = "sleep 1; for i in $(seq 100); do curl -s -o /dev/null -m 9 http://other.test/; curl -s -o /dev/null -m 9 http://one.test/; sleep 0.2; done"
        with contextlib.suppress(OSError, http.client.HTTPException):
            d.post("/v1/sandbox/execute", {"sandbox_id": box, "tool": {"name": "shell", "args": {"command": line}},
                                           "policy": {"Network": {"Enabled": True, "AllowedHosts": ["one.test"]}}})

        def decided(host):
            with contextlib.suppress(OSError, http.client.HTTPException):
                log = [json.loads(x) for x in d.get(f"/v1/sandboxes/{box}/network/log?limit=1000").body.splitlines()]
                return {e["type"] for e in log if e["data"]["host"] == host} - {"network.closed"}
        wait_for(lambda: decided("one.test") and decided("other.test"), "it goes on")
        equal((decided("one.test"), decided("other.test")), ({"network.allowed"}, {"network.denied"}))


# A command of the sandbox that would fetch for others, in three ways. What it is reached by is written down for them.
HELPER = """import os, signal, socket, threading, urllib.request
def serve(name):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()
    while True:
        c = s.accept()[0]; c.sendall(str(urllib.request.urlopen('http://other.test/').status).encode()); c.close()
signal.signal(signal.SIGUSR1, lambda *a: None)
for name in ('\\0helper', '/tmp/helper'): threading.Thread(target=serve, args=(name,), daemon=True).start()
with open('/tmp/helper-pid', 'w') as f: f.write(str(os.getpid()))
threading.Event().wait()
"""
ASK_HELPER = """import errno, os, socket
def tried(name, fn):
    try: print(name, fn())
    except OSError as e: print(name, errno.errorcode[e.errno])
def ask(name):
    s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(name); return s.recv(99).decode()
tried('abstract', lambda: ask('\\0helper'))
tried('signal', lambda: os.kill(int(open('/tmp/helper-pid').read()), 10))
"""


@test("MAS: a call with fewer hosts reaches no abstract socket and signals no process of a call with more")
def test_a_narrower_call_is_in_a_domain_of_its_own():
    if os.environ.get("MAS_RUNTIME", "").endswith(("gvisor", "microvm")) or ctypes.CDLL(None).syscall(444, None, 0, 1) < 6:
        return  # where there are no such calls, and before Linux 6.12
    both = {"Network": {"Enabled": True, "AllowedHosts": ["one.test", "other.test"]}}
    with Daemon(config=OPEN) as d:
        box = d.post("/v1/sandbox/create", {"policy": both}).json["sandbox_id"]
        for name, text in (("helper", HELPER), ("ask", ASK_HELPER)):
            run(d, box, "sh", "-c", f"cat >/tmp/{name}.py", stdin=text)
        d.post(f"/v1/sandboxes/{box}/exec", {"command": ["python3", "/tmp/helper.py"], "async": True})
        wait_for(lambda: run(d, box, "test", "-S", "/tmp/helper", "-a", "-s", "/tmp/helper-pid")["exit_code"] == 0, "the helper listens")
        tool = {"name": "shell", "args": {"command": "python3 /tmp/ask.py"}}
        equal(mas_result(d.post("/v1/sandbox/execute", {"sandbox_id": box, "tool": tool})).split("\n")[:2], ["abstract 200", "signal None"], "a call with all of them")
        narrow = {"Network": {"Enabled": True, "AllowedHosts": ["one.test"]}}
        equal(mas_result(silent(d.post, "/v1/sandbox/execute", {"sandbox_id": box, "tool": tool, "policy": narrow})).split("\n")[:2], ["abstract EPERM", "signal EPERM"])


# --- what a rule can say

@test("a rule about methods and paths lets through what fits, and nothing of it in a tunnel")
def test_methods_and_paths_of_plain_http():
    allow = [{"host": "one.test", "ports": [80], "methods": ["GET", "HEAD"], "paths": ["/v1/*", "/"]}]
    deny = [{"host": "*.test", "ports": [80], "paths": ["/v1/admin/*"]}]
    with Daemon(config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": allow, "deny": deny}}).json["id"]
        for url, options, want in (("/", (), "200"), ("/?q=1", (), "200"), ("/v1/x", (), "200"), ("/v1/x", ("-I",), "200"), ("/v1/%78", (), "200"),
                                   ("/v1/a%20b", (), "200")):
            before = len(seen)
            equal(status(d, box, "http://one.test" + url, *options), want, (url, options))
            equal(len(seen), before + 1, url)
        for url, options in (("/v2", ()), ("/v1", ()), ("/v1/x", ("-X", "POST")), ("/v1/x", ("-X", "get")), ("/v1/admin/x", ()),
                             ("/v1/../v2", ("--path-as-is",)), ("/v1/%2e%2e/v2", ("--path-as-is",)), ("/v1//x", ("--path-as-is",)),
                             ("/v1/%61dmin/x", ("--path-as-is",)), ("/v1/..%2fv2", ("--path-as-is",)), ("/v1/x;y", ()), ("/", ("-p",))):
            out = silent(run, d, box, *fetch("http://one.test" + url), *options)
            check(out["stdout"] in ("403", "000") and (options != ("-p",) or "403" in out["stderr"]), (url, options, out))
        for header in ("X-HTTP-Method-Override: DELETE", "x-http-method: PUT", "X-Method-Override: GET", "X-Original-URL: /v1/admin/x",
                       "X_Rewrite_Url: /v2"):
            equal(silent(run, d, box, *fetch("http://one.test/v1/x"), "-H", header)["stdout"], "403", header)
        equal(status(d, box, "http://one.test/v1/x", "-H", "X-Original: /v2", "-H", "X-HTTP-Methods: DELETE"), "200")
        # Where no rule is about methods or paths, they are headers like others.
        free = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test", "ports": [80]}]}}).json["id"]
        equal(status(d, free, "http://one.test/v1/x", "-H", "X-HTTP-Method-Override: DELETE"), "200")


@test("a rule that only https could make use of is refused by name, as is what a network by name cannot know")
def test_rules_that_need_more_are_refused():
    with Daemon(config=OPEN) as d:
        for rule, word in (({"host": "one.test", "methods": ["GET"]}, "ports"), ({"host": "one.test", "ports": [80, 443], "paths": ["/"]}, "ports"),
                           ({"host": "one.test", "ports": [443], "protocol": "http"}, "ports"), ({"host": "one.test", "protocol": "udp"}, "protocol"),
                           ({"cidr": "11.0.0.0/8", "methods": ["GET"]}, "ports")):
            for key in ("allow", "deny"):
                a = d.post("/v1/sandboxes", {"network": {key: [rule]}})
                equal((a.status, a.json["error"]["code"], a.json["error"]["field"]), (400, "unsupported", f"network.{key}[0].{word}"), (rule, a))
        for rule in ({"host": "one.test", "cidr": "11.0.0.0/8"}, {"cidr": "11.0.0.1"}, {"cidr": "11.0.0.0/33"}, {"cidr": "[fd00::/8]"}, {"host": "fd00::/8"},
                     {"host": "one.test", "ports": [80], "methods": []}, {"host": "one.test", "ports": [80], "methods": ["get"]},
                     {"host": "one.test", "ports": [80], "methods": ["GET X"]}, {"host": "one.test", "ports": [80], "paths": ["x"]},
                     {"host": "one.test", "ports": [80], "paths": ["/a/../b"]}, {"host": "one.test", "ports": [80], "paths": ["/a b"]},
                     {"host": "one.test", "name": "a b"}, {"host": "one.test", "name": ""}, {"host": "one.test", "name": "x" * 65},
                     {"host": "one.test ask"}, {"host": "one.test name=x"}):
            a = d.post("/v1/sandboxes", {"network": {"allow": [rule]}})
            equal(a.status, 400, (rule, a))
        for body in ({"allowed_hosts": ["one.test ask"]}, {"allowed_hosts": ["one.test"], "disallowed_hosts": ["a.test http"]}):
            equal(d.post("/sandboxes", body).status, 400, body)


@test("a network opens the addresses in it and no name; denied, it closes every name that leads there")
def test_cidrs_are_of_addresses():
    with Daemon(config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"mode": "names", "cidrs": ["127.0.0.0/30", "fd00::/8"]}}).json["id"]
        equal(status(d, box, "http://127.0.0.2/"), "200")
        equal(status(d, box, "http://127.0.0.2:8080/"), "200")
        equal(status(d, box, "http://[::ffff:127.0.0.2]/"), "200")
        for url in ("http://one.test/", "http://127.0.0.9/", "http://[::ffff:127.0.0.9]/", "http://[fd00::1]/"):
            equal(silent(status, d, box, url), "403", url)
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "*.test"}, {"cidr": "127.0.0.0/24", "ports": [80]}], "deny": [{"cidr": "127.0.0.3/32"}]}}).json["id"]
        equal(status(d, box, "http://one.test/"), "200")
        equal(status(d, box, "http://127.0.0.2/"), "200")
        for url in ("http://other.test/", "http://127.0.0.3/", "http://127.0.0.2:8080/"):
            equal(silent(status, d, box, url), "403", url)


@test("the policy's rules about addresses hold for what a name leads to, and a new policy for sandboxes that are there")
def test_the_policy_of_the_moment_closes_hosts():
    rule = "version: 1\ndefault: allow\nrules:\n  - id: closed\n    verdict: deny\n    tool: network\n    host: [\"%s\"]\n"
    with Guarded(rule % "127.0.0.3", config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}, {"host": "other.test"}]}}).json["id"]
        equal(status(d, box, "http://one.test/"), "200")
        equal(silent(status, d, box, "http://other.test/"), "403")
        d.replace(rule % "one.test")
        equal(status(d, box, "http://other.test/"), "200")
        equal(silent(status, d, box, "http://one.test/"), "403")


# --- changing them

def change(d, box, headers=None, **body):
    return d.request("PATCH", f"/v1/sandboxes/{box}/network", body, headers=headers)


def tunnel(d, box, host, port):
    """A tunnel that stays open, in the background: a command that ends when the connection does."""
    code = ("import socket,sys\n"
            "s=socket.create_connection(('127.0.0.1',3128),20)\n"
            f"s.sendall(b'CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n')\n"
            "print(s.recv(1000).split()[1].decode(), flush=True)\n"
            "s.settimeout(60)\n"
            "try: print('end' if not s.recv(1) else 'data', flush=True)\n"
            "except ConnectionResetError: print('end', flush=True)\n")
    a = d.post(f"/v1/sandboxes/{box}/exec", {"command": ["python3", "-c", code], "async": True})
    where = f"/v1/sandboxes/{box}/execs/{a.json['exec_id']}"
    wait_for(lambda: "200" in d.get(where + "/logs").body.decode(), "the tunnel is open")
    return lambda: d.get(where).json["status"] != "running"


@test("narrowing is free, holds at once and ends what it no longer allows")
def test_narrowing_is_free():
    allow = [{"host": "one.test"}, {"host": "two.test", "name": "second"}, {"host": "other.test", "ports": [80]}]
    with Guarded("version: 1\ndefault: deny\nrules:\n  - {id: c, verdict: allow, command: '*'}\n  - {id: n, verdict: allow, tool: network, host: ['*']}\n", config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": allow}}).json["id"]
        d.replace("version: 1\ndefault: deny\nrules:\n  - {id: c, verdict: allow, command: '*'}\n")
        kept, ended = tunnel(d, box, "one.test", 80), tunnel(d, box, "two.test", 80)
        a = change(d, box, drop=["second"])
        equal((a.status, [r["host"] for r in a.json["allow"]]), (200, ["one.test", "other.test"]), a)
        wait_for(ended, "the tunnel to what was dropped has ended")
        equal(kept(), False)
        equal(silent(status, d, box, "http://two.test/"), "403")
        equal(status(d, box, "http://other.test/"), "200")
        a = change(d, box, deny=[{"cidr": "127.0.0.3/32"}])
        equal((a.status, a.json["deny"]), (200, [{"host": "127.0.0.3"}]), a)
        equal(silent(status, d, box, "http://other.test/"), "403")
        equal(change(d, box, allow=[{"host": "one.test", "ports": [80]}]).status, 200)  # it is open already
        equal(change(d, box, mode="none").json["allow"], [])
        wait_for(kept, "the last tunnel has ended")
        equal(silent(status, d, box, "http://one.test/"), "403")
        check([r for r in d.records(kind="sandbox", sandbox=box) if r["outcome"] == "network"], d.records(kind="sandbox"))


@test("widening is a call through the gate: for one host, one port and a time, as the policy decides")
def test_widening_is_a_call():
    policy = """version: 1
default: allow
rules:
  - {id: no-mail, verdict: deny, tool: network, host: ["mail.test"]}
  - {id: person, verdict: ask, tool: network, host: ["asked.test"]}
  - {id: offline, require: {no_network: true}, tool: network, host: ["offline.test"]}
"""
    one = {"host": "two.test", "ports": [80], "for": "10m"}
    with Guarded(policy, config=OPEN + 'disallowed_hosts: ["far.test"]\n') as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}], "deny": [{"host": "closed.test"}]}}).json["id"]
        none = d.post("/v1/sandboxes", {}).json["id"]
        equal(silent(status, d, box, "http://two.test/"), "403")
        for rule, word in (({"host": "two.test", "ports": [80]}, "for"), ({"host": "two.test", "for": "1m"}, "port"), ({"host": "*.test", "ports": [80], "for": "1m"}, "host"),
                           ({"cidr": "127.0.0.0/8", "ports": [80], "for": "1m"}, "host"), ({"host": "two.test", "ports": [80, 81], "for": "1m"}, "one port"),
                           (dict(one, **{"for": "25h"}), "for"), (dict(one, **{"for": "0s"}), "for"), (dict(one, **{"for": 5}), "for")):
            a = change(d, box, allow=[rule])
            equal((a.status, word in str(a.json)), (400, True), (rule, a))
        equal(change(d, box, allow=[one, dict(one, host="third.test")]).status, 400)
        equal(change(d, none, allow=[one]).status, 409)
        for body in ({}, {"drop": ["two.test"]}, {"mode": "names"}, {"allow": []}, {"deny": [one]}, {"allowed": [one]}):
            equal(change(d, box, **body).status, 400, body)
        for host, rule in (("mail.test", "no-mail"), ("offline.test", "offline")):
            a = change(d, box, allow=[dict(one, host=host)])
            equal((a.status, rule in str(a.json)), (403, True), a)
        equal([r["host"] for r in d.get(f"/v1/sandboxes/{box}/network").json["allow"]], ["one.test"])
        a = change(d, box, allow=[dict(one, name="now")])
        equal((a.status, a.json["allow"][1]["host"], a.json["allow"][1]["ports"], "expires_at" in a.json["allow"][1]), (200, "two.test", [80], True), a)
        equal(status(d, box, "http://two.test/"), "200")
        equal(silent(status, d, box, "http://two.test:8080/"), "403")
        check([r for r in d.records(kind="intent", sandbox=box) if r.get("tool") == "network"], "an intent of tool network")
        for host in ("closed.test", "far.test"):  # the sandbox's own denials and the operator's ceiling stay
            change(d, box, allow=[dict(one, host=host)])
            equal(silent(status, d, box, f"http://{host}/"), "403", host)
        a = change(d, box, allow=[dict(one, host="asked.test")])
        equal(a.status, 202, a)
        equal(silent(status, d, box, "http://asked.test/"), "403")
        id = a.json["approval_id"]
        equal(d.post(f"/v1/approvals/{id}/approve", {}).status, 200)
        equal(silent(status, d, box, "http://asked.test/"), "403")  # the grant is for a call that was not made yet
        a = change(d, box, {"X-Mas-Approval-Id": id}, allow=[dict(one, host="asked.test")])
        equal(a.status, 200, a)
        equal(status(d, box, "http://asked.test/"), "200")
        equal(change(d, box, {"X-Mas-Approval-Id": id}, allow=[dict(one, host="asked.test", ports=[8080])]).status, 403)


@test("what was widened ends in time, and rules outlive the control plane")
def test_rules_end_and_outlive_the_control_plane():
    with Daemon(config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}]}}).json["id"]
        equal(change(d, box, allow=[{"host": "two.test", "ports": [80], "for": "1h"}]).status, 200)
        equal(change(d, box, allow=[{"host": "other.test", "ports": [80], "for": "3s"}]).status, 200)
        equal(change(d, box, drop=["one.test"]).status, 200)
        ended = tunnel(d, box, "other.test", 80)
        wait_for(ended, "the tunnel has ended with its rule")
        equal(silent(status, d, box, "http://other.test/"), "403")
        equal([r["host"] for r in d.get(f"/v1/sandboxes/{box}/network").json["allow"]], ["two.test"])
        os.kill(d.get("/v1/status").json["pid"], 9)
        wait_for(lambda: d.get("/healthz").status == 200 and d.get(f"/v1/sandboxes/{box}").json.get("state", "").upper() == "READY", "the next control plane")
        equal([r["host"] for r in d.get(f"/v1/sandboxes/{box}/network").json["allow"]], ["two.test"])
        equal(status(d, box, "http://two.test/"), "200")
        equal(silent(status, d, box, "http://one.test/"), "403")


@test("an agent's key widens nothing but through the gate, and only what is its own")
def test_an_agents_key_widens_through_the_gate():
    policy = "version: 1\ndefault: allow\nrules:\n  - {id: person, verdict: ask, tool: network, host: [two.test]}\n"
    one = {"host": "two.test", "ports": [80], "for": "10m"}
    with Guarded(policy, "-auth-token", "token", config=OPEN) as d:
        d.token = "token"
        keys = {name: d.post("/v1/keys", {"name": name, "roles": roles}).json["secret"] for name, roles in (("a", ["agent"]), ("b", ["agent"]), ("p", ["approver"]))}
        d.token = None
        as_ = {name: {"Authorization": "Bearer " + secret} for name, secret in keys.items()}
        box = d.request("POST", "/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}]}}, headers=as_["a"]).json["id"]
        equal(change(d, box, as_["b"], allow=[one]).status, 404)
        equal(change(d, box, as_["p"], allow=[one]).status, 403)
        a = change(d, box, as_["a"], allow=[one])
        equal(a.status, 202, a)
        id = a.json["approval_id"]
        equal(d.request("POST", f"/v1/approvals/{id}/approve", {}, headers=as_["a"]).status, 403)
        equal(change(d, box, {**as_["a"], "X-Mas-Approval-Id": id}, allow=[one]).status, 403)
        a = change(d, box, as_["a"], allow=[one])
        id = a.json["approval_id"]
        equal(d.request("POST", f"/v1/approvals/{id}/approve", {}, headers=as_["p"]).status, 200)
        equal(change(d, box, {**as_["b"], "X-Mas-Approval-Id": id}, allow=[one]).status, 404)
        equal(change(d, box, {**as_["a"], "X-Mas-Approval-Id": id}, allow=[one]).status, 200)
        equal(change(d, box, {**as_["a"], "X-Mas-Approval-Id": id}, allow=[dict(one, ports=[8080])]).status, 403)


@test("a rule that asks: the connection is refused and a person asked, once for a host; a yes opens host and port for a time, a no closes them")
def test_rules_that_ask():
    policy = """version: 1
default: allow
rules:
  - {id: person, verdict: ask, tool: network, host: ["asked.test"]}
  - {id: no-mail, verdict: deny, tool: network, host: ["mail.test"]}
"""
    with Guarded(policy, config=OPEN + 'disallowed_hosts: ["far.ask.test"]\n') as d:
        def pending():
            return d.get("/v1/approvals?status=pending").json["approvals"]

        def answer(id, what):
            equal(d.post(f"/v1/approvals/{id}/{what}", {}).status, 200)

        equal(d.post("/v1/sandboxes", {"network": {"allow": [{"host": "asked.test"}]}}).status, 403)
        equal(d.post("/v1/sandboxes", {"network": {"allow": [{"host": "mail.test", "ask": True}]}}).status, 403)
        a = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}], "deny": [{"host": "two.test", "ask": True}]}})
        equal((a.status, a.json["error"]["field"]), (400, "network.deny[0].ask"), a)
        rules = {"allow": [{"host": "asked.test", "ask": True}, {"host": "*.ask.test", "ask": True, "name": "any"}, {"host": "one.test"}]}
        box = d.post("/v1/sandboxes", {"network": rules}).json["id"]
        equal([r.get("ask") for r in d.get(f"/v1/sandboxes/{box}/network").json["allow"]], [True, True, None])
        equal(status(d, box, "http://one.test/"), "200")
        for _ in range(3):
            out = silent(run, d, box, "curl", "-sS", "-m", "20", "http://asked.test/")
            check("approval_needed" in out["stdout"], out)
        wait_for(lambda: len(pending()) == 1, "there is one question")
        asked = d.get(f"/v1/approvals/{pending()[0]['id']}").json
        equal((asked["subject"]["network"]["host"], asked["subject"]["network"]["port"], asked["subject"]["network"]["for_seconds"]), ("asked.test", 80, 3600), asked)
        # What the daemon or the policy closes is not asked about, and a name is shown in its ASCII form.
        for host in ("far.ask.test", "mail.test"):
            equal(silent(status, d, box, f"http://{host}/"), "403", host)
        silent(status, d, box, "http://xn--bcher-kva.ask.test/")
        wait_for(lambda: len(pending()) == 2, "there are two")
        check("xn--bcher-kva.ask.test" in str(d.get(f"/v1/approvals/{pending()[1]['id']}").json), pending())
        for i in range(9):
            silent(status, d, box, f"http://h{i}.ask.test/")
        time.sleep(0.3)
        equal(len(pending()), 5, pending())
        # It outlives the control plane: one that was asked is not asked again, and its answer holds.
        d.kill_control()
        silent(status, d, box, "http://asked.test/")
        equal(len([p for p in pending() if "asked.test" in str(d.get(f"/v1/approvals/{p['id']}").json["subject"]["network"])]), 1, pending())
        for p in pending():
            host = d.get(f"/v1/approvals/{p['id']}").json["subject"]["network"]["host"]
            answer(p["id"], "approve" if host == "asked.test" else "reject")
        wait_for(lambda: status(d, box, "http://asked.test/") == "200", "the yes holds")
        equal(silent(status, d, box, "http://asked.test:8080/"), "403")
        rules = d.get(f"/v1/sandboxes/{box}/network").json
        opened = [r for r in rules["allow"] if r["host"] == "asked.test" and not r.get("ask")]
        check(len(opened) == 1 and opened[0]["ports"] == [80] and "expires_at" in opened[0], rules)


@test("a yes to a rule with methods and paths opens those and no others, and a no closes those and no others")
def test_answers_about_requests():
    with Guarded("version: 1\ndefault: allow\nrules: []\n", config=OPEN) as d:
        rules = {"allow": [{"host": "*.test", "ports": [80], "methods": ["GET"], "paths": ["/a*"], "ask": True, "name": "reads"},
                           {"host": "asked.test", "ports": [80], "methods": ["POST"], "paths": ["/b"], "ask": True},
                           {"host": "asked.test", "ports": [80], "methods": ["HEAD"]}]}
        box = d.post("/v1/sandboxes", {"network": rules}).json["id"]
        pending = lambda: d.get("/v1/approvals?status=pending").json["approvals"]
        asks = lambda path, method: run(d, box, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "9", "-X", method, "-I" if method == "HEAD" else "-g",
                                        "http://asked.test" + path)["stdout"]
        for method, path, answer in (("GET", "/a/1", "approve"), ("POST", "/b", "reject")):
            equal(silent(asks, path, method), "403")
            wait_for(pending, "it asks")
            rule = d.get(f"/v1/approvals/{pending()[0]['id']}").json["subject"]["network"]["rule"]
            check(f"methods={method} path={path[:2]}" in rule and rule.startswith("asked.test:80 "), rule)
            equal(d.post(f"/v1/approvals/{pending()[0]['id']}/{answer}", {}).status, 200)
            wait_for(lambda: not pending(), "it is answered")
        wait_for(lambda: asks("/a/1", "GET") not in ("403", "000"), "the yes holds")
        wait_for(lambda: "deny" in str(d.get(f"/v1/sandboxes/{box}/network").json) and d.get(f"/v1/sandboxes/{box}/network").json["deny"], "so does the no")
        check(asks("/x", "HEAD") not in ("403", "000"), "a no to POST is none to HEAD")
        for path, method in (("/b", "POST"), ("/b", "GET"), ("/a/1", "PUT"), ("/", "GET")):
            equal(silent(asks, path, method), "403", (path, method))
        equal(pending(), [], "no question about what was answered, or what no rule allows")


@test("several rules of one host ask: a person is asked about the one that refused, and about each of them")
def test_rules_that_ask_are_told_apart():
    with Guarded("version: 1\ndefault: allow\nrules: []\n", config=OPEN) as d:
        allow = [{"host": "asked.test", "ports": [80], "methods": ["GET"], "ask": True}, {"host": "asked.test", "ports": [80], "methods": ["GET", "POST"], "paths": ["/upload"], "ask": True},
                 {"host": "*.test", "ports": [80], "methods": ["PUT"], "ask": True, "name": "asked"}, {"host": "*.test", "ports": [80], "methods": ["PUT", "DELETE"], "ask": True}]
        box = d.post("/v1/sandboxes", {"network": {"allow": allow}}).json["id"]
        net = {"Network": {"Enabled": True, "AllowedHosts": ["asked.test"]}}
        send = lambda method: f"curl -s -o /dev/null -m 9 -X {method} http://asked.test/upload"
        asked = lambda: [d.get(f"/v1/approvals/{p['id']}").json["subject"]["network"]["rule"] for p in d.get("/v1/approvals?status=pending").json["approvals"]]
        want = set()
        for method, requests in (("POST", "methods=GET,POST path=/upload"), ("GET", "methods=GET"), ("PUT", "methods=PUT")):
            want.add("asked.test:80 " + requests)
            for _ in range(2):
                silent(run, d, box, "sh", "-c", send(method))
            wait_for(lambda: len(asked()) >= len(want), "a question about " + method)
            equal(set(asked()), want)
        if os.environ.get("MAS_RUNTIME", "").endswith(("gvisor", "microvm")):
            return  # which have no calls with fewer hosts
        want.add("asked.test:80 methods=PUT,DELETE")  # of a rule that the gateway has with the call's host
        silent(d.post, "/v1/sandbox/execute", {"sandbox_id": box, "tool": {"name": "shell", "args": {"command": send("DELETE")}}, "policy": net})
        wait_for(lambda: len(asked()) >= len(want), "a question about DELETE")
        equal(set(asked()), want)


@test("a yes to a rule that asks holds for a call with fewer hosts than its sandbox, which runs already, and is asked for once")
def test_a_yes_reaches_a_narrower_call():
    if os.environ.get("MAS_RUNTIME", "").endswith(("gvisor", "microvm")):
        return  # which have no such calls
    with Guarded("version: 1\ndefault: allow\nrules: []\n", config=OPEN) as d:
        rules = {"allow": [{"host": "asked.test", "ask": True}, {"host": "two.test", "ask": True}, {"host": "one.test"}]}
        box = d.post("/v1/sandboxes", {"network": rules}).json["id"]
        line = "for i in $(seq 300); do s=$(curl -s -o /dev/null -w '%{http_code}' -m 9 http://asked.test/); echo $s; [ $s = 200 ] && exit; sleep 0.2; done"
        told = []

        def call():
            told.append(mas_result(d.post("/v1/sandbox/execute", {"sandbox_id": box, "tool": {"name": "shell", "args": {"command": line}},
                                                                  "policy": {"Network": {"Enabled": True, "AllowedHosts": ["asked.test", "one.test"]}}})))

        caller = threading.Thread(target=call, daemon=True)
        caller.start()
        pending = lambda: d.get("/v1/approvals?status=pending").json["approvals"]
        wait_for(pending, "it asks")
        equal(silent(status, d, box, "http://asked.test/"), "403")  # through the sandbox's own proxy, which asks no second time
        equal(len(pending()), 1)
        equal(d.post(f"/v1/approvals/{pending()[0]['id']}/approve", {}).status, 200)
        caller.join(120)
        equal(told[0].split()[-1] if told else None, "200", told)
        equal(status(d, box, "http://asked.test/"), "200")
        equal([a["status"] for a in d.get("/v1/approvals").json["approvals"]], ["used"], "questions of this sandbox")


@test("P23, P25: a question of a rule that asks is its sandbox's key's, ends with that key, and no other follows")
def test_a_question_ends_with_its_key():
    with Guarded("version: 1\ndefault: allow\nrules: []\n", "-auth-token", "the-token", config=OPEN) as d:
        d.token = "the-token"
        agent, person = (d.post("/v1/keys", {"name": n, "roles": [r]}).json for n, r in (("agent", "agent"), ("person", "approver")))
        questions = lambda state: [a for a in d.get(f"/v1/approvals?status={state}", headers={"Authorization": "Bearer " + person["secret"]}).json["approvals"]]
        d.token = agent["secret"]
        rules = {"allow": [{"host": "asked.test", "ask": True}, {"host": "two.test", "ask": True}, {"host": "one.test"}]}
        box = d.post("/v1/sandboxes", {"network": rules}).json["id"]
        # It asks about the second host only when the file is there, and says that it did.
        line = ("curl -s -m 9 http://asked.test/; until [ -e /workspace/go ]; do sleep 0.1; done;"
                " for i in 1 2 3; do curl -s -m 9 http://two.test/ >/dev/null; done; touch /workspace/went; sleep 1000")
        equal(d.post(f"/v1/sandboxes/{box}/exec", {"command": ["sh", "-c", line], "async": True}).status, 200)
        wait_for(lambda: questions("pending"), "the question")
        q = questions("pending")[0]
        equal((q["requester"]["key"], q["requester"]["name"], q["requester"]["authenticated"]), (agent["id"], "agent", True), q)
        d.token = "the-token"
        equal(d.delete(f"/v1/keys/{agent['id']}").status, 200)
        wait_for(lambda: questions("void"), "it has ended with the key")
        a = d.post(f"/v1/approvals/{q['id']}/approve", {}, headers={"Authorization": "Bearer " + person["secret"]})
        check(a.status in (403, 409), a)
        equal(d.put(f"/v1/sandboxes/{box}/files/content?path=/workspace/go", b"").status, 200)
        wait_for(lambda: d.get(f"/v1/sandboxes/{box}/files/stat?path=/workspace/went").status == 200, "it went on")
        equal(questions("pending"), [], "asked in the name of a key that has ended")
        opened = [r for r in d.get(f"/v1/sandboxes/{box}/network").json["allow"] if r["host"] != "one.test" and not r.get("ask")]
        equal(opened, [])


@test("a sandbox has as many as 1,024 rules that allow and that deny, each of which holds, also for a call with fewer hosts")
def test_a_thousand_rules():
    with Daemon(config=OPEN) as d:
        allow = [{"host": f"h{i}.a-name-of-some-length.example"} for i in range(1022)] + [{"host": "one.test"}, {"host": "*.test", "ports": [8080]}]
        deny = [{"host": f"d{i}.a-name-of-some-length.example"} for i in range(1023)] + [{"host": "other.test", "name": "last"}]
        equal(d.post("/v1/sandboxes", {"network": {"allow": allow + [{"host": "x.test"}]}}).status, 400)
        a = d.post("/v1/sandboxes", {"network": {"allow": [dict(r, host="x" * 60 + "." + "y" * 60 + "." + r["host"]) for r in allow[:1000]]}})
        check(a.status == 400 and "bytes" in a.body.decode(), a)
        box = d.post("/v1/sandboxes", {"network": {"allow": allow, "deny": deny}}).json["id"]
        for url, want in (("http://one.test/", "200"), ("http://two.test:8080/", "200")):
            equal(status(d, box, url), want, url)
        for url in ("http://two.test/", "http://other.test:8080/", "http://d5.a-name-of-some-length.example/", "http://h1022.a-name-of-some-length.example/"):
            equal(silent(status, d, box, url), "403", url)
        equal(change(d, box, deny=deny[:129]).status, 400)
        equal(change(d, box, deny=deny[:128]).status, 200)
        d.kill_control()
        equal(status(d, box, "http://one.test/"), "200")
        if not os.environ.get("MAS_RUNTIME", "").endswith(("gvisor", "microvm")):
            narrow = {"Network": {"Enabled": True, "AllowedHosts": ["one.test"]}}
            equal(mas_result(d.post("/v1/sandbox/execute", {"sandbox_id": box, "tool": shell("one.test"), "policy": narrow})), "200")


ASKING = "version: 1\ndefault: allow\nrules:\n  - {id: person, verdict: ask, tool: network, host: [two.test]}\n"


def rules_of(d, box):
    n = d.get(f"/v1/sandboxes/{box}/network").json
    return {r["host"] for r in n["allow"]}, {r["host"] for r in n["deny"]}


@test("P26: the record of a change says what it allows, for how long, what it denies and what it drops")
def test_changes_are_on_record():
    with Guarded(ASKING, config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}, {"host": "other.test"}]}}).json["id"]

        def records():
            return [r for r in d.records(sandbox=box) if "network" in r.get("details", {})]

        equal(d.request("PATCH", f"/v1/sandboxes/{box}/network", {"deny": [{"host": "mail.test"}], "drop": ["other.test"]}).status, 200)
        r = records()[-1]
        equal((r["kind"], r["outcome"]), ("sandbox", "network"), r)
        n = r["details"]["network"]
        equal((n["allow"], n["deny"], n["drop"], n["drop_all"]), ([], ["mail.test"], ["other.test"], False), r)
        check(n["digest"].startswith("sha256:"), n)
        a = d.request("PATCH", f"/v1/sandboxes/{box}/network", {"allow": [{"host": "asked.test", "ports": [80], "for": "10m"}], "deny": [{"host": "late.test"}]})
        equal(a.status, 200, a)
        r = records()[-1]
        equal(r["kind"], "intent", r)
        check(r["details"]["network"]["allow"][0].startswith("asked.test:80 until="), r)
        equal(r["details"]["network"]["deny"], ["late.test"], r)
        equal(d.request("PATCH", f"/v1/sandboxes/{box}/network", {"mode": "none"}).status, 200)
        equal(records()[-1]["details"]["network"]["drop_all"], True)


@test("what is taken away in one change with what a person is asked about is gone at once, and the yes brings nothing back")
def test_narrowing_waits_for_nobody():
    with Guarded(ASKING, config=OPEN) as d:
        box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.test"}, {"host": "other.test"}]}}).json["id"]
        path = f"/v1/sandboxes/{box}/network"
        wider = {"host": "two.test", "ports": [80], "for": "10m"}
        body = {"allow": [{"host": "one.test"}, wider], "deny": [{"host": "mail.test"}], "drop": ["other.test"]}
        a = d.request("PATCH", path, body)
        equal(a.status, 202, a)
        equal(rules_of(d, box), ({"one.test"}, {"mail.test"}), "while a person is asked")
        equal(d.post(f"/v1/approvals/{a.json['approval_id']}/approve", {}).status, 200)
        a = d.request("PATCH", path, body, headers={"X-Mas-Approval-Id": a.json["approval_id"]})
        equal(a.status, 200, a)
        equal(rules_of(d, box), ({"one.test", "two.test"}, {"mail.test"}))
        equal(d.request("PATCH", path, {"drop": ["two.test:80"]}).status, 200)
        answers = []
        waiting = {"allow": [{"host": "one.test"}, wider]}
        t = threading.Thread(target=lambda: answers.append(d.request("PATCH", path, waiting, headers={"X-Mas-Approval": "wait"})), daemon=True)
        t.start()
        pending = lambda: d.get("/v1/approvals?status=pending").json["approvals"]
        wait_for(pending, "the question")
        equal(d.request("PATCH", path, {"drop": ["one.test"]}).status, 200)
        equal(d.post(f"/v1/approvals/{pending()[0]['id']}/approve", {}).status, 200)
        t.join(120)
        equal([a.status for a in answers], [200], answers)
        equal(rules_of(d, box)[0], {"two.test"}, "what was dropped meanwhile stays so")
        a = d.request("PATCH", path, {"mode": "none", "allow": [dict(wider, ports=[8080])]})
        if a.status == 202:
            equal(rules_of(d, box)[0] - {"two.test"}, set())


@test("a person's no to a rule that asks holds when the control plane dies before, and between its record and the sandbox's")
def test_a_no_outlives_the_control_plane():
    for fault, kill in ((None, True), ("approval.recorded:2", False)):
        more = {"env": {"MAS_FAULT": fault}} if fault else {}
        with Guarded("version: 1\ndefault: allow\nrules: []\n", "--debug-endpoints", config=OPEN, **more) as d:
            box = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "asked.test", "ask": True}, {"host": "one.test"}]}}).json["id"]
            equal(silent(status, d, box, "http://asked.test/"), "403")
            asked = lambda: again(d, "GET", "/v1/approvals").json["approvals"]
            wait_for(asked, "the question")
            if kill:
                d.kill_control()
            again_ready = lambda: again(d, "GET", f"/v1/sandboxes/{box}").json.get("state") == "ready"
            wait_for(again_ready, "the sandbox again")
            once(d, "POST", f"/v1/approvals/{asked()[0]['id']}/reject", {})
            wait_for(lambda: asked()[0]["status"] == "rejected", "the no")
            wait_for(again_ready, "the sandbox again")
            for _ in range(3):
                equal(silent(status, d, box, "http://asked.test/"), "403", fault)
            wait_for(lambda: "asked.test" in rules_of(d, box)[1] or any("asked.test" in h for h in rules_of(d, box)[1]), "it is denied")
            equal([a["status"] for a in asked()], ["rejected"], "it is not asked about again")


# --- what is told of them

@test("decisions are in the log with their rule, in order and by pages; what follows comes as it happens")
def test_decisions_are_in_the_log():
    with Daemon(config=OPEN + "network_records_per_minute: 5\n") as d:
        rules = {"allow": [{"host": "one.test", "name": "first"}, {"host": "*.test", "ports": [8080]}], "deny": [{"host": "other.test", "name": "no-other"}]}
        box = d.post("/v1/sandboxes", {"network": rules}).json["id"]
        quiet = d.post("/v1/sandboxes", {"network": rules}).json["id"]

        def log(query="", box=box):
            return [json.loads(x) for x in d.get(f"/v1/sandboxes/{box}/network/log{query}").body.splitlines()]

        for url in ("http://one.test/secret-path", "http://two.test:8080/", "http://other.test/", "http://nowhere.test/"):
            status(d, box, url)
        wait_for(lambda: len(log()) >= 6, "six lines of the log")
        shown = sorted((e["type"], e["data"]["host"], e["data"]["port"], e["data"].get("rule")) for e in log())
        equal(shown, [("network.allowed", "one.test", 80, "first"), ("network.allowed", "two.test", 8080, "*.test:8080"),
                      ("network.closed", "one.test", 80, "first"), ("network.closed", "two.test", 8080, "*.test:8080"),
                      ("network.denied", "nowhere.test", 80, None), ("network.denied", "other.test", 80, "no-other")])
        closed = [e["data"] for e in log() if e["type"] == "network.closed"]
        check(all(c["sent_bytes"] > 0 and c["received_bytes"] > 0 and c["duration_ms"] >= 0 for c in closed), closed)
        check(all("exec_id" in e["data"] for e in log() if e["type"] != "network.closed"), log())
        check("secret-path" not in str(log()), "a path in the log")
        equal(log(box=quiet), [])
        first = log("?limit=2")
        equal(first + log(f"?since={first[-1]['seq']}"), log())
        for _ in range(9):
            status(d, box, "http://other.test/")
        d.request("DELETE", f"/v1/sandboxes/{box}")
        told = [json.loads(x) for x in d.get("/v1/events?types=network").body.splitlines()]
        told = [e for e in told if e["id"] == box]
        equal([e["data"] for e in told if e["type"] == "network.summary"], [{"allowed": 0, "denied": 5}])  # a rule that decides often hides no other
        equal(len([e for e in told if e["type"] in ("network.allowed", "network.denied")]), 8)
        text = d.get("/metrics").body.decode()
        check("sandbox_connections_total 2\n" in text and "sandbox_connections_denied_total 11\n" in text, text)
        records = [json.loads(x) for x in d.get(f"/v1/audit?kind=network&sandbox={box}").body.splitlines()]
        equal([r["details"].get("rule") for r in records][:3], ["first", "*.test:8080", "no-other"])


main()
