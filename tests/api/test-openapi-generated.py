#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that are generated from docs/openapi.json, whole and broken ones for every operation: the status is a documented
one, the body is what its schema says, nothing is a 500 and nothing hangs. SEED and ROUNDS (environment) choose others."""
import os
import random
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from openapi import *

SEED = int(os.environ.get("SEED", "20"))
ROUNDS = int(os.environ.get("ROUNDS", "40"))  # of each operation with a body; the others take a tenth
ODD_STRINGS = ["", " ", "..", "/", "a" * 300, "\u202e", "é\u0301", "%", "-1", "null", "\U0001f600", "x\ny", "*", "a/b", "sha256:0"]
ODD_NUMBERS = [0, -1, 1, 2 ** 31, 2 ** 53, 2 ** 63 - 1, 10 ** 30, 0.5, 1e308, -0.0]
ODD_VALUES = [None, True, False, [], {}, [[]], {"a": {"b": []}}, "text", 7]
# What would end the daemon's usefulness for the rest of the test, or leave this machine.
HARMLESS = {"command": [["true"], ["sh", "-c", "echo x"], ["cat", "/etc/hostname"], ["/nope"]], "timeout_ms": [200, 1000],
            "url": ["http://127.0.0.1:1/"], "expires_in_s": [60], "ttl_s": [60], "wait_ms": [1]}


class Maker:
    """Values of a schema, and values that it refuses in one place."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def string(self, schema):
        if "pattern" in schema:
            known = [s for s in ("a1", "0644", "644", "a" * 64, "sha256:" + "a" * 64, "x") if re.search(schema["pattern"], s)]
            return known[0] if known else "x"
        low, high = schema.get("minLength", 0), min(schema.get("maxLength", 40), 40)
        text = self.rng.choice(ODD_STRINGS + ["name", "/workspace/f", "echo"])
        return (text + "x" * low)[:max(high, low)]

    def number(self, schema):
        low, high = schema.get("minimum", 0), schema.get("maximum", schema.get("minimum", 0) + 100)
        return self.rng.choice([low, high, self.rng.randint(int(low), max(int(low), int(min(high, low + 100))))])

    def object(self, schema, depth):
        required = set(schema.get("required", []))
        out = {}
        for name, inner in schema.get("properties", {}).items():
            if name in required or self.rng.random() < 0.4:
                out[name] = self.rng.choice(HARMLESS[name]) if name in HARMLESS else self.value(inner, depth + 1)
        return out

    def value(self, schema, depth=0):
        if "$ref" in schema:
            return self.value(resolve(schema["$ref"]), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        if "oneOf" in schema:
            return self.value(self.rng.choice(schema["oneOf"]), depth)
        if "allOf" in schema:
            out = {}
            for part in schema["allOf"] + [{k: v for k, v in schema.items() if k != "allOf"}]:
                out.update(self.value(dict(part, type="object") if "$ref" not in part else part, depth))
            return out
        kind = schema.get("type", "object" if "properties" in schema else None)
        if kind == "object":
            return self.object(schema, depth)
        if kind == "array":
            n = self.rng.randint(schema.get("minItems", 0), 2 if depth < 4 else schema.get("minItems", 0))
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(n)]
        if kind == "string":
            return self.string(schema)
        if kind in ("integer", "number"):
            return self.number(schema)
        return self.rng.choice([True, False]) if kind == "boolean" else self.rng.choice(ODD_VALUES)

    def places(self, value, at=()):
        """Where a value could be broken."""
        yield at
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for k, v in items:
            yield from self.places(v, at + (k,))

    def broken(self, body):
        """The same with one thing wrong: a type, a bound, a member too many or too few, or text that is no JSON."""
        how = self.rng.randrange(6)
        if how == 0:
            text = json.dumps(body)
            return self.rng.choice([text[:-1], text + "}", "[" + text + "]", "", "null", "\xff", text.replace(":", "", 1), '{"a":1,"a":2}',
                                    "[" * 200, '{"a":"\\u0000"}', text.replace("{", '{"\\ud800":1,', 1)]).encode("latin-1", "replace")
        copy = json.loads(json.dumps(body))
        if how == 1 or not copy:
            copy[self.rng.choice(["no_such_member", "", "Command", "__proto__"])] = self.rng.choice(ODD_VALUES)
            return copy
        at = self.rng.choice([p for p in self.places(copy) if p])
        parent = copy
        for k in at[:-1]:
            parent = parent[k]
        if how == 2:
            del parent[at[-1]]
        else:
            parent[at[-1]] = self.rng.choice(ODD_VALUES + ODD_STRINGS + ODD_NUMBERS)
        return copy

    def parameter(self, p):
        """Of a query: as its schema says, or not."""
        schema = p.get("schema", {})
        value = self.value(schema) if self.rng.random() < 0.6 else self.rng.choice(ODD_STRINGS + ODD_NUMBERS)
        if p["name"] == "follow":
            value = False  # such an answer has no end
        return str(value).lower() if isinstance(value, bool) else str(value)


