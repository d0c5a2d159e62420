#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.json against the table of routes, itself, and what the daemon really answers."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from openapi import *

@test("every route is documented, and nothing else is")
def test_every_route_is_documented_and_nothing_else():
    table = {(r["method"], r["path"]) for r in routes()}
    written = {(m, p) for m, p, _ in operations()}
    equal(len(table), len(routes()), "a route is twice in the table")
    equal(sorted(table - written), [], "routes without documentation")
    equal(sorted(written - table), [], "documented, and no route")


@test("summaries, tags, tokens, bodies and parameters are those of the table")
def test_summaries_tags_tokens_bodies_and_parameters():
    for r in routes():
        op = document()["paths"][r["path"]][r["method"]]
        where = f"{r['method']} {r['path']}"
        equal(op["summary"], r["summary"], where)
        equal(op["tags"], [r["style"]], where)
        equal(op.get("security") == [], r["open"], where + ": open")
        equal("401" in op["responses"], not r["open"], where + ": 401")
        equal(op.get("requestBody", {}).get("required", False), r["body"], where + ": body")
        equal("requestBody" in op, r["body"] or r["body_optional"] and "refused" not in r["summary"], where + ": body")
        equal("101" in op["responses"], r["websocket"], where + ": WebSocket")
        names = [(resolve(p["$ref"]) if "$ref" in p else p) for p in op.get("parameters", [])]
        equal([p["name"] for p in names if p["in"] == "path"], re.findall(r"{(\w+)}", r["path"]), where)
        equal("Idempotency-Key" in [p["name"] for p in names], r["idempotent"], where)
        for p in names:
            if p["in"] == "query" and isinstance(r["query"][p["name"]], list):
                equal(p["schema"].get("enum"), r["query"][p["name"]], f"{where}: the choices of {p['name']}")


@test("every route but the open ones names the roles that may use it")
def test_every_route_but_the_open_ones_names_the_roles():
    for r in routes():
        equal(r["roles"] == [], r["open"], f"{r['method']} {r['path']}")


@test("every operation documents what its route can answer before and beside its handler")
def test_every_operation_documents_what_its_route():
    for r in routes():
        want = set()
        if not r["open"]:
            want |= {"401", "403", "429", "503"}  # who asks, in which role, how often; a daemon that is ending
        if r["body"] or r["body_optional"]:
            want |= {"400", "413"}
        if "{" in r["path"] and "refused" not in r["summary"]:
            want |= {"404"}
        if r["executes"]:
            want |= {"400", "409", "502", "504", "507"}
        if r["executes"] and r["style"] == "native":
            want |= {"202"}
        missing = want - set(document()["paths"][r["path"]][r["method"]]["responses"])
        equal(sorted(missing), [], f"{r['method']} {r['path']}")


@test("references resolve, operation ids are unique, every schema is used")
def test_references_resolve_operation_ids_are_unique():
    seen = set()
    def walk(node):
        if isinstance(node, dict):
            if "$ref" in node:
                resolve(node["$ref"])
                seen.add(node["$ref"])
            for v in node.values():
                walk(v)
        elif isinstance(node, list):
            for v in node:
                walk(v)
    walk(document())
    for kind in ("schemas", "responses", "parameters"):
        unused = [n for n in document()["components"][kind] if f"#/components/{kind}/{n}" not in seen]
        equal(unused, [], f"{kind} that nothing refers to")
    ids = [op["operationId"] for _, _, op in operations()]
    equal(len(ids), len(set(ids)))


@test("examples are what their schemas say")
def test_examples_are_what_their_schemas_say():
    n = 0
    for name, schema in document()["components"]["schemas"].items():
        for example in schema.get("examples", []):
            equal(problems(example, schema), [], name)
            n += 1
    check(n > 15, f"only {n} examples")


