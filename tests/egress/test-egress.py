#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network of sandboxes as a whole: who has one, which requests for one are refused, what survives the death of a process,
and what the audit has of it."""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
from cases import Net, status  # noqa: E402
from guarded import Guarded  # noqa: E402
from masd import Sandbox, check, equal, main, test, wait_for  # noqa: E402

net = Net(w.World(), {"allow": [{"host": "allowed.test", "ports": [80, 443]}]})
daemon = net.daemon


def run(*argv, box=None, **more):
    return net.run(*argv, box=box and Sandbox(daemon, {"id": box}), **more)


def get(url, box=None):
    return net.get(url, box=box and Sandbox(daemon, {"id": box}))[0]


def answers(url):
    """Also while a daemon that starts again refuses what it is asked."""
    try:
        return status(get(url)) == 200
    except (AssertionError, ValueError):
        return False


def silent(what, *args, **more):
    """Calls it, and no packet may leave."""
    net.begin()
    out = what(*args, **more)
    net.check_silence()
    return out


@test("a sandbox without a network has no proxy")
def test_a_sandbox_without_a_network_has_no_proxy():
    for network in (None, "none", False, {"mode": "none"}, {"allow": []}, {"deny": [{"host": "a.test"}]}):
        body = {"command": ["sh", "-c", "echo \"[$HTTP_PROXY]\"; python3 -c \"import socket;socket.create_connection(('127.0.0.1',3128),5)\""]}
        if network is not None:
            body["network"] = network
        a = daemon.post("/v1/run", body)
        check(a.json["stdout"] == "[]\n" and "refused" in a.json["stderr"], (network, a))


@test("two sandboxes have two lists, and a one-shot has its own")
def test_two_sandboxes_have_two_lists_and_a_one_shot():
    a = daemon.post("/v1/run", {"command": ["curl", "-sS", "http://denied.test/"], "network": {"allow": [{"host": "denied.test"}]}})
    equal(a.json["stdout"], "hello\n", a)
    a = daemon.post("/v1/run", {"command": ["curl", "-sS", "http://allowed.test/"], "network": {"allow": [{"host": "denied.test"}]}})
    check("host_not_allowed" in a.json["stdout"], a)


@test("what this version does not do is refused by name")
def test_what_this_version_does_not_do_is_refused_by_name():
    host = {"host": "a.test"}
    for network, word in (({"mode": "full"}, "network"), (True, "network")):
        a = daemon.post("/v1/sandboxes", {"network": network})
        equal((a.status, a.json["error"]["code"], word in str(a.json)), (400, "unsupported", True), (network, a))
    for network in ({"allow": [{"host": "a.test:80"}]}, {"allow": [{}]}, {"allow": [{"host": "a b"}]}, {"allow": [{"host": "127.1"}]}, {"allow": [{"host": "11.0.0.0/8"}]},
                    {"allow": [dict(host, ports=[])]}, {"allow": [dict(host, ports=[0])]}, {"allow": [dict(host, ports=["80"])]},
                    {"allow": ["a.test"]}, {"allow": [host], "mode": "none"}, {"allow": [host] * 1025}, {"mode": "names"},
                    {"allow": [host], "inject": ["x"]}):
        a = daemon.post("/v1/sandboxes", {"network": network})
        equal(a.status, 400, (network, a))
    for runtime in ("process", "landlock", "kata"):  # the host's loopback, or never tried
        a = daemon.post("/v1/sandboxes", {"runtime": runtime, "network": {"allow": [host]}})
        equal((a.status, a.json["error"]["code"]), (400, "unsupported"), (runtime, a))


@test("the policy decides on every host that a network names, also by a pattern")
def test_the_policy_decides_on_every_host_that_a_network():
    policy = """version: 1
default: allow
rules:
  - id: no-mail
    verdict: deny
    host: ["mail.test", "x.test:25"]
  - id: person
    verdict: ask
    host: ["asked.test"]
  - id: offline
    require: {no_network: true}
    tool: network
    host: ["offline.test"]
