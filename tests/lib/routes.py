# SPDX-License-Identifier: Apache-2.0
"""The table of routes as the daemon has it, and a request to each of those that are about a sandbox."""
import io
import json
import os
import subprocess
import tarfile

from masd import BUILD

SB, EX = "/v1/sandboxes/{id}", "/v1/sandboxes/{id}/execs/{exec_id}"


def route_table():
    return json.loads(subprocess.run([os.path.join(BUILD, "tests/dump-routes")], stdout=subprocess.PIPE, check=True).stdout)


def tar_of(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


# The query and the body; a route that is not here needs neither.
REQUESTS = {
    ("post", "/v1/sandbox/create"): ("", {}),
    ("post", "/v1/sandbox/execute"): ("", {"sandbox_id": "{id}", "tool": {"name": "calculator", "args": {"expression": "1+1"}}}),
    ("post", "/v1/sandbox/destroy"): ("", {"sandbox_id": "{id}"}),
    ("post", "/sandboxes"): ("", {"command": ["true"]}),
    ("post", "/sandboxes/{id}/exec"): ("", {"command": ["true"], "async": False}),
    ("get", "/sandboxes/{id}/stream"): ("?exec_id={exec_id}", None),
    ("post", "/v1/run"): ("", {"command": ["true"]}),
    ("post", "/v1/sandboxes"): ("", {}),
    ("post", SB + "/traffic-tokens"): ("", {}),
    ("post", SB + "/traffic-tokens/{token_id}/link"): ("", {"port": 8080}),
    ("post", SB + "/exec"): ("", {"command": ["true"]}),
    ("patch", SB + "/network"): ("", {"mode": "none"}),
    ("post", EX + "/stdin"): ("", b"typed\n"),
    ("post", EX + "/signal"): ("", {"signal": "TERM"}),
    ("post", EX + "/resize"): ("", {"rows": 5, "cols": 6}),
    ("get", SB + "/files"): ("?path=/workspace", None),
    ("delete", SB + "/files"): ("?path=/workspace/f", None),
    ("get", SB + "/files/content"): ("?path=/workspace/f", None),
    ("put", SB + "/files/content"): ("?path=/workspace/g", b"text"),
    ("get", SB + "/files/stat"): ("?path=/workspace/f", None),
    ("post", SB + "/files/mkdir"): ("", {"path": "/workspace/d"}),
    ("post", SB + "/files/move"): ("", {"from": "/workspace/f", "to": "/workspace/h"}),
    ("get", SB + "/files/tar"): ("?path=/workspace", None),
    ("put", SB + "/files/tar"): ("?path=/workspace", tar_of(a="b")),
    ("post", "/api/actions"): ("", {"action_type": "skill_execution", "skill_id": "calculator", "parameters": {"expression": "1"}}),
}


def request_to(method, path, sandbox, exec_id):
    """(path with its query, body) of a request to a route about that sandbox and command."""
    def fill(text):
        return text.replace("{id}", sandbox).replace("{exec_id}", exec_id).replace("{port}", "8080").replace("{path}", "")
    query, body = REQUESTS.get((method, path), ("", None))
    return fill(path + query), json.loads(fill(json.dumps(body))) if isinstance(body, dict) else body
