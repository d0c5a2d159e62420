#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The MAS API: MAS tool calls over HTTP, as clients of the source system send them."""
import http.server
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

MIB = 1024 * 1024


# --- a small web for the URL tools

class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, type_, body, **headers):
        self.send_response(status)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(body)))
        for k, v in headers.items():
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/page":
            self.answer(200, "text/html", b"<html><head><title>T</title><script>no()</script></head>"
                        b"<body><h1>Head</h1><p>a <b>bold</b> word</p></body></html>")
        elif path == "/to-other-name":
            self.answer(302, "text/plain", b"", Location=f"http://localhost:{web_port()}/hello")
        elif path == "/hello":
            self.answer(200, "text/plain", b"WEB-BODY\n")
        elif path == "/big":
            self.answer(200, "text/plain", b"x" * (6 * MIB))
        elif path == "/slow":
            time.sleep(PATIENCE_S)
            self.answer(200, "text/plain", b"late")
        elif path == "/search":
            self.answer(200, "application/json", json.dumps(
                {"Heading": "H", "AbstractText": "An abstract.", "AbstractURL": "https://a.example/",
                 "AbstractSource": "Wiki",
                 "RelatedTopics": [{"FirstURL": "https://b.example/", "Text": "B - about b"}]}).encode())
        else:
            self.answer(404, "text/plain", b"nothing")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(201, "application/json", json.dumps(
            {"body": body.decode(), "x": self.headers.get("X-Test")}).encode())


_web = None


def web_port():
    global _web
    if not _web:
        _web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
        _web.daemon_threads = True
        threading.Thread(target=_web.serve_forever, daemon=True).start()
    return _web.server_port


def url(path):
    return f"http://127.0.0.1:{web_port()}{path}"


# --- calls

def daemon():
    return shared_daemon("--gateway-allow-private", "127.0.0.0/8", "--gateway-allow-private", "::1",
                         "--web-search-endpoint", url("/search"), env={"SANDBOX_ENV_KEPT": "1",
                                                                       "SANDBOX_ENV_HIDDEN": "2"})


def execute(tool, args=None, policy=None, sandbox=None, d=None, **more):
    body = dict({"tool_call_id": "tc", "tool": {"name": tool, "args": args or {}}}, **more)
    if policy is not None:
        body["policy"] = policy
    if sandbox:
        body["sandbox_id"] = sandbox
    a = (d or daemon()).post("/v1/sandbox/execute", body)
    equal(a.status, 200, f"{tool} {a}")
    v = a.json
    equal(v["tool_call_id"], "tc")
    check(set(v) <= {"tool_call_id", "status", "result", "error", "exit_code", "usage", "stderr"}, v)
    equal("error" in v, v["status"] == "error", v)
    return v


def ok(tool, args=None, policy=None, **kw):
    v = execute(tool, args, policy, **kw)
    equal((v["status"], v.get("error"), v["exit_code"]), ("ok", None, 0), v)
    return v["result"]


def refused(code, message, tool, args=None, policy=None, **kw):
    v = execute(tool, args, policy, **kw)
    equal((v["status"], v["error"]["code"]), ("error", code), v)
    check(message in v["error"]["message"], v)
    check(v["exit_code"] != 0, v)
    return v


def unsuccessful(words, tool, args=None, policy=None, **kw):
    """The tool ran and says itself that it did not succeed: a result, which an agent's model reads and goes on from. The
    library ends an agent's whole run at an error."""
    r = ok(tool, args, policy, **kw)
    equal(r["success"], False, r)
    check(words in r["error"], r)
    return r


def sh(command, policy=None, **kw):
    return ok("shell", {"command": command}, policy, **kw)["stdout"]


def create(sandbox_id=None, **body):
    if sandbox_id:
        body["sandbox_id"] = sandbox_id
    a = daemon().post("/v1/sandbox/create", body)
    equal(a.status, 200, a)
    equal(set(a.json), {"sandbox_id", "status"})
    equal(a.json["status"], "ok")
    return a.json["sandbox_id"]


def destroy(sandbox_id):
    a = daemon().post("/v1/sandbox/destroy", {"sandbox_id": sandbox_id})
    equal((a.status, a.json), (200, {"status": "ok"}))


NET = {"Network": {"Enabled": True}}
FILES = {"AllowedPaths": ["/workspace"]}


# --- endpoints

@test("health answers status and version, without a token too")
def test_health_answers_status_and_version_without():
    a = daemon().get("/v1/sandbox/health")
    equal((a.status, a.json["status"], set(a.json)), (200, "ok", {"status", "version"}))
    with Daemon("-auth-token", "secret") as d:
        equal(d.get("/v1/sandbox/health").status, 200)


@test("execute without a sandbox: one-shot, gone afterwards")
def test_execute_without_a_sandbox_one_shot_gone():
    before = daemon().get("/v1/status").json["counts"]["sandboxes"]
    v = execute("calculator", {"expression": "15*8+7"}, trace={"run_id": "r", "step_id": "s"})
    equal(v["result"], {"expression": "15*8+7", "result": 127})
    equal(set(v["usage"]), {"cpu_ms", "mem_mb"})
    ok("shell", {"command": "echo left > /workspace/f"})
    check("No such file" in ok("shell", {"command": "cat /workspace/f 2>&1; true"})["stdout"], "a file was left")
    wait_for(lambda: daemon().get("/v1/status").json["counts"]["sandboxes"] == before, "one-shots gone")


@test("tool_call_id is left out when none was sent")
def test_tool_call_id_is_left_out_when_none_was_sent():
    a = daemon().post("/v1/sandbox/execute", {"tool": {"name": "calculator", "args": {"expression": "1"}}})
    check("tool_call_id" not in a.json, a)


