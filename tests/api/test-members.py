#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing that a caller asks for is left out silently: members and parameters that are not in the tables of the routes are
refused by name, or told in X-Mas-Ignored where a contract promises to ignore them. Goes over all routes there are."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from routes import route_table

GUARDS = ("policy", "resources", "limits")


def routes(*styles):
    return [r for r in route_table() if r["style"] in styles or not styles]


def ask(r, body=None, query=""):
    """A call of a route of the table; what its path names is not there, and is looked for later."""
    body = {} if body is None and takes_json(r) else body
    return shared_daemon("--debug-endpoints").request(r["method"].upper(), r["path"].format(id="nope", exec_id="nope", port="80", path="", token_id="nope", name="nope") + query, body)


def takes_json(r):
    return r["members"] or (r["body"] or r["body_optional"]) and r["path"] not in RAW


def is_refused(r):
    """What this version lacks says so, whatever it is asked with; what is for a server inside is not looked at."""
    return r["summary"] == "refused by name" or r["path"].endswith("/{path}")


RAW = ("/v1/sandboxes/{id}/execs/{exec_id}/stdin", "/v1/sandboxes/{id}/files/content", "/v1/sandboxes/{id}/files/tar",
       "/v1/images/tar", "/v1/debug/echo")


def objects(members, path=()):
    """Every object of a table with where it is."""
    yield path, members
    for name, inner in members.items():
        if inner:
            yield from objects(inner, path + (name,))


LISTS = ("mounts", "files", "allow", "deny")


def inside(path, member, value=1):
    body = {member: value}
    for name in reversed(path):
        body = {name: [body] if name in LISTS else body}
    return body


def dotted(path, member):
    return ".".join([name + ("[0]" if name in LISTS else "") for name in path] + [member])


def fails(a, field, *words):
    error = a.json["error"]
    if isinstance(error, str):  # the sbx API's, which has a message and nothing else
        error = {"field": field, "message": error}
    equal((a.status, error.get("field")), (400, field), a)
    for word in words:
        check(word in error["message"], f"{word!r} is not in {a}")


# --- all routes

@test("the tables are those of docs/openapi.json")
def test_the_tables_are_those_of_docs_openapi_json():
    with open(os.path.join(os.path.dirname(__file__), "../../docs/openapi.json")) as f:
        document = json.load(f)

    def resolve(node):
        while "$ref" in node:
            target = document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    def documented(schema):
        schema = resolve(schema)
        out = {k: documented(v) or None for k, v in schema.get("properties", {}).items()}
        for part in schema.get("allOf", []) + schema.get("oneOf", []) + [schema[k] for k in ("items",) if k in schema]:
            out.update(documented(part))
        return out

    def shown(members):
        return {k: shown(v) if v else None for k, v in members.items()}

    for r in routes():
        if r["path"] == "/v1/debug/echo":
            continue
        op = document["paths"][r["path"]][r["method"]]
        where = f"{r['method']} {r['path']}"
        query = [p["name"] for p in map(resolve, op.get("parameters", [])) if p["in"] == "query"]
        equal(sorted(r["query"]), sorted(query), where)
        content = op.get("requestBody", {}).get("content", {}).get("application/json")
        if content and r["path"] not in RAW:
            want = documented(content["schema"])
            if "tool" in want:
                want["tool"] = dict.fromkeys(want["tool"])
            equal(shown(r["members"]), want, where)


@test("native: an unknown member is refused with its whole path, in every object of every route")
def test_native_an_unknown_member_is_refused():
    n = 0
    for r in routes("native"):
        if not takes_json(r) or is_refused(r):
            continue
        for path, members in objects(r["members"]):
            field = dotted(path, "xyzzy")
            fails(ask(r, inside(path, "xyzzy")), field, f"'{field}'")
            n += 1
    check(n > 15, n)


@test("native: a mistyped member is answered with the one that was meant")
def test_native_a_mistyped_member_is_answered():
    for r in routes("native"):
        for path, members in objects(r["members"]):
            for name in members:
                for typo in {name + name[-1], name[:-1] + "_", name.upper(), name[0] + name} - set(members):
                    a = ask(r, inside(path, typo))
                    fails(a, dotted(path, typo)[:63], "did you mean '" + dotted(path, ""))
                    meant = a.json["error"]["message"].split("did you mean '")[1].split("'")[0].rsplit(".")[-1]
                    check(meant in members, a)
                    if len(name) > 5:
                        equal(meant, name, a)