def check_answer(op, where, a):
    """The answer against the document."""
    if str(a.status) not in op["responses"]:
        return f"{where}: {a.status} is not documented: {a}"
    if a.status >= 500 and a.status not in (502, 503, 504, 507):
        return f"{where}: {a}"
    r = op["responses"][str(a.status)]
    r = resolve(r["$ref"]) if "$ref" in r else r
    kind = (a.headers["Content-Type"] or "").split(";")[0]
    if "content" not in r:
        return None if not a.body else f"{where}: a body with {a.status}"
    if kind not in r["content"]:
        return f"{where}: {kind!r} is not documented for {a.status}"
    wrong = []
    if kind == "application/json":
        wrong = problems(a.json, r["content"][kind]["schema"])
    elif kind == "application/x-ndjson":
        for line in a.body.splitlines():
            wrong += problems(json.loads(line), r["content"][kind]["schema"])
    return f"{where}: {wrong}: {a}" if wrong else None


class Calls:
    """One operation after the other, with ids of things that are there, and of some that are not."""

    statuses = {}  # how many of each, of all

    def __init__(self, d, seed):
        self.d, self.make = d, Maker(seed)
        self.sandbox = d.post("/v1/sandboxes", {}).json["id"]
        self.exec = d.post(f"/v1/sandboxes/{self.sandbox}/exec", {"command": ["cat"], "async": True, "open_stdin": True}).json["exec_id"]
        self.key = d.post("/v1/keys", {"name": f"of {self.exec}", "roles": ["agent"]}).json["id"]

    def path_of(self, path):
        known = {"exec_id": self.exec, "port": "8080", "path": "x", "token_id": "tt-none", "name": "none", "id": self.key if "/keys/" in path else self.sandbox}
        rng = self.make.rng

        def fill(m):
            if rng.random() < 0.75:
                return known[m.group(1)]
            return urllib.parse.quote(rng.choice([s for s in ODD_STRINGS if s not in ("", "..", "/")]), safe="")
        return re.sub(r"{(\w+)}", fill, path)

    def body_of(self, op):
        content = op.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            return self.make.rng.choice([b"", b"x" * 100, b"\0" * 1024]) if content else None
        body = self.make.value(content["application/json"]["schema"])
        return body if self.make.rng.random() < 0.4 else self.make.broken(body)

    def go(self, method, path, op):
        real, query = self.path_of(path), []
        for p in op.get("parameters", []):
            p = resolve(p["$ref"]) if "$ref" in p else p
            if p["in"] == "query" and (p.get("required") or self.make.rng.random() < 0.5):
                query.append((p["name"], self.make.parameter(p)))
        if query:
            real += "?" + urllib.parse.urlencode(query, errors="replace")
        body = self.body_of(op)
        where = f"{method} {real} {body!r}"[:600]
        try:
            a = self.d.request(method.upper(), real, body, headers={"Accept": "application/json"}, timeout=60)
        except (TimeoutError, OSError) as problem:
            return f"{where}: {problem!r}"
        self.statuses[a.status] = self.statuses.get(a.status, 0) + 1
        return check_answer(op, where, a)


# A stream without an end, what fetches or keeps images (tests/image has these), and what replaces the control plane, of
# which this test wants to know that it lives (tests/fault/test-upgrade.py).
LEFT_OUT = {("get", "/v1/audit"), ("post", "/v1/images/pull"), ("put", "/v1/images/tar"), ("post", "/v1/upgrade")}


@test(f"every operation, whole and broken calls, seed {SEED}")
def test_every_operation_whole_and_broken_calls_seed():
    print(f"# SEED={SEED} ROUNDS={ROUNDS}")
    bad, n = [], 0
    with Daemon("-auth-token", "t0ken", "--debug-endpoints") as d:
        d.token = "t0ken"
        calls, pid = Calls(d, SEED), d.get("/v1/status").json["pid"]
        for method, path, op in operations():
            if (method, path) in LEFT_OUT:
                continue
            for _ in range(ROUNDS if "requestBody" in op else max(2, ROUNDS // 10)):
                problem = calls.go(method, path, op)
                n += 1
                if problem:
                    bad.append(problem)
                if method == "delete" and path in ("/v1/sandboxes/{id}", "/sandboxes/{id}", "/v1/keys/{id}") or "rotate" in path:
                    calls = Calls(d, calls.make.rng.random())
        equal(d.get("/healthz").status, 200)
        equal(d.get("/v1/status").json["pid"], pid, "the control plane is the one that began")
    check(not bad, f"{len(bad)} of {n}:\n" + "\n".join(bad[:40]))
    print(f"# {n} calls: {sorted(Calls.statuses.items())}")
    check(sum(k for s, k in Calls.statuses.items() if s < 300) > n / 10, "hardly a call was a whole one")


main()
