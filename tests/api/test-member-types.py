#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A member of a request that has the wrong type is refused by name, wherever it is: every member of every body that
docs/openapi.json has, every argument of every tool over HTTP, as an action and as a line, every argument of MCP's tools by its
schema, and every member of a control message of an attached terminal. The rest of each request is whole, so that nothing but
the type can be the reason."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from mcp import *
from openapi import document, is_type, operations, resolve

VALUES = (5, 1.5, "x", True, [], {}, ["x"], {"a": "x"}, [5])
# What is beside the member that is wrong: the least that its object needs, by what holds it.
BESIDE = {"files": {"path": "a", "content": ""}, "mounts": {"source": "/usr"}, "allow": {"host": "a.test", "ports": [80]},
          "deny": {"host": "a.test"}, "tool": {"name": "calculator", "args": {"expression": "1"}}, "network": {"allow": [{"host": "b.test"}]},
          "session": {"argv_prefix": ["true"]}}
BODIES = {"/v1/sandbox/execute": {"tool": BESIDE["tool"]}, "/v1/run": {"command": ["true"]}, "/v1/sandboxes/{id}/exec": {"command": ["true"]},
          "/sandboxes": {"command": ["true"]}, "/sandboxes/{id}/exec": {"command": ["true"], "async": False}, "/api/validate": {"input": "x"},
          "/api/actions": {"action_type": "skill_execution", "skill_id": "calculator", "parameters": {"expression": "1"}},
          "/api/actions/{id}/approve": {"approved": True}, "/v1/keys": {"name": "k", "roles": ["agent"]},
          "/v1/secrets/{id}": {"value": "v", "hosts": ["a.test"], "header": "X-A"}, "/v1/sandboxes/{id}/files/mkdir": {"path": "d"},
          "/v1/sandboxes/{id}/files/move": {"from": "a", "to": "b"}, "/v1/images/pull": {"image": "a"},
          "/v1/sandboxes/{id}/execs/{exec_id}/resize": {"rows": 5, "cols": 5}, "/v1/sandboxes/{id}/execs/{exec_id}/signal": {"signal": 0},
          "/v1/sandboxes/{id}/traffic-tokens/{token_id}/link": {"port": 8080}, "/v1/sandboxes/{id}/restore": {"snapshot": "s"}}
# Of two ways to say a thing the other one is beside, and would be the reason.
INSTEAD = {"code": ("command",), "language": ("command",), "cidr": ("host",), "text": ("input",), "content_base64": ("content",)}
MANY = {"duration": ("string", "number"), "any": ("string", "number", "boolean", "array", "object")}
# What each tool is called with when nothing is wrong, and the types of all its arguments.
TOOLS = {"calculator": ({"expression": "1"}, {"expression": "string"}),
         "file_system": ({"action": "write", "path": "f", "content": "x"},
                         {"action": "string", "path": "string", "content": "string", "append": "boolean", "recursive": "boolean"}),
         "http_client": ({"url": "http://a.test/"}, {"method": "string", "url": "string", "headers": "object", "body": "any", "timeout": "duration"}),
         "fetch": ({"url": "http://a.test/"}, {"url": "string", "format": "string", "timeout": "duration"}),
         "web_search": ({"query": "x"}, {"query": "string", "max_results": "integer", "language": "string", "timeout": "duration"}),
         "shell": ({"command": "true"}, {"command": "string", "argv": "array"}),
         "code": ({"language": "sh", "code": "true"}, {"language": "string", "code": "string"})}


def schemas_at(schema):
    """A schema and what it is made of, without references: all that say something of the same value."""
    while "$ref" in schema:
        schema = resolve(schema["$ref"])
    yield schema
    for part in schema.get("allOf", []) + schema.get("oneOf", []):
        yield from schemas_at(part)