@test("create, execute with the caller's own id, destroy; destroying twice")
def test_create_execute_with_the_caller_own_id_destroy():
    equal(create("Run:1/x".replace("/", "_")), "Run:1_x")
    sh("echo kept > /workspace/f", sandbox="Run:1_x")
    equal(sh("cat /workspace/f", sandbox="Run:1_x"), "kept\n")
    for sandbox_id in ("Run:1_x", "Run:1_x", "never-made", ""):
        destroy(sandbox_id)
    refused("invalid_request", "there is no sandbox", "calculator", {"expression": "1"}, sandbox="Run:1_x")


@test("an alias is 1 to 128 printable bytes, and unique")
def test_an_alias_is_1_to_128_printable_bytes_and_unique():
    create("a" * 128)
    equal(daemon().post("/v1/sandbox/create", {"sandbox_id": "a" * 128}).status, 409)
    destroy("a" * 128)
    for bad in ("a" * 129, "a/b", "../x", "a\nb", "é"):
        a = daemon().post("/v1/sandbox/create", {"sandbox_id": bad})
        equal((a.status, a.json["error"].get("field")), (400, "sandbox_id"), bad)


@test("no word is both a sandbox's id and a caller's own name for another one")
def test_no_word_is_both_a_sandbox_id_and_a_caller_own():
    d = daemon()
    sid = create()
    equal(d.post("/v1/sandbox/create", {"sandbox_id": sid, "policy": {"AllowedTools": ["calculator"]}}).status, 409)
    destroy(sid)
    create("sbx-word")
    equal(d.post("/v1/sandboxes", {"id": "word"}).status, 409)
    equal(d.post("/sandboxes", {"id": "word"}).status, 409)
    destroy("sbx-word")


@test("a sandbox without an id gets one, and is known to the other contracts")
def test_a_sandbox_without_an_id_gets_one_and_is_known():
    sid = create(policy={}, resources={"cpu": 1, "mem_mb": 64, "disk_mb": 16, "timeout_ms": 5000})
    check(sid.startswith("sbx-"), sid)
    effective = daemon().get("/v1/sandboxes/" + sid).json["effective"]
    equal((effective["memory"]["limit_mb"], effective["disk"]["limit_mb"], effective["cpu"]["limit_cores"]), (64, 16, 1))
    equal(daemon().get("/sandboxes/" + sid).json["phase"], "Running")
    destroy(sid)


@test("resources.timeout_ms ends calls in that sandbox")
def test_resources_timeout_ms_ends_calls_in_that_sandbox():
    sid = create(resources={"timeout_ms": 300})
    refused("tool_failed", "timed out", "shell", {"command": "sleep 5"}, sandbox=sid)
    destroy(sid)


@test("resources of 0 mean not set")
def test_resources_of_0_mean_not_set():
    destroy(create(resources={"cpu": 0, "mem_mb": 0, "disk_mb": 0, "timeout_ms": 0}))


@test("bad requests get 400 with words, wrong methods 405, unknown paths 404")
def test_bad_requests_get_400_with_words_wrong_methods():
    d = daemon()
    for path in ("create", "execute", "destroy"):
        p = "/v1/sandbox/" + path
        for body in ("", "{", "[]", "null", '"x"', '{"a":1,"a":2}'):
            a = d.post(p, body)
            equal((a.status, a.json["error"]["code"]), (400, "invalid_request"), (p, body))
        equal(d.get(p).status, 405, p)
        equal(d.put(p, "{}").status, 405, p)
    equal(d.post("/v1/sandbox/health").status, 405)
    equal(d.get("/v1/sandbox/nothing").status, 404)
    equal(d.post("/v1/sandbox/destroy", {}).status, 400)
    for body in ({}, {"tool": None}, {"tool": "calculator"}, {"tool": {}}, {"tool": {"name": 1}},
                 {"tool": {"name": "calculator"}, "policy": 7},
                 {"tool": {"name": "calculator"}, "sandbox_id": 1}):
        equal(d.post("/v1/sandbox/execute", body).status, 400, body)
    a = d.post("/v1/sandbox/create", {"resources": {"mem_mb": -1}})
    equal((a.status, a.json["error"]["field"]), (400, "resources.mem_mb"))


@test("unknown members outside the policy are ignored")
def test_unknown_members_outside_the_policy_are_ignored():
    equal(ok("calculator", {"expression": "2", "colour": "red"}, new_member=[1])["result"], 2)


@test("unknown tool: 200 with tool not found")
def test_unknown_tool_200_with_tool_not_found():
    equal(refused("invalid_request", "", "nothing")["error"]["message"], "tool not found")


@test("args that are no object are refused in the answer")
def test_args_that_are_no_object_are_refused():
    refused("invalid_request", "args", "calculator", ["x"])


@test("a body of 1 MiB is taken, one byte more gets 413 that the client sees")
def test_a_body_of_1_mib_is_taken_one_byte_more_gets_413():
    d = daemon()
    head = '{"tool":{"name":"calculator","args":{"expression":"1"}},"pad":"'
    def padded(n):
        return head + "x" * (n - len(head) - 2) + '"}'
    equal(d.post("/v1/sandbox/execute", padded(MIB)).status, 200)
    a = d.post("/v1/sandbox/execute", padded(MIB + 1))
    equal((a.status, a.json["error"]["code"]), (413, "too_large"))
    equal(d.post("/v1/sandbox/execute", padded(15 * MIB)).status, 413)


