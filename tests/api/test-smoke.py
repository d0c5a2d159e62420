#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The thin slice: one call through every layer."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *


@test("line protocol answers in order")
def test_line_protocol_answers_in_order():
    lines = ('{"id":"1","tool":"calculator","args":{"expression":"15*8+7"}}\n'
             'not json\n'
             '{"id":"3","tool":"shell","args":{"command":"exit 3"}}\n')
    p = subprocess.run([SANDBOXD], input=lines.encode(), stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=60)
    equal(p.returncode, 0, "exit status")
    out = [json.loads(x) for x in p.stdout.splitlines()]
    equal([o["id"] for o in out], ["1", "", "3"])
    equal(out[0]["result"], {"expression": "15*8+7", "result": 127})
    check(out[1]["error"].startswith("invalid request: "), out[1])
    equal(out[2]["exit_code"], 3)


@test("run, exec and stream")
def test_run_exec_and_stream():
    with Daemon() as d:
        r = d.run("echo", "hi")
        equal((r["stdout"], r["exit_code"], r["status"]), ("hi\n", 0, "completed"))
        with d.sandbox() as sb:
            equal(sb.sh("echo out; echo err >&2; exit 4")["exit_code"], 4)
            e = d.post(f"/sandboxes/{sb.id}/exec", {"command": ["echo", "streamed"]}).json
            events = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={e['exec_id']}").events()
            equal([v["type"] for v in events], ["start", "output", "exit"])
            equal(events[1]["data"], "streamed\n")
            equal([v["seq"] for v in events], [1, 2, 3])


main()