@test("native: an unknown parameter, one that comes twice and a switch that is neither are refused")
def test_native_an_unknown_parameter_one_that_comes_twice():
    for r in routes("native"):
        if is_refused(r):
            continue
        fails(ask(r, query="?xyzzy=1"), "xyzzy", "'xyzzy'")
        for name, kind in r["query"].items():
            fails(ask(r, query=f"?{name}{name[-1]}=1"), name + name[-1], "did you mean '")
            value = kind[0] if isinstance(kind, list) else 1
            fails(ask(r, query=f"?{name}={value}&{name}={value}"), name, "twice")
            if kind == "switch":
                for value in ("maybe", "yes", "2", "TRUE", "%20", ""):
                    fails(ask(r, query=f"?{name}={value}"), name, "true or false")
                for value in ("0", "false") + (("1", "true") if r["path"] not in ("/v1/audit", "/v1/events") else ()):  # which then follows
                    check(ask(r, query=f"?{name}={value}&{'path=x' if 'path' in r['query'] else ''}").status != 400, f"{r} {value}")
    equal({n for r in routes("native") for n, kind in r["query"].items() if kind == "switch"}, {"recursive", "follow", "close", "append"})


@test("native: a parameter without a value, or with one that is none of its choices, is refused by name")
def test_native_values_of_parameters():
    found = set()
    for r in routes("native"):
        if "refused" in r["summary"]:
            continue
        for name, kind in r["query"].items():
            if name == "owner":  # of what was made before there was a key
                check(ask(r, query="?owner=").status != 400, r["path"])
            else:
                fails(ask(r, query=f"?{name}="), name, "")
            if not isinstance(kind, list):
                continue
            found.add(name)
            fails(ask(r, query=f"?{name}=xyzzyxyzzy"), name, ", ".join(kind))
            for choice in kind:
                fails(ask(r, query=f"?{name}={choice}{choice[-1]}"), name, f"did you mean '{choice}'")
                check(ask(r, query=f"?{name}={choice}").status != 400, f"{r['path']} {choice}")
    equal(found, {"kind", "order", "status"})
    a = shared_daemon("--debug-endpoints").get("/v1/sandboxes?cursor=nonsense")
    fails(a, "cursor", "next_cursor")


@test("the contracts: foreign members and parameters are told in X-Mas-Ignored, also in what is refused later")
def test_the_contracts_foreign_members_and_parameters():
    for r in routes("the MAS API", "the sbx API", "the actions API"):
        a = ask(r, query="?a=1&b%2c%0d=2")
        equal(a.headers["X-Mas-Ignored"], "a, b??", f"{r['path']} {a}")
        if not takes_json(r):
            continue
        for path, members in objects(r["members"]):
            a = ask(r, dict(inside(path, "xyzzy"), foo=1), "?q=1")
            if set(path) & set(GUARDS):
                check(a.status == 400 and f"'{dotted(path, 'xyzzy')}'" in str(a.json), a)
            else:
                want = ["q", "foo", "xyzzy"] if not path else ["q", dotted(path, "xyzzy"), "foo"]
                equal(set(a.headers["X-Mas-Ignored"].split(", ")), set(want), f"{r['path']} {a}")
        for guard in ("Policy", "RESOURCES", "limit", "polcy", "resource", "limits"):
            if guard not in r["members"]:
                a = ask(r, {guard: {}})
                check(a.status == 400 and f"'{guard}'" in str(a.json), f"{r['path']}: {guard}: {a}")
    a = ask(routes("the sbx API")[2], {f"x{i}": 1 for i in range(5000)})
    check(len(a.headers["X-Mas-Ignored"]) <= 1024, len(a.headers["X-Mas-Ignored"]))


@test("a member that is an object or a list of them is nothing else, whatever it would mean")
def test_a_member_that_is_an_object_or_a_list_of_them():
    for r in routes():
        for path, members in objects(r["members"]):
            if not path or is_refused(r) or path == ("network",):  # that may be "none": see test-native
                continue
            want, others = ("array", ({}, {"a": "x"})) if path[-1] in LISTS else ("object", ([], [{}]))
            for bad in (5, "x", True) + others:
                a = ask(r, inside(path[:-1], path[-1], value=bad))
                fails(a, dotted(path[:-1], path[-1]), f"'{dotted(path[:-1], path[-1])}' must be an {want}")


@test("A: what is only carried along has its type, too")
def test_a_what_is_only_carried_along_has_its_type_too():
    for trace in ({"run_id": 5}, {"step_id": ["s"]}, {"run_id": "r", "step_id": False}):
        fails(execute(trace=trace), "trace." + [k for k, v in trace.items() if v != "r"][0], "must be a string")
    equal(execute(trace={"run_id": "r", "step_id": None}).json["status"], "ok")
    equal(execute(trace=None).json["status"], "ok")


@test("C: of two names of one text, one is taken, and none without a look")
def test_c_of_two_names_of_one_text_one_is_taken_and_none():
    d = shared_daemon("--debug-endpoints")
    for body, field in (({"input": "x", "text": "y"}, "text"), ({"input": "x", "text": 5}, "text"), ({"input": 5, "text": "y"}, "input")):
        a = d.post("/api/validate", body)
        equal((a.status, f"'{field}'" in str(a.json)), (400, True), a)
    for body in ({"input": "x"}, {"text": "x"}, {"input": None, "text": "x"}):
        equal(d.post("/api/validate", body).status, 200, body)