@test("authentication: every form that clients use, and nothing else")
def test_authentication_every_form_that_clients_use():
    with Daemon("-auth-token", "s3cret") as d:
        body = {"tool": {"name": "calculator", "args": {"expression": "1"}}}
        def status(**headers):
            return d.post("/v1/sandbox/execute", body, headers={k.replace("_", "-"): v for k, v in headers.items()}).status
        equal(status(Authorization="Bearer s3cret"), 200)
        equal(status(Authorization="bearer s3cret"), 200)
        equal(status(Authorization="BEARER   s3cret"), 200)
        equal(status(X_Sandbox_Token="s3cret"), 200)
        for wrong in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer x"}, {"Authorization": "s3cret"},
                      {"Authorization": "Basic s3cret"}, {"X_Sandbox_Token": "s3cre"}, {"X_Sandbox_Token": ""}):
            equal(status(**wrong), 401, wrong)
        a = d.post("/v1/sandbox/execute", body)
        equal((a.headers["WWW-Authenticate"], a.json["error"]["code"]), ("Bearer", "unauthorized"))
        equal(d.post("/v1/sandbox/execute", "{").status, 401, "before the body is looked at")
        equal(d.get("/healthz").status, 200)
        for path in ("/sandboxes", "/v1/status", "/v1/sandboxes", "/metrics", "/openapi.json"):
            equal(d.get(path).status, 401, path)


# --- policy

@test("policy keys in CamelCase, snake_case and any letter case")
def test_policy_keys_in_camelcase_snake_case_and_any():
    for key in ("AllowedTools", "allowed_tools", "ALLOWEDTOOLS", "allowedTools", "Allowed_Tools"):
        equal(refused("policy_denied", "", "calculator", {"expression": "1"}, {key: ["fetch"]})["error"]["message"],
              "tool not allowed", key)
        ok("calculator", {"expression": "1"}, {key: ["fetch", "calculator"]})
    for key in ("Network", "network", "NETWORK"):
        for sub in ("Enabled", "enabled", "ENABLED"):
            equal(ok("http_client", {"method": "GET", "url": url("/hello")}, {key: {sub: True}})["status_code"], 200)


@test("null lists and empty lists mean not set")
def test_null_lists_and_empty_lists_mean_not_set():
    policy = {"AllowedTools": None, "AllowedCaps": None, "AllowedPaths": None, "EnvWhitelist": None,
              "Network": {"Enabled": False, "AllowedHosts": None}, "Timeout": 0, "MemoryLimit": 0,
              "MaxConcurrent": 0, "Workdir": ""}
    equal(ok("calculator", {"expression": "1"}, policy)["result"], 1)
    check("KEPT=1" in sh("env", policy), "environment lost")
    equal(ok("calculator", {"expression": "1"}, {"AllowedTools": [], "AllowedCaps": []})["result"], 1)
    equal(ok("calculator", {"expression": "1"}, None)["result"], 1)


@test("a policy given twice, or of wrong types, is a 400")
def test_a_policy_given_twice_or_of_wrong_types_is_a_400():
    for policy in ({"AllowedTools": ["x"], "allowed_tools": ["y"]}, {"AllowedTools": "x"}, {"AllowedTools": [1]},
                   {"Timeout": "soon"}, {"Timeout": -1}, {"MemoryLimit": "1"}, {"Network": True},
                   {"Network": {"Enabled": "yes"}}, {"MaxConcurrent": -1}, {"Workdir": 1}):
        a = daemon().post("/v1/sandbox/execute", {"tool": {"name": "calculator", "args": {"expression": "1"}}, "policy": policy})
        equal((a.status, a.json["error"]["code"]), (400, "invalid_request"), policy)


@test("AllowedCaps: every capability of the tool must be in it, a tool without one is denied")
def test_allowedcaps_every_capability_of_the_tool_must():
    refused("policy_denied", "capability not allowed", "calculator", {"expression": "1"}, {"AllowedCaps": ["file"]})
    refused("policy_denied", "capability not allowed", "shell", {"command": "true"}, {"AllowedCaps": ["file", "network"]})
    refused("policy_denied", "capability not allowed", "file_system", {"action": "list", "path": "/workspace"},
            {"AllowedCaps": ["unsafe"], "AllowedPaths": ["/workspace"]})
    refused("policy_denied", "capability not allowed", "fetch", {"url": url("/hello")}, dict(NET, AllowedCaps=["file"]))
    ok("shell", {"command": "true"}, {"AllowedCaps": ["unsafe"]})
    ok("fetch", {"url": url("/hello"), "format": "text"}, dict(NET, AllowedCaps=["network"]))


@test("network is off unless a policy turns it on")
def test_network_is_off_unless_a_policy_turns():
    for policy in (None, {}, {"Network": {"Enabled": False}}, {"Network": {}}):
        for tool, args in (("http_client", {"method": "GET", "url": url("/hello")}),
                           ("fetch", {"url": url("/hello")}), ("web_search", {"query": "x"})):
            equal(refused("policy_denied", "", tool, args, policy)["error"]["message"], "network disabled")