"""
    with Guarded(policy) as d:
        for host, rule in (({"host": "mail.test"}, "no-mail"), ({"host": "*.test"}, "no-mail"), ({"host": "*"}, "no-mail"),
                           ({"host": "MAIL.test."}, "no-mail"), ({"host": "x.test"}, "no-mail"), ({"host": "asked.test"}, "person"),
                           ({"host": "offline.test"}, "offline")):
            for path, body in (("/v1/sandboxes", {}), ("/v1/run", {"command": ["true"]})):
                a = d.post(path, dict(body, network={"allow": [{"host": "fine.test"}, host]}))
                equal((a.status, rule in str(a.json)), (403, True), (host, path, a))
        a = d.post("/sandboxes", {"allowed_hosts": ["mail.test"]})
        equal(a.status, 403, a)
        check(len([r for r in d.records(kind="refusal") if r.get("tool") == "network"]) >= 15, d.records(kind="refusal")[-1])
        for host in ({"host": "fine.test"}, {"host": "x.test", "ports": [443]}):
            a = d.post("/v1/run", {"command": ["true"], "network": {"allow": [host]}})
            equal(a.status, 200, (host, a))
    only = """version: 1
default: deny
rules:
  - id: commands
    verdict: allow
    command: "*"
  - id: net
    verdict: allow
    tool: network
    host: ["*.fine.test"]
"""
    with Guarded(only) as d:
        for host, want in (("a.fine.test", 200), ("*.b.fine.test", 200), ("fine.test", 403), ("*.test", 403), ("*", 403)):
            a = d.post("/v1/run", {"command": ["true"], "network": {"allow": [{"host": host}]}})
            equal(a.status, want, (host, a))


@test("the sbx API's lists are the same rules; the MAS API cannot narrow them per call")
def test_the_sbx_api_lists_are_the_same_rules_the_mas_api():
    a = daemon.post("/sandboxes", {"allowed_hosts": ["allowed.test", "*.wild.test"], "disallowed_hosts": ["bad.wild.test"]})
    box = a.json["id"]
    equal(status(get("http://allowed.test/", box)), 200)
    equal(status(get("http://one.wild.test/", box)), 200)
    equal(status(silent(get, "http://bad.wild.test/", box)), 403)
    equal(status(silent(get, "http://denied.test/", box)), 403)
    check("SBX_ALLOWED_HOSTS=allowed.test,*.wild.test" in run("env", box=box)["stdout"], "env")


@test("after the death of the control plane and of the gateway the network is there again")
def test_after_the_death_of_the_control_plane():
    equal(status(get("http://allowed.test/")), 200)
    for name in ("mas-gateway", "mas-control"):
        pids = net.processes(name)
        check(pids, f"there is a {name}")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: answers("http://allowed.test/"), f"a network after the death of {name}")
        equal(status(silent(get, "http://denied.test/")), 403)


@test("too many connections are refused and do not hang; they are given back")
def test_too_many_connections_are_refused_and_do_not_hang():
    code = ("import socket\n"
            "all=[]\n"
            "for i in range(60):\n"
            "    s=socket.create_connection(('127.0.0.1',3128),10); s.settimeout(20)\n"
            "    s.sendall(b'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n'); all.append(s)\n"
            "got=[]\n"
            "for s in all:\n"
            "    try: got.append(s.recv(100).split(b' ')[1].decode())\n"
            "    except (OSError, IndexError): got.append('end')\n"
            "print(got.count('200'), got.count('503')+got.count('end'))\n")
    a = run("python3", "-c", code)
    good, refused = map(int, a["stdout"].split())
    check(20 <= good <= 32 and good + refused == 60, a)
    wait_for(lambda: answers("http://allowed.test/"), "the connections are given back")


@test("decisions are in the audit, with the target and without the path")
def test_decisions_are_in_the_audit_with_the_target():
    box = daemon.post("/v1/sandboxes", {"network": {"allow": [{"host": "allowed.test"}]}}).json["id"]
    get("http://allowed.test/secret-path?token=1", box)
    get("http://denied.test/secret-path", box)
    for _ in range(25):
        get("http://denied.test/", box)
    daemon.request("DELETE", f"/v1/sandboxes/{box}")

    def mine():
        lines = daemon.get("/v1/audit?kind=network&limit=1000").body.decode().splitlines()
        return [r for r in map(json.loads, lines) if r.get("sandbox") == box]
    wait_for(lambda: any(r["outcome"] == "summary" for r in mine()), "the summary")
    records = mine()
    text = json.dumps(records)
    check("CONNECT allowed.test 80" in text and "OK 11.0.0.2" in text and "ERR host_not_allowed denied.test port 80" in text, text[:2000])
    check("secret-path" not in text, "a path in the audit")
    equal([r["outcome"] for r in records].count("summary"), 1, records[-3:])
    equal((len(records), records[-1]["details"]), (22, {"connected": 0, "refused": 6}), records[-3:])


main()