# --- what once ran unrestricted

@test("native: limits, isolation, timeouts, mounts, files and network with a slip of the finger do not run")
def test_native_limits_isolation_timeouts_mounts_files():
    d = shared_daemon("--debug-endpoints")
    for body, field, meant in (({"limits": {"memory_mbb": 64}}, "limits.memory_mbb", "limits.memory_mb"),
                               ({"min_isolaton": "vm"}, "min_isolaton", "min_isolation"), ({"timeout": 1}, "timeout", "timeout_ms"),
                               ({"Limits": {}}, "Limits", "limits"), ({"limits": {"MemoryMB": 1}}, "limits.MemoryMB", "limits.memory_mb"),
                               ({"mounts": [{"source": "/tmp", "readonly": True}]}, "mounts[0].readonly", "mounts[0].read_only"),
                               ({"files": [{"path": "a", "content": "", "mod": 1}]}, "files[0].mod", "files[0].mode"),
                               ({"network": {"allow": [], "alow": []}}, "network.alow", "network.allow"),
                               ({"network": {"deny": [{"host": "a.test", "port": 1}]}}, "network.deny[0].port", "network.deny[0].ports"),
                               ({"environment": {}}, "environment", None), ({"async": True}, "async", None)):
        a = d.post("/v1/run", dict(command=["true"], **body))
        fails(a, field, f"'{field}'", *([f"did you mean '{meant}'?"] if meant else []))
    equal(d.post("/v1/run", {"command": ["true"], "network": {"enabled": False}}).status, 200)


def execute(policy=None, **more):
    body = dict(tool={"name": "calculator", "args": {"expression": "1+1"}}, **more)
    if policy is not None:
        body["policy"] = policy
    return shared_daemon("--debug-endpoints").post("/v1/sandbox/execute", body)


@test("A: a policy has nine members, in any letter case, and no tenth")
def test_a_a_policy_has_nine_members_in_any_letter_case():
    full = {"AllowedTools": ["calculator"], "AllowedCaps": None, "Workdir": "", "AllowedPaths": None, "EnvWhitelist": None,
            "Network": {"Enabled": False, "AllowedHosts": None}, "Timeout": 0, "MemoryLimit": 0, "MaxConcurrent": 0}
    for write in (lambda k: k, str.lower, str.upper, lambda k: re.sub("(?<!^)(?=[A-Z])", "_", k).lower()):
        policy = {write(k): {write(i): x for i, x in v.items()} if k == "Network" else v for k, v in full.items()}
        a = execute(policy)
        equal((a.status, a.json["status"], a.headers["X-Mas-Ignored"]), (200, "ok", None), policy)
    for policy, field, meant in (({"AllowedTool": ["x"]}, "policy.AllowedTool", "policy.AllowedTools"),
                                 ({"allowed_path": []}, "policy.allowed_path", "policy.AllowedPaths"),
                                 ({"Network": {"Enable": False}}, "policy.Network.Enable", "policy.Network.Enabled"),
                                 ({"DeniedTools": []}, "policy.DeniedTools", None), ({"": 1}, "policy.", None)):
        a = execute(policy)
        fails(a, field, f"'{field}'", *([f"did you mean '{meant}'?"] if meant else []))
        fails(shared_daemon("--debug-endpoints").post("/v1/sandbox/create", {"policy": policy}), field)
    a = shared_daemon("--debug-endpoints").post("/v1/sandbox/create", {"resources": {"memory_mb": 1}})
    fails(a, "resources.memory_mb", "did you mean 'resources.mem_mb'?")


@test("A and C: a tool's arguments that it does not know are told")
def test_a_and_c_a_tool_arguments_that_it_does_not_know():
    a = shared_daemon("--debug-endpoints").post("/v1/sandbox/execute", {"tool": {"name": "calculator", "args": {"expression": "1", "precision": 2}},
                                                                     "trace": {"run_id": "r", "x": 1}})
    equal((a.json["status"], a.headers["X-Mas-Ignored"]), ("ok", "tool.args.precision, trace.x"))
    a = shared_daemon("--debug-endpoints").post("/api/actions", {"action_type": "skill_execution", "skill_id": "calculator",
                                                             "parameters": {"expression": "1", "precision": 2}})
    equal((a.status, a.headers["X-Mas-Ignored"]), (200, "parameters.precision"))
    equal(execute({}).headers["X-Mas-Ignored"], None)


