#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The native API with Python's standard library: a command in a sandbox of its own, then a sandbox that lasts with a file, a
command whose output is followed while it runs, and its end.

    MAS_SANDBOX_URL=http://127.0.0.1:8080 MAS_SANDBOX_TOKEN=... examples/client.py"""
import json
import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("MAS_SANDBOX_URL", "http://127.0.0.1:8080")


def call(method, path, body=None):
    """The open answer. body is bytes, or anything that becomes JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, method=method)
    if os.environ.get("MAS_SANDBOX_TOKEN"):
        request.add_header("Authorization", "Bearer " + os.environ["MAS_SANDBOX_TOKEN"])
    try:
        return urllib.request.urlopen(request)
    except urllib.error.HTTPError as e:
        sys.exit(f"{method} {path}: {e.code} {json.load(e)['error']['message']}")


def call_json(method, path, body=None):
    with call(method, path, body) as answer:
        return json.load(answer)


def main():
    run = call_json("POST", "/v1/run", {"command": ["echo", "hello"]})
    print("one-shot:", run["stdout"].rstrip())

    sandbox = "/v1/sandboxes/" + call_json("POST", "/v1/sandboxes", {"limits": {"memory_mb": 256}})["id"]
    try:
        script = b"for i in 1 2 3; do echo line $i; done; exit 3\n"
        call_json("PUT", sandbox + "/files/content?path=/workspace/job.sh", script)

        # "async" answers at once. The log is the command's journal: it can be read from the start, again, or by others.
        started = call_json("POST", sandbox + "/exec", {"command": ["sh", "job.sh"], "async": True})
        with call("GET", f"{sandbox}/execs/{started['exec_id']}/logs?follow=1") as log:
            for event in map(json.loads, log):
                if event["type"] == "output":
                    print(event["data"], end="", flush=True)
                elif event["type"] == "exit":
                    print("exit code:", event["exit_code"])
    finally:
        call_json("DELETE", sandbox)


main()
