# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.json, a checker of values against its schemas, and the table of routes."""
import json
import os
import re

from masd import check, equal
from routes import route_table as routes

TYPES = {"string": str, "object": dict, "array": list, "boolean": bool, "null": type(None)}
_document = None


def document():
    global _document
    if not _document:
        with open(os.path.join(os.path.dirname(__file__), "../../docs/openapi.json")) as f:
            _document = json.load(f)
    return _document


def resolve(ref):
    node = document()
    for part in ref.removeprefix("#/").split("/"):
        node = node[part]
    return node


def members(schema):
    """Every member a schema documents, through $ref, allOf and oneOf."""
    if "$ref" in schema:
        return members(resolve(schema["$ref"]))
    out = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []) + schema.get("oneOf", []):
        out.update(members(part))
    return out


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def problems(value, schema, where="$", known=True):
    """What of a value its schema does not say; with known, also members that are not documented."""
    if "$ref" in schema:
        return problems(value, resolve(schema["$ref"]), where, known)
    out = []
    if "oneOf" in schema:
        found = [problems(value, s, where, known) for s in schema["oneOf"]]
        if all(found):
            out += min(found, key=len)
    for part in schema.get("allOf", []):
        out += problems(value, part, where, False)
    if "type" in schema and not is_type(value, schema["type"]):
        return out + [f"{where}: {value!r} is no {schema['type']}"]
    if "const" in schema and value != schema["const"]:
        out.append(f"{where}: {value!r} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        out.append(f"{where}: {value!r} is none of {schema['enum']}")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        out.append(f"{where}: {value!r} does not match {schema['pattern']}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            out += problems(item, schema.get("items", {}), f"{where}[{i}]", known)
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                out.append(f"{where}: {name} is missing")
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                out += problems(value[name], inner, f"{where}.{name}", known)
        documented = members(schema)
        if known and documented and "additionalProperties" not in schema:
            out += [f"{where}.{k} is not documented" for k in value if k not in documented]
    return out


def operations():
    for path, methods in document()["paths"].items():
        for method, op in methods.items():
            yield method, path, op


def answered(d, method, path, real, body=None, **kw):
    """Sends a request and holds its answer against the document."""
    a = d.request(method.upper(), real, body, **kw)
    op = document()["paths"][path][method]
    where = f"{method} {real}"
    check(str(a.status) in op["responses"], f"{where}: {a.status} is not documented")
    r = op["responses"][str(a.status)]
    r = resolve(r["$ref"]) if "$ref" in r else r
    kind = a.headers["Content-Type"].split(";")[0]
    check(kind in r["content"], f"{where}: {kind} is not documented")
    schema = r["content"][kind]["schema"]
    if kind == "application/json":
        equal(problems(a.json, schema), [], where)
    if kind == "application/x-ndjson":
        for line in a.body.splitlines():
            equal(problems(json.loads(line), schema), [], where)
    return a