@test("the line protocol: refused in a policy, else told in the log")
def test_the_line_protocol_refused_in_a_policy_else_told():
    work = tempfile.mkdtemp(prefix="mas-test-")
    call = {"id": "1", "tool": "calculator", "args": {"expression": "1", "digits": 3}, "extra": 1}
    try:
        p = subprocess.run([SANDBOXD, "--state-dir", work + "/s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
                           input="\n".join(map(json.dumps, (call, dict(call, policy={"AllowedTool": []}), dict(call, Policy={})))) + "\n")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    one, two, three = map(json.loads, p.stdout.splitlines())
    check("error" not in one and "ignored: args.digits, extra" in p.stderr, p.stderr)
    check("policy.AllowedTools" in two["error"] and two["exit_code"] == 1, two)
    check("'Policy'" in three["error"], three)


@test("MCP: every tool's arguments are a closed list")
def test_mcp_every_tool_arguments_are_a_closed_list():
    d = shared_daemon("--debug-endpoints")

    def rpc(method, params, **headers):
        return d.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
                      headers={"Accept": "application/json, text/event-stream", **headers})
    a = rpc("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
    session = {"Mcp-Session-Id": a.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-06-18"}
    d.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers={"Accept": "application/json, text/event-stream", **session})
    found = json.loads(re.search(rb"\{.*\}", rpc("tools/list", {}, **session).body).group())["result"]["tools"]
    check(len(found) > 5, found)
    for tool in found:
        equal(tool["inputSchema"].get("additionalProperties"), False, tool["name"])


@test("a switch that is false is off: stdin?close=false")
def test_a_switch_that_is_false_is_off_stdin_close_false():
    d = shared_daemon("--debug-endpoints")
    with d.sandbox() as sb:
        e = sb.exec("cat", open_stdin=True, **{"async": True})["exec_id"]
        for value, status in (("false", "running"), ("0", "running"), ("true", "completed")):
            equal(d.post(f"{sb.path}/execs/{e}/stdin?close={value}", "x").status, 200, value)
            wait_for(lambda: d.get(f"{sb.path}/execs/{e}").json["status"] == status, status)
        equal(d.get(f"{sb.path}/execs/{e}/logs").body.count(b'"type":"exit"'), 1)


# --- numbers and words

@test("whole numbers may be written with an exponent; others are no whole numbers")
def test_whole_numbers_may_be_written_with_an_exponent():
    d = shared_daemon("--debug-endpoints")
    for n in ("1e3", "1000", "1000.0", "10E2"):
        equal(d.post("/v1/run", '{"command":["true"],"timeout_ms":%s,"limits":{"max_processes":%s}}' % (n, n)).status, 200, n)
    for n in ("1.5", "1e-1", '"1"', "true"):
        fails(d.post("/v1/run", '{"command":["true"],"timeout_ms":%s}' % n), "timeout_ms", "whole number")
        fails(d.post("/v1/run", '{"command":["true"],"limits":{"max_processes":%s}}' % n), "limits.max_processes", "whole number")
    for n in ("1e99", "-1e99", "0", "9007199254740994.0"):
        fails(d.post("/v1/run", '{"command":["true"],"timeout_ms":%s}' % n), "timeout_ms", "from 1 to ")


@test("messages name the whole path, and nothing of the library's")
def test_messages_name_the_whole_path_and_nothing():
    d = shared_daemon("--debug-endpoints")
    a = d.post("/v1/run", {"command": ["true"], "limits": {"memory_mb": 1e9}})
    fails(a, "limits.memory_mb", "'limits.memory_mb' must be from 1 to 16777216")
    a = d.post("/v1/run", '{"command":["a\\u0000b"]}')
    check(a.status == 400 and "\\u0000" in a.json["error"]["message"] and "JSON_ALLOW" not in str(a.json), a)
    for body, field in (({"mounts": [{"source": "/tmp"}, {"source": "x"}]}, "mounts[1].source"), ({"mounts": [{"read_only": 1, "source": "/x"}]}, "mounts[0].read_only"),
                        ({"files": [{"path": 1}]}, "files[0].path"), ({"files": [{"path": "a", "content_base64": "*"}]}, "files[0].content_base64"),
                        ({"files": [{"path": "a", "content": "", "mode": 9999}]}, "files[0].mode")):
        fails(d.post("/v1/run", dict(command=["true"], **body)), field)
    fails(d.post("/v1/sandbox/create", {"resources": {"mem_mb": -1}}), "resources.mem_mb", "'resources.mem_mb'")
    fails(execute({"Timeout": "soon"}), "policy.Timeout", "'policy.Timeout'")
    fails(execute({"Network": {"Enabled": 1}}), "policy.Network.Enabled", "'policy.Network.Enabled'")
    fails(d.post("/v1/keys", {"name": "k", "roles": ["agent"], "quotas": {"max_execs": -1}}), "quotas.max_execs")


main()
