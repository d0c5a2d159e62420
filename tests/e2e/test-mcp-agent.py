#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The example agent solves its task over MCP, with an approval in the middle; without one it does not."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/mcp-agent")
POLICY = os.path.join(EXAMPLE, "policy.yaml")


def agent(approve, *server):
    return subprocess.run([sys.executable, os.path.join(EXAMPLE, "agent.py"), "--approve", approve, "--", *server],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)


def done(r):
    equal(r.returncode, 0, r.stdout[-1500:] + r.stderr[-500:])
    check("the sandbox asks" in r.stdout and "./publish.sh report.txt" in r.stdout, "a person was asked")
    check("published report.txt" in r.stdout and "\ndone:" in r.stdout, r.stdout[-500:])


@test("over stdio, approved")
def stdio():
    done(agent("yes", SANDBOXD, "-mcp", "--policy-file", POLICY))


@test("over HTTP, approved, and its sandbox is gone afterwards")
def http():
    with Daemon("--policy-file", POLICY) as d:
        done(agent("yes", f"http://127.0.0.1:{d.port}/mcp"))
        wait_for(lambda: d.get("/v1/sandboxes").json["sandboxes"] == [], "nothing is left")
        listed = d.get("/v1/approvals").json["approvals"]
        equal([a["status"] for a in listed], ["used"], "the approval is used up, and on record")


@test("declined: nothing is published, and the agent says so")
def declined():
    r = agent("no", SANDBOXD, "-mcp", "--policy-file", POLICY)
    equal(r.returncode, 1, r.stdout[-500:])
    check("not done" in r.stdout and "rejected" in r.stdout and "published report.txt" not in r.stdout, r.stdout[-700:])


main()