@test("AllowedHosts: checked on the URL and on every redirect")
def test_allowedhosts_checked_on_the_url():
    policy = {"Network": {"Enabled": True, "AllowedHosts": ["127.0.0.1"]}}
    get = {"method": "GET", "url": url("/hello")}
    ok("http_client", get, policy)
    equal(refused("policy_denied", "", "http_client", dict(get, url=get["url"].replace("127.0.0.1", "localhost")),
                  policy)["error"]["message"], "host not allowed")
    equal(refused("policy_denied", "", "fetch", {"url": "http://example.com/"}, policy)["error"]["message"],
          "host not allowed")
    v = execute("fetch", {"url": url("/to-other-name"), "format": "text"}, policy)
    check("WEB-BODY" not in json.dumps(v.get("result")), v)
    both = {"Network": {"Enabled": True, "AllowedHosts": ["127.0.0.1", "localhost"]}}
    equal(ok("fetch", {"url": url("/to-other-name"), "format": "text"}, both)["content"].strip(), "WEB-BODY")
    for trick in ("http://127.0.0.1@localhost:%d/hello", "http://127.0.0.1%%40localhost:%d/hello",
                  "http://127.0.0.1#@localhost:%d/hello", "http://localhost:%d\\@127.0.0.1/hello"):
        v = execute("fetch", {"url": trick % web_port()}, policy)
        check("WEB-BODY" not in json.dumps(v.get("result")), (trick, v))


@test("two lists of hosts that have too many rules together are refused, not cut")
def test_two_lists_of_hosts_that_have_too_many():
    d = daemon()
    names = {"Network": {"Enabled": True, "AllowedHosts": [f"h{i}.example" for i in range(64)]}}
    ports = {"Network": {"Enabled": True, "AllowedHosts": [f"*:{1000 + i}" for i in range(64)]}}
    equal(d.post("/v1/sandbox/create", {"sandbox_id": "many", "policy": names}).status, 200)
    for tool in ({"name": "fetch", "args": {"url": "http://h1.example:1001/"}}, {"name": "web_search", "args": {"query": "x"}}):
        a = d.post("/v1/sandbox/execute", {"sandbox_id": "many", "tool": tool, "policy": ports}).json
        equal(a["error"]["code"], "invalid_request", a)
        check("too many hosts" in a["error"]["message"], a)
    d.post("/v1/sandbox/destroy", {"sandbox_id": "many"})


@test("a call's AllowedHosts narrow the sandbox's, they never widen them")
def test_a_call_allowedhosts_narrow_the_sandboxs_they():
    sid = create(policy={"Network": {"Enabled": True, "AllowedHosts": ["127.0.0.1"]}})
    wide = {"Network": {"Enabled": True, "AllowedHosts": ["127.0.0.1", "localhost"]}}
    refused("policy_denied", "host not allowed", "fetch", {"url": f"http://localhost:{web_port()}/hello"}, wide, sandbox=sid)
    v = execute("fetch", {"url": url("/to-other-name"), "format": "text"}, wide, sandbox=sid)
    check("WEB-BODY" not in json.dumps(v.get("result")), v)
    refused("policy_denied", "host not allowed", "fetch", {"url": url("/hello")},
            {"Network": {"Enabled": True, "AllowedHosts": ["localhost"]}}, sandbox=sid)
    refused("policy_denied", "network disabled", "fetch", {"url": url("/hello")}, {"Network": {"Enabled": False}}, sandbox=sid)
    destroy(sid)


@test("private addresses need the operator's word")
def test_private_addresses_need_the_operator_word():
    with Daemon() as d:
        for name in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
            v = execute("fetch", {"url": f"http://{name}:{web_port()}/hello", "format": "text"}, NET, d=d)
            equal(v["status"], "error", name)
            check("WEB-BODY" not in json.dumps(v.get("result")), (name, v))


@test("file_system needs a path inside AllowedPaths or Workdir; both empty is path not allowed")
def test_file_system_needs_a_path_inside_allowedpaths():
    for policy in (None, {}, {"AllowedPaths": None, "Workdir": ""}, {"AllowedPaths": []}, {"AllowedPaths": ["/tmp"]}):
        for action in ("read", "list", "write", "delete"):
            equal(refused("policy_denied", "", "file_system", {"action": action, "path": "/workspace/x", "content": ""},
                          policy)["error"]["message"], "path not allowed", (policy, action))
    ok("file_system", {"action": "list", "path": "/workspace"}, {"Workdir": "/workspace"})
    for trick in ("/workspace/../etc/passwd", "/workspaces/x", "/workspace/../workspace2", "/"):
        refused("policy_denied", "path not allowed", "file_system", {"action": "read", "path": trick}, FILES)


@test("a symlink in the sandbox that leads out of AllowedPaths is path not allowed")
def test_a_symlink_in_the_sandbox_that_leads_out():
    sid = create()
    sh("mkdir /workspace/in /workspace/out; echo no > /workspace/out/f; ln -s ../out /workspace/in/dir;"
       "ln -s /workspace/out/f /workspace/in/file; ln -s /workspace/out/new /workspace/in/nowhere;"
       "echo yes > /workspace/in/real; ln -s real /workspace/in/good", sandbox=sid)
    inside = {"AllowedPaths": ["/workspace/in"]}
    equal(ok("file_system", {"action": "read", "path": "/workspace/in/good"}, inside, sandbox=sid)["content"], "yes\n")
    for args in ({"action": "read", "path": "/workspace/in/file"}, {"action": "read", "path": "/workspace/in/dir/f"},
                 {"action": "list", "path": "/workspace/in/dir"}, {"action": "delete", "path": "/workspace/in/dir/f"},
                 {"action": "write", "path": "/workspace/in/file", "content": "x"},
                 {"action": "write", "path": "/workspace/in/dir/new", "content": "x"}):
        refused("policy_denied", "path not allowed", "file_system", args, inside, sandbox=sid)
    execute("file_system", {"action": "write", "path": "/workspace/in/nowhere", "content": "x"}, inside, sandbox=sid)
    equal(sh("ls /workspace/out; cat /workspace/out/f", sandbox=sid), "f\nno\n")
    destroy(sid)