@test("a schema can refuse: the checker is not a yes-man")
def test_a_schema_can_refuse_the_checker_is_not_a_yes_man():
    check(problems({"status": "maybe"}, resolve("#/components/schemas/StatusOk")), "a wrong enum passed")
    check(problems({}, resolve("#/components/schemas/Move")), "a missing member passed")
    check(problems({"ok": True, "more": 1}, resolve("#/components/schemas/Ok")), "an undocumented member passed")
    check(problems({"ok": "yes"}, resolve("#/components/schemas/Ok")), "a wrong type passed")


@test("what the daemon answers is what the document says")
def test_what_the_daemon_answers_is_what_the_document():
    with Daemon("--debug-endpoints") as d:
        equal(d.get("/openapi.json").json, document())
        def go(method, path, body=None, query="", **ids):
            real = path
            for k, v in ids.items():
                real = real.replace("{" + k + "}", v)
            return answered(d, method, path, real + query, body)
        for path in ("/v1/sandbox/health", "/healthz", "/metrics", "/v1/status", "/v1/tools", "/openapi.json", "/v1/sandboxes", "/sandboxes"):
            go("get", path)
        # the MAS API
        go("post", "/v1/sandbox/create", {"sandbox_id": "a1", "resources": {"mem_mb": 64}})
        go("post", "/v1/sandbox/create", {"sandbox_id": "a1"})
        go("post", "/v1/sandbox/create", {"sandbox_id": ".."})
        go("post", "/v1/sandbox/execute", {"sandbox_id": "a1", "tool": {"name": "calculator", "args": {"expression": "1"}}})
        go("post", "/v1/sandbox/execute", {"tool_call_id": "x", "tool": {"name": "shell", "args": {"command": "echo e >&2; exit 1"}}})
        go("post", "/v1/sandbox/execute", {})
        go("post", "/v1/sandbox/destroy", {"sandbox_id": "a1"})
        go("post", "/v1/sandbox/destroy", {"sandbox_id": "a1"})
        # the sbx API
        go("post", "/sandboxes", {"id": "b1"})
        go("post", "/sandboxes", {"id": "b1"})
        go("post", "/sandboxes", {"image": "x"})
        b = {"id": "sbx-b1"}
        go("get", "/sandboxes/{id}", **b)
        go("get", "/sandboxes")
        go("post", "/sandboxes/{id}/exec", {"command": ["echo", "x"], "async": False}, **b)
        e = go("post", "/sandboxes/{id}/exec", {"command": ["sleep", "9"]}, **b).json["exec_id"]
        go("get", "/sandboxes/{id}/execs/{exec_id}", exec_id=e, **b)
        go("post", "/sandboxes/{id}/execs/{exec_id}/cancel", {}, exec_id=e, **b)
        go("post", "/sandboxes/{id}/execs/{exec_id}/cancel", {}, exec_id=e, **b)
        go("get", "/sandboxes/{id}/stream", **b)
        go("get", "/sandboxes/{id}/ingest", **b)
        go("get", "/sandboxes/{id}/execs/{exec_id}", exec_id="nope", **b)
        go("delete", "/sandboxes/{id}", **b)
        go("delete", "/sandboxes/{id}", **b)
        # native
        for body in ({"command": ["echo", "x"]}, {"command": ["/nope"]}, {"command": ["printf", "\\377"]}, {"command": ["sh", "-c", "kill -9 $$"]},
                     {"command": ["seq", "9999"], "max_output_bytes": 9}, {"command": ["echo", "x"], "stream": True},
                     {"command": ["sleep", "9"], "timeout_ms": 100}, {"command": ["sh", "-c", "sleep 9 &"]}, {"command": 5}, {"image": "x"},
                     {"command": ["python3", "-c", "bytearray(200 << 20)"], "limits": {"memory_mb": 32}}):
            go("post", "/v1/run", body)
        s = {"id": go("post", "/v1/sandboxes", {"limits": {"memory_mb": 64, "disk_mb": 16, "max_processes": 30, "cpu_cores": 1}}).json["id"]}
        P, E = "/v1/sandboxes/{id}", "/v1/sandboxes/{id}/execs/{exec_id}"
        go("post", "/v1/sandboxes", {"id": "No"})
        go("get", "/v1/sandboxes", query="?limit=1")
        go("get", "/v1/sandboxes", query="?limit=x")
        go("get", P, **s)
        go("get", P, id="nope")
        go("get", P + "/stats", **s)
        for verb in ("pause", "resume", "snapshot", "fork", "restore"):
            go("post", f"{P}/{verb}", {}, **s)
        go("get", "/v1/snapshots")
        go("delete", "/v1/snapshots/{name}", name="none")
        go("get", P + "/files/watch", **s)
        go("post", P + "/exec", {"command": ["true"]}, **s)
        x = dict(s, exec_id=go("post", P + "/exec", {"command": ["cat"], "async": True, "open_stdin": True}, **s).json["exec_id"])
        go("get", E, **x)
        go("post", E + "/stdin", b"text\n", **x)
        go("post", E + "/resize", {"rows": 5, "cols": 5}, **x)
        go("get", E + "/attach", **x)
        go("get", P + "/processes", **s)
        go("post", E + "/signal", {"signal": "x"}, **x)
        go("post", E + "/signal", {"signal": "TERM"}, **x)
        wait_for(lambda: d.get(f"/v1/sandboxes/{s['id']}/execs/{x['exec_id']}").json["status"] == "failed", "it ends")
        go("post", E + "/cancel", {}, **x)
        go("get", E + "/logs", **x)
        go("get", P + "/execs", **s)
        f = P + "/files"
        go("put", f + "/content", b"bytes", "?path=/workspace/f", **s)
        go("get", f + "/content", None, "?path=/workspace/f", **s)
        go("get", f + "/content", None, "?path=/workspace/nope", **s)
        go("get", f + "/content", None, "", **s)
        go("get", f + "/stat", None, "?path=/workspace/f", **s)
        go("get", f + "/stat", None, "?path=/bin", **s)
        go("get", f, None, "?path=/", **s)
        go("post", f + "/mkdir", {"path": "/workspace/d"}, **s)
        go("post", f + "/mkdir", {"path": "/workspace/d"}, **s)
        go("post", f + "/move", {"from": "/workspace/f", "to": "/workspace/d/g"}, **s)
        go("get", f + "/tar", None, "?path=/workspace", **s)
        go("put", f + "/tar", b"no tar at all" * 100, "?path=/workspace", **s)
        go("delete", f, None, "?path=/workspace/d", **s)
        go("delete", f, None, "?path=/workspace/d&recursive=1", **s)
        go("delete", P, **s)
        go("post", "/v1/debug/echo", b"x")


