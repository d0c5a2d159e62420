#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A policy file in a real daemon: what calls of each kind get, by what the policy sees of them."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
AGENT = os.path.join(ROOT, "docs/policies/coding-agent.yaml")


def daemon():
    return shared_daemon("--policy-file", AGENT)


def tool(name, **args):
    body = {"tool": {"id": "c", "name": name, "args": args}, "policy": {"Network": {"Enabled": True}}}
    answer = daemon().post("/v1/sandbox/execute", body).json
    message = answer.get("error", {}).get("message", "")
    return "ask" if "approval_id" in answer else "deny" if message.startswith("denied by rule") else "ran"


def run(*argv, **spec):
    answer = daemon().post("/v1/run", {"command": list(argv), **spec})
    return {200: "ran", 202: "ask", 403: "deny"}.get(answer.status, answer)


@test("commands, by what their lines would run")
def test_commands_by_what_their_lines_would_run():
    equal(run("echo", "hi"), "ran")
    equal(run("sh", "-c", "ls; echo hi"), "ran")
    equal(run("sh", "-c", "ls; rm -fr /"), "deny")
    equal(run("rm", "-rf", "/"), "deny")
    equal(run("sh", "-c", "$x"), "ask")
    equal(run("/tmp/ls"), "ask")
    equal(run("cat", ".env", cwd="/workspace"), "deny")
    equal(run("cat", "x", cwd="/home/sandbox/.ssh"), "deny")


@test("what is too long for any kernel is refused before anybody is asked, and before a rule is tried")
def test_what_is_too_long_for_any_kernel_is_refused():
    for argv in (["sh", "-c", "env " * 225000], ["x" * 140000], ["$x", "y" * 131072]):
        a = daemon().post("/v1/run", {"command": argv})
        equal((a.status, a.json["error"]["code"]), (413, "too_large"), a)
    answer = daemon().post("/v1/sandbox/execute", {"tool": {"id": "c", "name": "shell", "args": {"command": "env " * 225000}}}).json
    check("approval_id" not in answer and "131071" in answer["error"]["message"], answer)
    equal(run("sh", "-c", "echo " + "x" * 131000), "ran")


@test("variables that change what a command means, of the call and of its sandbox")
def test_variables_that_change_what_a_command_means():
    equal(run("ls", env={"COLUMNS": "80"}), "ran")
    equal(run("ls", env={"PATH": "/tmp/evil"}), "ask")
    equal(run("ls", env={"LD_PRELOAD": "/tmp/x.so"}), "ask")
    with daemon().sandbox(env={"BASH_ENV": "/tmp/x"}) as sb:
        equal(daemon().post(f"/v1/sandboxes/{sb.id}/exec", {"command": ["ls"]}).status, 202)


@test("tools")
def test_tools():
    equal(tool("calculator", expression="1+2"), "ran")
    equal(tool("shell", command="git status"), "ran")
    equal(tool("shell", command="bash -c 'sudo ls'"), "deny")
    equal(tool("code", language="python", code="print(1)"), "ask")
    equal(tool("file_system", action="read", path="/workspace/.env"), "deny")
    equal(tool("file_system", action="write", path="/etc/passwd", content="x"), "deny")
    equal(tool("fetch", url="https://docs.python.org/"), "ran")
    equal(tool("fetch", url="https://example.org/"), "ask")


main()