@test("AllowedPaths narrow what a shell command can open")
def test_allowedpaths_narrow_what_a_shell_command():
    sid = create()
    sh("mkdir -p /workspace/in /workspace/out; echo a > /workspace/in/a; echo b > /workspace/out/b;"
       "ln -s ../out /workspace/in/dir", sandbox=sid)
    policy = {"AllowedPaths": ["/workspace/in"]}
    equal(sh("cat /workspace/in/a", policy, sandbox=sid), "a\n")
    sh("echo c > /workspace/in/c", policy, sandbox=sid)
    for command in ("cat /workspace/out/b", "cat /workspace/in/dir/b", "ls /workspace/out", "echo x > /tmp/x",
                    "echo x > /workspace/out/x", "ln /workspace/out/b /workspace/in/b && cat /workspace/in/b",
                    "cd /workspace/in && cat ../out/b", "mv /workspace/out/b /workspace/in/",
                    "cat /proc/1/root/workspace/out/b"):
        refused("tool_failed", "exit status", "shell", {"command": command}, policy, sandbox=sid)
    refused("tool_failed", "", "code", {"language": "python", "code": "open('/workspace/out/b')"}, policy, sandbox=sid)
    equal(sh("cat /workspace/out/b; ls /workspace/in", sandbox=sid), "b\na\nc\ndir\n")
    destroy(sid)


@test("a MemoryLimit that no machine has is refused by its name, in a call and in a create")
def test_a_memorylimit_that_no_machine_has_is_refused():
    most = 1 << 44
    for n in (most + 1, 2**63 - 1):
        for path, body in (("execute", {"tool": {"name": "calculator", "args": {"expression": "1"}}}), ("create", {})):
            a = daemon().post("/v1/sandbox/" + path, dict(body, policy={"MemoryLimit": n}))
            equal((a.status, a.json["error"]["field"]), (400, "policy.MemoryLimit"), a)
            check(str(most) in a.json["error"]["message"], a)
    ok("calculator", {"expression": "1"}, {"memory_limit": most})


@test("more allowed paths than can be held to are refused, not left out")
def test_more_allowed_paths_than_can_be_held():
    many = {"AllowedPaths": ["/workspace"] * 30}
    create("paths", policy=many)
    refused("invalid_request", "meet in over 512 paths", "shell", {"command": "true"}, many, sandbox="paths")
    ok("shell", {"command": "true"}, {"AllowedPaths": ["/workspace"] * 8}, sandbox="paths")
    destroy("paths")


@test("a sandbox's AllowedPaths hold for every call, and a call cannot widen them")
def test_a_sandbox_allowedpaths_hold_for_every_call():
    sid = create(policy={"AllowedPaths": ["/workspace/in"], "Workdir": "/workspace"})
    destroy(sid)
    sid = create(policy={"AllowedPaths": ["/tmp"]})
    refused("tool_failed", "exit status", "shell", {"command": "echo x > /workspace/x"}, sandbox=sid)
    refused("tool_failed", "exit status", "shell", {"command": "echo x > /workspace/x"}, FILES, sandbox=sid)
    refused("policy_denied", "path not allowed", "file_system", {"action": "list", "path": "/workspace"}, FILES, sandbox=sid)
    ok("file_system", {"action": "write", "path": "/tmp/x", "content": "x"}, sandbox=sid)
    destroy(sid)


@test("a host path outside mounts.allow is policy_denied by that key's name")
def test_a_host_path_outside_mounts_allow_is_policy():
    refused("policy_denied", "mounts.allow", "shell", {"command": "pwd"}, {"Workdir": "/root"})
    equal(sh("ls -A /root; true", {"AllowedPaths": ["/root"]}), "", "the host's /root")
    a = daemon().post("/v1/sandbox/create", {"policy": {"Workdir": "/var/lib"}})
    equal((a.status, a.json["error"]["code"]), (403, "policy_denied"))


@test("a host Workdir under mounts.allow is bound and is where tools work")
def test_a_host_workdir_under_mounts_allow_is_bound():
    host = tempfile.mkdtemp(prefix="mas-test-mount-")
    os.chmod(host, 0o777)
    try:
        with open(host + "/given", "w") as f:
            f.write("from the host\n")
        with Daemon(config=f"mounts:\n  allow: [{host}]\n") as d:
            policy = {"Workdir": host}
            equal(sh("pwd; cat given; echo back > made", policy, d=d), host + "\nfrom the host\n")
            with open(host + "/made") as f:
                equal(f.read(), "back\n")
            equal(ok("file_system", {"action": "read", "path": host + "/given"}, policy, d=d)["content"], "from the host\n")
            os.symlink("/etc", host + "/link")
            refused("policy_denied", "path not allowed", "file_system", {"action": "read", "path": host + "/link/hostname"}, policy, d=d)
            equal(execute("shell", {"command": "true"}, {"Workdir": host + "/link"}, d=d)["status"], "error")
    finally:
        shutil.rmtree(host)


@test("Workdir is where commands start")
def test_workdir_is_where_commands_start():
    equal(sh("pwd", {"Workdir": "/tmp"}), "/tmp\n")
    sid = create(policy={"Workdir": "/home/sandbox"})
    equal(sh("pwd", sandbox=sid), "/home/sandbox\n")
    destroy(sid)


@test("Timeout in nanoseconds and as a duration")
def test_timeout_in_nanoseconds_and_as_a_duration():
    for timeout in (300_000_000, "300ms", "0.3s"):
        start = time.time()
        v = refused("tool_failed", "timed out", "shell", {"command": "sleep 200"}, {"Timeout": timeout})
        check(time.time() - start < PATIENCE_S, f"took {time.time() - start}")
        check(v["exit_code"] != 0, v)
    ok("shell", {"command": "true"}, {"Timeout": 30_000_000_000})
    ok("shell", {"command": "true"}, {"Timeout": 2**63 - 1})
    ok("shell", {"command": "true"}, {"timeout": "30s"})
    refused("tool_failed", "", "http_client", {"method": "GET", "url": url("/slow")}, dict(NET, Timeout="400ms"))