@test("errors before a route is found are documented shapes too")
def test_errors_before_a_route_is_found_are_documented():
    with Daemon("-auth-token", "t0ken") as d:
        answered(d, "post", "/v1/run", "/v1/run", {"command": ["true"]})
        answered(d, "get", "/sandboxes", "/sandboxes")
        answered(d, "post", "/v1/sandbox/execute", "/v1/sandbox/execute", {})
        answered(d, "get", "/healthz", "/healthz")


@test("keys answer what the document says")
def test_keys_answer_what_the_document_says():
    with Daemon("-auth-token", "t0ken") as d:
        d.token = "t0ken"
        key = answered(d, "post", "/v1/keys", "/v1/keys", {"name": "k", "roles": ["agent"], "quotas": {"max_execs": 1}, "expires_in_s": 60}).json["id"]
        answered(d, "post", "/v1/keys", "/v1/keys", {"name": "k", "roles": ["agent"]})
        answered(d, "post", "/v1/keys", "/v1/keys", {"name": "k", "roles": 5})
        answered(d, "post", "/v1/keys/{id}/rotate", f"/v1/keys/{key}/rotate")
        answered(d, "get", "/v1/identity", "/v1/identity")
        answered(d, "delete", "/v1/keys/{id}", f"/v1/keys/{key}")
        answered(d, "delete", "/v1/keys/{id}", f"/v1/keys/{key}")
        answered(d, "delete", "/v1/keys/{id}", "/v1/keys/nope")
        answered(d, "get", "/v1/keys", "/v1/keys")


main()