def places(schema, at=()):
    """(path, types) of every value inside; a number in a path is a place in a list."""
    all_of = list(schemas_at(schema))
    types = {t for s in all_of for t in ([s["type"]] if isinstance(s.get("type"), str) else s.get("type", []))}
    if at and types:
        yield at, types
    inner = {}
    for s in all_of:
        for name, one in s.get("properties", {}).items():
            inner.setdefault(name, []).append(one)
        if isinstance(s.get("additionalProperties"), dict):
            inner.setdefault("A", []).append(s["additionalProperties"])
        if "items" in s:
            inner.setdefault(0, []).append(s["items"])
    for name, several in inner.items():
        yield from places({"oneOf": several}, at + (name,))


def wrong_values(types):
    return [v for v in VALUES if not any(is_type(v, t) for t in types)]


def with_wrong(body, path, value):
    """A copy of the body where the place has the value, and what is around it what it needs."""
    out = json.loads(json.dumps(body))
    if len(path) == 1:
        for other in INSTEAD.get(path[0], ()):
            out.pop(other, None)
    at = out
    for i, name in enumerate(path[:-1]):
        beside = json.loads(json.dumps(BESIDE.get(name, {})))
        for other in INSTEAD.get(path[-1], ()):
            beside.pop(other, None)
        if path[i + 1] == 0:
            at[name] = [beside if i + 2 < len(path) else value]
        elif name != 0:
            at.setdefault(name, beside)
        at = at[name]
    at[path[-1]] = value
    return out


def shown(path):
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)[1:]


def names_it(text, path):
    """Whether an error's text has the member, or the list that the wrong item is in."""
    named = [p for p in path if isinstance(p, str) and p != "A"]
    return re.search(rf"\b{re.escape(named[-1])}\b", text) is not None


def is_refusal(a, path):
    """Of the three contracts, two answer what a tool says of its arguments with 200 and an error inside."""
    refused = a.status == 400 or a.status == 200 and '"code": "invalid_request"' in json.dumps(a.json)
    return refused and names_it(json.dumps(a.json), path)


def broken_bodies(schema, body):
    for path, types in places(schema):
        for value in wrong_values(types):
            yield path, value, with_wrong(body, path, value)


# --- HTTP

@test("every member of every body of docs/openapi.json with a wrong type is refused by name")
def test_every_member_of_every_body():
    bad, n = [], 0
    with Daemon("--debug-endpoints") as d, d.sandbox() as sb:
        e = sb.exec("cat", open_stdin=True, **{"async": True})["exec_id"]
        ids = {"id": sb.id, "exec_id": e, "token_id": "none", "name": "none"}
        for method, path, op in operations():
            content = op.get("requestBody", {}).get("content", {}).get("application/json")
            for at, value, body in broken_bodies(content["schema"], BODIES.get(path, {})) if content else ():
                a = d.request(method.upper(), re.sub(r"{(\w+)}", lambda m: ids[m.group(1)], path), body)
                n += 1
                if not is_refusal(a, at):
                    bad.append(f"{method} {path}: {shown(at)} = {json.dumps(value)}: {a}")
    check(not bad, f"{len(bad)} of {n}:\n" + "\n".join(bad))
    check(n > 1000, n)


def broken_args():
    """(tool, argument, arguments) of every argument of every tool."""
    for tool, (good, types) in TOOLS.items():
        for name, kind in types.items():
            for value in wrong_values(MANY.get(kind, [kind])):
                args = {k: v for k, v in good.items() if not (tool == "shell" and name == "argv")}
                yield tool, name, dict(args, **{name: value})
    yield "shell", "argv", {"argv": [5]}
    yield "http_client", "headers", {"url": "http://a.test/", "headers": {"A": 5}}


def tool_refuses(answer, name):
    text = json.dumps(answer)
    return names_it(text, (name,)) and ("must be" in text) and not {answer.get("status")} & {"ok", "completed", "executing", "pending"}