@test("MemoryLimit is enforced by the sandbox")
def test_memorylimit_is_enforced_by_the_sandbox():
    hog = {"language": "python", "code": "x = bytearray(200 << 20); print(len(x))"}
    v = refused("tool_failed", "out of memory", "code", hog, {"MemoryLimit": 64 * MIB})
    if daemon().get("/v1/status").json["runtimes"][0]["enforces"]["memory"] == "cgroup v1":
        refused("invalid_request", "an empty sandbox needs more", "calculator", {"expression": "1"}, {"MemoryLimit": 1})
    equal(v["exit_code"], 137, v)
    ok("code", hog, {"MemoryLimit": 400 * MIB})
    sid = create(policy={"MemoryLimit": 64 * MIB})
    refused("tool_failed", "out of memory", "code", hog, sandbox=sid)
    equal(sh("echo alive", sandbox=sid), "alive\n")
    equal(sh("echo same", {"MemoryLimit": 64 * MIB}, sandbox=sid), "same\n")
    destroy(sid)


@test("MaxConcurrent calls at once, the next is denied")
def test_maxconcurrent_calls_at_once_the_next_is_denied():
    sid = create(policy={"MaxConcurrent": 1})
    done = []
    t = threading.Thread(target=lambda: done.append(sh("trap 'echo slow; exit 0' USR1; echo up; while :; do sleep 0.05; done", sandbox=sid)))
    t.start()
    execs = f"/v1/sandboxes/{sid}/execs"
    wait_for(lambda: daemon().get(execs).json["execs"], "the first call")
    first = f"{execs}/{daemon().get(execs).json['execs'][0]['exec_id']}"
    wait_for(lambda: b"up" in daemon().get(first + "/logs").body, "it runs")
    refused("policy_denied", "MaxConcurrent", "calculator", {"expression": "1"}, sandbox=sid)
    equal(daemon().post(first + "/signal", {"signal": "USR1"}).status, 200)
    t.join()
    equal(done, ["up\nslow\n"])
    ok("calculator", {"expression": "1"}, sandbox=sid)
    destroy(sid)


@test("EnvWhitelist: only listed variables reach a tool")
def test_envwhitelist_only_listed_variables_reach_a_tool():
    for key in ("EnvWhitelist", "env_whitelist"):
        env = sh("env", {key: ["KEPT"]})
        check("KEPT=1" in env and "HIDDEN" not in env, env)
    env = sh("env", {"EnvWhitelist": []})
    sid = create(policy={"EnvWhitelist": ["KEPT"]})
    env = sh("env", sandbox=sid)
    check("KEPT=1" in env and "HIDDEN" not in env, env)
    destroy(sid)
    sid = create()
    check("HIDDEN=2" in sh("env", sandbox=sid), "the environment of the daemon's config is missing")
    env = sh("env", {"EnvWhitelist": ["KEPT"]}, sandbox=sid)
    check("KEPT=1" in env and "HIDDEN" not in env, env)
    destroy(sid)


@test("nothing of the daemon's own environment reaches a tool")
def test_nothing_of_the_daemon_own_environment_reaches():
    check("SANDBOX_ENV" not in sh("env") and "BUILD=" not in sh("env"), "leaked")


# --- tools

@test("calculator")
def test_calculator():
    def calc(e):
        r = ok("calculator", {"expression": e})
        equal(set(r), {"expression", "result"})
        equal(r["expression"], e)
        return r["result"]
    for e, want in (("15*8+7", 127), ("(1+2)*3", 9), ("-3+5", 2), ("10/4", 2.5), ("10%4", 2), ("0.1+0.2", 0.3),
                    ("2*-3", -6), (" 1 + 1 ", 2), ("--2", 2), ("1.5*2", 3)):
        got = calc(e)
        check(abs(got - want) < 1e-9, (e, got))
    for e, want in (("1/3", 1 / 3), ("0.1+0.2", 0.1 + 0.2), ("123456789012345678", 123456789012345678.0)):
        equal(float(calc(e)), want, "to the last digit")
    for e in ("1/0", "1%0", "", "1+", "(1", "1)", "abc", "1 2", "__import__('os')", "1..2", "(" * 5000 + "1" + ")" * 5000):
        refused("tool_failed", "", "calculator", {"expression": e})
    refused("tool_failed", "division by zero", "calculator", {"expression": "1/0"})
    refused("invalid_request", "expression", "calculator", {})
    refused("invalid_request", "expression", "calculator", {"expression": 5})


@test("file_system: write, append, read, list, delete, with exact shapes")
def test_file_system_write_append_read_list_delete():
    sid = create(policy=FILES)
    def fs(**args):
        return ok("file_system", args, sandbox=sid)
    r = fs(action="write", path="/workspace/d/a.txt", content="héllo")
    equal((set(r), r["success"]), ({"success", "message"}, True))
    fs(action="write", path="/workspace/d/a.txt", content=" more", append=True)
    equal(fs(action="read", path="/workspace/d/a.txt"), {"success": True, "content": "héllo more"})
    fs(action="write", path="/workspace/d/sub/b", content="")
    r = fs(action="list", path="/workspace/d")
    equal(set(r), {"success", "files"})
    files = {f["name"]: f for f in r["files"]}
    equal(set(files), {"a.txt", "sub"})
    equal(set(files["a.txt"]), {"name", "path", "size", "is_dir", "mod_time"})
    equal((files["a.txt"]["size"], files["a.txt"]["is_dir"], files["a.txt"]["path"]), (11, False, "/workspace/d/a.txt"))
    equal(files["sub"]["is_dir"], True)
    check(files["a.txt"]["mod_time"][:2] == "20" and "T" in files["a.txt"]["mod_time"], files)
    r = fs(action="list", path="/workspace/d", recursive=True)
    check("/workspace/d/sub/b" in [f["path"] for f in r["files"]], r)
    r = unsuccessful("not empty", "file_system", {"action": "delete", "path": "/workspace/d"}, sandbox=sid)
    check("recursive" in r["error"], "it does not say how to: " + r["error"])
    fs(action="delete", path="/workspace/d/a.txt")
    fs(action="delete", path="/workspace/d", recursive=True)
    for action in ("read", "list", "delete"):
        equal(set(unsuccessful("No such file", "file_system", {"action": action, "path": "/workspace/d"}, sandbox=sid)), {"success", "error"})
    refused("invalid_request", "", "file_system", {"action": "burn", "path": "/workspace/x"}, sandbox=sid)
    refused("invalid_request", "", "file_system", {"action": "read"}, sandbox=sid)
    refused("invalid_request", "", "file_system", {"path": "/workspace/x"}, sandbox=sid)
    unsuccessful("Is a directory", "file_system", {"action": "read", "path": "/workspace"}, sandbox=sid)
    destroy(sid)


@test("file_system: 10 MiB is the limit")
def test_file_system_10_mib_is_the_limit():
    sid = create(policy=FILES)
    sh("head -c 10485761 /dev/zero > /workspace/big; head -c 10485760 /dev/zero | tr '\\0' x > /workspace/fits", sandbox=sid)
    unsuccessful("10 MiB", "file_system", {"action": "read", "path": "/workspace/big"}, sandbox=sid)
    equal(len(ok("file_system", {"action": "read", "path": "/workspace/fits"}, sandbox=sid)["content"]), 10 * MIB)
    unsuccessful("10 MiB", "file_system", {"action": "write", "path": "/workspace/fits", "content": "y", "append": True}, sandbox=sid)
    destroy(sid)


@test("file_system: bytes that are no text, pipes and devices")
def test_file_system_bytes_that_are_no_text_pipes():
    sid = create(policy=FILES)
    sh("printf '\\377\\0x' > /workspace/b; mkfifo /workspace/p", sandbox=sid)
    equal(ok("file_system", {"action": "read", "path": "/workspace/b"}, sandbox=sid)["content"], "\ufffd\0x")
    unsuccessful("regular", "file_system", {"action": "read", "path": "/workspace/p"}, sandbox=sid)
    unsuccessful("", "file_system", {"action": "write", "path": "/workspace/p", "content": "x"}, sandbox=sid)
    destroy(sid)


@test("http_client: exact shape, methods, headers, body")
def test_http_client_exact_shape_methods_headers_body():
    r = ok("http_client", {"method": "POST", "url": url("/post"), "headers": {"X-Test": "yes"}, "body": "data"}, NET)
    equal(set(r), {"success", "status_code", "status", "headers", "body", "size", "duration"})
    equal((r["success"], r["status_code"]), (True, 201))
    equal(json.loads(r["body"]), {"body": "data", "x": "yes"})
    equal(r["size"], len(r["body"]))
    check(r["status"].startswith("201"), r)
    equal({k.lower(): v for k, v in r["headers"].items()}["content-type"], "application/json")
    check(isinstance(r["duration"], str) and r["duration"].endswith("s"), r)
    equal(unsuccessful("404", "http_client", {"method": "GET", "url": url("/nothing")}, NET)["status_code"], 404)


@test("http_client: limits, timeouts and failures say what happened")
def test_http_client_limits_timeouts_and_failures_say():
    v = execute("http_client", {"method": "GET", "url": url("/big")}, NET)
    check(len(v["result"]["body"]) <= 5 * MIB, "over 5 MiB of body")
    start = time.time()
    unsuccessful("timed out", "http_client", {"method": "GET", "url": url("/slow"), "timeout": 1}, NET)
    check(time.time() - start < PATIENCE_S, "its own timeout did not count")
    for tool, more in (("http_client", {"method": "GET"}), ("fetch", {"format": "text"})):
        unsuccessful("refused", tool, dict(more, url="http://127.0.0.1:1/"), NET)
        unsuccessful("", tool, dict(more, url="http://nowhere.invalid/"), NET)
        unsuccessful("404", tool, dict(more, url=url("/nothing")), NET)
    for bad in ("file:///etc/passwd", "gopher://127.0.0.1/", "not a url", "http://"):
        v = execute("http_client", {"method": "GET", "url": bad}, NET)
        equal(v["status"], "error", bad)
        check("root:" not in json.dumps(v), v)
    refused("invalid_request", "url", "http_client", {"method": "GET"}, NET)


@test("fetch: text, markdown and html, exact shape")
def test_fetch_text_markdown_and_html_exact_shape():
    def fetch(fmt):
        r = ok("fetch", {"url": url("/page"), "format": fmt}, NET)
        equal(set(r), {"success", "content", "url", "format", "size", "truncated"})
        equal((r["success"], r["url"], r["format"], r["truncated"]), (True, url("/page"), fmt, False))
        return r["content"]
    text = fetch("text")
    check("Head" in text and "a bold word" in text and "<" not in text and "no()" not in text, text)
    md = fetch("markdown")
    check("# Head" in md and "**bold**" in md and "no()" not in md, md)
    check("<h1>Head</h1>" in fetch("html"), "html")
    equal(ok("fetch", {"url": url("/page"), "format": "Text", "timeout": 100000}, NET)["content"], text)
    refused("invalid_request", "format", "fetch", {"url": url("/page"), "format": "pdf"}, NET)