@test("every argument of every tool with a wrong type is refused by name, over HTTP and as an action")
def test_every_argument_of_every_tool():
    bad, n = [], 0
    policy = {"Network": {"Enabled": True, "AllowedHosts": ["a.test"]}, "AllowedPaths": ["/workspace"]}
    with Daemon("--debug-endpoints") as d:
        for tool, name, args in broken_args():
            a = d.post("/v1/sandbox/execute", {"tool": {"name": tool, "args": args}, "policy": policy})
            b = d.post("/api/actions", {"action_type": "skill_execution", "skill_id": tool, "parameters": args})
            n += 1
            for of, answer in (("execute", a), ("action", b)):
                if not tool_refuses(answer.json, name):
                    bad.append(f"{of} {tool}: {args}: {answer}")
    check(not bad, f"{len(bad)} of {n}:\n" + "\n".join(bad))


# --- the other front ends

@test("every member of a line with a wrong type is refused by name")
def test_every_member_of_a_line():
    schema = document()["paths"]["/v1/sandbox/execute"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    line = {"id": "1", "tool": "calculator", "args": {"expression": "1"}}
    policies = [s for s in schemas_at(schema) if "policy" in s.get("properties", {})][0]["properties"]["policy"]
    asked = [(at, body) for at, _, body in broken_bodies({"properties": {"policy": policies}}, line)]
    asked += [((name,), dict(line, **{name: value})) for name, kind in (("id", "string"), ("tool", "string"), ("args", "object"))
              for value in wrong_values([kind])]
    asked += [((name,), {"id": "1", "tool": tool, "args": args, "policy": {"AllowedPaths": ["/workspace"], "Network": {"Enabled": True}}})
              for tool, name, args in broken_args()]
    p = subprocess.run([SANDBOXD], input="".join(json.dumps(body) + "\n" for _, body in asked), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, timeout=PATIENCE_S)
    answers = [json.loads(x) for x in p.stdout.splitlines()]
    equal(len(answers), len(asked), p.stderr[-2000:])
    bad = [f"{body}: {a}" for (at, body), a in zip(asked, answers) if not a["exit_code"] or not names_it(a.get("error", ""), at)]
    check(not bad, f"{len(bad)} of {len(asked)}:\n" + "\n".join(bad))


@test("MCP: every argument of every tool with a wrong type is refused by name")
def test_mcp_every_argument_of_every_tool():
    bad, n = [], 0
    with Daemon() as d:
        client = Client(d)
        for tool in client.ask("tools/list")["result"]["tools"]:
            types = tool["inputSchema"]["properties"]
            required = {name: types[name].get("enum", [{"array": ["x"], "integer": 1}.get(types[name]["type"], "x")])[0]
                        for name in tool["inputSchema"].get("required", [])}
            for at, value, arguments in broken_bodies(tool["inputSchema"], required):
                a = client.call(tool["name"], **arguments)
                n += 1
                if not ("error" in a or a["result"].get("isError")) or not names_it(json.dumps(a), at):
                    bad.append(f"{tool['name']}: {shown(at)} = {json.dumps(value)}: {a}")
    check(not bad, f"{len(bad)} of {n}:\n" + "\n".join(bad))
    check(n > 300, n)


@test("attach: every member of a control message with a wrong type is refused by name")
def test_attach_every_member_of_a_control_message():
    with Daemon() as d, d.sandbox() as sb:
        e = sb.exec("cat", open_stdin=True, **{"async": True})["exec_id"]
        ws = d.ws(f"{sb.path}/execs/{e}/attach")
        frames = (json.loads(m) for m in ws.messages() if isinstance(m, str))
        equal(next(frames)["type"], "start")
        for type, member, kinds in (("resize", "rows", ["integer"]), ("resize", "cols", ["integer"]), ("signal", "signal", ["string", "integer"]),
                                    ("resize", "type", ["string"])):
            for value in wrong_values(kinds):
                ws.send(json.dumps({"type": type, member: value}))
                answer = next(frames)
                check(answer["type"] == "error" and names_it(answer["message"], (member,)), f"{member} = {value}: {answer}")
        ws.close()


main()