@test("web_search: exact shape from the configured endpoint")
def test_web_search_exact_shape_from_the_configured():
    r = ok("web_search", {"query": "mas", "max_results": 5}, NET)
    check({"success", "query", "results", "total", "message"} >= set(r), set(r))
    equal((r["success"], r["query"], r["total"]), (True, "mas", len(r["results"])))
    equal(set(r["results"][0]), {"title", "url", "snippet", "source"})
    check("https://b.example/" in [x["url"] for x in r["results"]], r)
    equal(len(ok("web_search", {"query": "mas", "max_results": 1}, NET)["results"]), 1)
    for most in (0, -1, 500):
        equal(len(ok("web_search", {"query": "mas", "max_results": most}, NET)["results"]), 2, "a number out of range is the nearest that is in it")
    refused("invalid_request", "query", "web_search", {}, NET)


@test("shell: command or argv, its exit code is the call's")
def test_shell_command_or_argv_its_exit_code_is_the_calls():
    equal(ok("shell", {"command": "echo $((1+1)); echo e >&2"}), {"stdout": "2\n", "stderr": "e\n", "exit_code": 0})
    equal(ok("shell", {"argv": ["printf", "%s|", "a b", "$HOME"]})["stdout"], "a b|$HOME|")
    v = refused("tool_failed", "exit status 3", "shell", {"command": "echo why >&2; exit 3"})
    equal((v["exit_code"], v["stderr"], v["result"]["exit_code"]), (3, "why\n", 3))
    equal(refused("tool_failed", "", "shell", {"command": "kill -9 $$"})["exit_code"], 137)
    equal(refused("tool_failed", "", "shell", {"argv": ["/nonexistent"]})["exit_code"], 127)
    for args in ({}, {"command": "x", "argv": ["x"]}, {"argv": []}, {"argv": [1]}, {"command": 1}):
        refused("invalid_request", "", "shell", args)


@test("code: python, javascript, bash; long code too")
def test_code_python_javascript_bash_long_code_too():
    equal(ok("code", {"language": "python", "code": "print(6*7)"})["stdout"], "42\n")
    equal(ok("code", {"language": "javascript", "code": "console.log([1,2].map(x => x * 2).join())"})["stdout"], "2,4\n")
    equal(ok("code", {"language": "bash", "code": "a=(x y); echo ${#a[@]}"})["stdout"], "2\n")
    equal(ok("code", {"language": "python", "code": "#" + "x" * 200000 + "\nprint('long')"})["stdout"], "long\n")
    refused("tool_failed", "exit status 1", "code", {"language": "python", "code": "raise SystemExit(1)"})
    refused("invalid_request", "cobol", "code", {"language": "cobol", "code": "x"})
    refused("invalid_request", "", "code", {"language": "python"})


@test("a tool's output over the limit is cut, and says so")
def test_a_tool_output_over_the_limit_is_cut_and_says():
    r = ok("shell", {"command": "head -c 20000000 /dev/zero | tr '\\0' x"})
    check(r["truncated"] and len(r["stdout"]) < 17 * MIB and "omitted" in r["stdout"], len(r["stdout"]))


def in_background(fn, *args, **kw):
    result = []
    t = threading.Thread(target=lambda: result.append(fn(*args, **kw)))
    t.start()
    return lambda: (t.join(), result[0])[1]


def init_of(marker):
    """The host pid of PID 1 of the sandbox in which a command with this marker runs."""
    warden = daemon().get("/v1/status").json["warden_pid"]
    found = []
    def look():
        found.extend(processes(marker, below(warden)))
        return found
    wait_for(look, f"a process with {marker}")
    chain = [found[0], *ancestors_of(found[0])]
    check(warden in chain, f"the warden {warden} is no ancestor of the command")
    return chain[chain.index(warden) - 1]


@test("a sandbox that dies under a call is sandbox_crash")
def test_a_sandbox_that_dies_under_a_call_is_sandbox():
    sid = create()
    result = in_background(execute, "shell", {"command": "sleep 200.0421"}, sandbox=sid)
    os.kill(init_of("200.0421"), signal.SIGKILL)
    v = result()
    equal((v["status"], v["error"]["code"]), ("error", "sandbox_crash"), v)
    check("exit_code" not in v.get("result", {}), v)
    v = execute("shell", {"command": "true"}, sandbox=sid)
    equal(v["error"]["code"], "sandbox_crash", v)
    destroy(sid)
    equal(sh("echo others live"), "others live\n")


@test("a sandbox that is destroyed under a call answers it")
def test_a_sandbox_that_is_destroyed_under_a_call_answers():
    sid = create()
    result = in_background(execute, "shell", {"command": "sleep 200.0422"}, sandbox=sid)
    init_of("200.0422")
    destroy(sid)
    v = result()
    equal(v["status"], "error", v)
    check("deleted" in v["error"]["message"] and "exit_code" not in v.get("result", {}), v)


@test("calls at once to one sandbox and to many")
def test_calls_at_once_to_one_sandbox_and_to_many():
    sid = create()
    out = [None] * 12
    def call(i):
        out[i] = sh(f"sleep 0.1; echo {i}", sandbox=sid if i % 2 else None)
    threads = [threading.Thread(target=call, args=(i,)) for i in range(12)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    equal(out, [f"{i}\n" for i in range(12)])
    destroy(sid)


main()
