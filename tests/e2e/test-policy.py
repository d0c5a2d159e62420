#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sbx policy as a person uses it; only status needs a daemon."""
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
AGENT = os.path.join(ROOT, "docs/policies/coding-agent.yaml")
DIR = tempfile.mkdtemp(prefix="test-policy-")


def sbx(*args):
    p = subprocess.run([os.path.join(BUILD, "sbx"), "policy", *args], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


def write(name, text):
    path = os.path.join(DIR, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


@test("every example is right and passes its tests")
def test_every_example_is_right_and_passes_its_tests():
    for path in glob.glob(os.path.join(ROOT, "docs/policies/*.yaml")):
        code, out, err = sbx("check", path)
        equal((code, err), (0, ""), path)
        check("revision " in out, out)
        code, out, err = sbx("test", path)
        equal((code, err), (0, ""), out)
        check(out.endswith(" passed, 0 failed\n"), out)


@test("status tells which policy a daemon has, and why it did not take the file as it is now")
def test_status_tells_which_policy_a_daemon_has_and_why():
    good = "version: 1\ndefault: allow\nrules: []\n"
    path = write("live.yaml", good)
    os.chmod(DIR, 0o755)
    with Daemon("--policy-file", path) as d:
        code, out, err = sbx("status", "-addr", f"http://127.0.0.1:{d.port}")
        check(code == 0 and "0 rules" in out and path in out, out + err)
        write("live.yaml", good + "tests:\n  - {command: ls, expect: deny}\n")
        wait_for(lambda: sbx("status", "-addr", f"http://127.0.0.1:{d.port}")[0] == 125, "the failing test is noticed")
        check("1 of its 1 tests fail" in sbx("status", "-addr", f"http://127.0.0.1:{d.port}")[1], "and told")
    with Daemon() as d:
        equal(sbx("status", "-addr", f"http://127.0.0.1:{d.port}")[:2], (0, "no policy_file is configured\n"))
    equal(sbx("check")[0], 2, "a file is missing")


@test("check says where a file is wrong")
def test_check_says_where_a_file_is_wrong():
    path = write("bad.yaml", "version: 1\ndefault: ask\nrules:\n  - id: a\n    verdict: nope\n")
    equal(sbx("check", path), (2, "", f"sbx: {path}:5:14: one of allow, ask and deny is expected\n"))
    code, _, err = sbx("check", os.path.join(DIR, "none"))
    check(code != 0 and "none" in err, err)
    equal(sbx("check", path, "x")[0], 2)
    equal(sbx("frobnicate", path)[0], 2)


@test("a test that fails is shown, with what decided")
def test_a_test_that_fails_is_shown_with_what_decided():
    path = write("t.yaml", "version: 1\ndefault: ask\nrules:\n"
                           "  - {id: no, verdict: deny, command: rm *}\n"
                           "tests:\n  - {command: rm x, expect: allow}\n  - {command: ls, expect: ask}\n"
                           "  - {command: rm x, expect: deny, rule: other}\n")
    code, out, _ = sbx("test", path)
    equal(code, 1)
    check(f"{path}:6: 'rm x' is deny, not allow (rule no)" in out, out)
    check(f"{path}:8:" in out and "1 passed, 2 failed" in out, out)
    code, out, _ = sbx("test", path, "-json")
    equal([r["passed"] for r in json.loads(out)], [False, True, False])


@test("explain a line, a command, a file, a host and a tool")
def test_explain_a_line_a_command_a_file_a_host():
    code, out, err = sbx("explain", AGENT, "-line", "git status; rm -fr /")
    equal((code, err), (0, ""))
    check(out.startswith("deny by wipe, risk critical\n"), out)
    check("git status" in out and "by git-here" in out and "otherwise" in out, out)
    for args, verdict, rule in [
            (["--", "git", "push", "-f"], "deny", "rewrite-history"),
            (["-path", "/workspace/.env"], "deny", "secrets"),
            (["-write", "/workspace/x"], "allow", "files"),
            (["-write", "/etc/x"], "deny", "system-files"),
            (["-host", "docs.rs"], "allow", "documentation"),
            (["-host", "docs.rs:8443"], "allow", "documentation"),
            (["-host", "example.org"], "ask", "default"),
            (["-tool", "calculator"], "allow", "calculator"),
            (["-line", "cat x", "-cwd", "/home/sandbox/.ssh"], "deny", "secrets")]:
        code, out, err = sbx("explain", AGENT, "-json", *args)
        equal((code, err), (0, ""), args)
        answer = json.loads(out)
        equal((answer["verdict"], answer["rule"]), (verdict, rule), args)
        equal(answer["obligations"]["min_runtime"], "local")
        equal(len(answer["revision"]), 64)
    equal(sbx("explain", AGENT)[0], 2)
    equal(sbx("explain", AGENT, "-line", "a", "--", "b")[0], 2)
    ci = os.path.join(ROOT, "docs/policies/ci.yaml")
    for key, verdict in ("ci-x", "ask"), ("someone", "ask"):
        equal(json.loads(sbx("explain", ci, "-json", "-key", key, "-line", "make")[1])["verdict"], verdict)


@test("hostile bytes of a line do not reach the terminal")
def test_hostile_bytes_of_a_line_do_not_reach():
    _, out, _ = sbx("explain", AGENT, "-line", "ls '\x1b]0;x\x07'")
    check("\x1b" not in out and "\x07" not in out, repr(out))


SETTINGS = {
    "model": "x",
    "permissions": {
        "defaultMode": "default",
        "allow": ["Bash(npm run lint)", "Bash(npm run test:*)", "Bash(git diff:*)", "Read(~/.zshrc)",
                  "Edit(/src/**)", "WebFetch(domain:example.com)", "WebSearch", "Bash(echo 'a  b')"],
        "ask": ["Bash(git push:*)", "Write"],
        "deny": ["Bash(curl:*)", "Read(./.env)", "Read(./.env.*)", "Read(./secrets/**)", "Read(*.key)",
                 "Read(//etc/shadow)", "WebFetch"],
    }
}


def imported(settings):
    source = write("settings.json", json.dumps(settings))
    code, out, err = sbx("import", source)
    return code, write("imported.yaml", out), err


@test("permissions of Claude Code become a policy that decides the same")
def test_permissions_of_claude_code_become_a_policy():
    code, path, err = imported(SETTINGS)
    equal((code, err), (0, ""))
    equal(sbx("check", path)[0], 0)
    for args, verdict in [
            (["-line", "npm run lint"], "allow"), (["-line", "npm run lint --fix"], "ask"),
            (["-line", "npm run test -- --coverage a.js"], "allow"), (["-line", "git diff HEAD"], "allow"),
            (["-line", "npm run test -- --config=/tmp/x.js"], "ask"),  # which runs other code than the one that was allowed
            (["-line", "git push origin"], "ask"), (["-line", "git diff; curl x"], "deny"),
            (["-line", "git diff > .env"], "ask"), (["-path", "/home/sandbox/.zshrc"], "allow"),
            (["-write", "/workspace/src/a/b.c"], "ask"), (["-path", "/workspace/.env"], "deny"),
            (["-path", "/workspace/.env.local"], "deny"), (["-path", "/workspace/secrets/a/b"], "deny"),
            (["-path", "/workspace/a/b/x.key"], "deny"), (["-path", "/etc/shadow"], "deny"),
            (["-path", "/workspace/a"], "ask"), (["-tool", "web_search"], "allow")]:
        answer = json.loads(sbx("explain", path, "-json", *args)[1])
        equal(answer["verdict"], verdict, args)


@test("what cannot be translated is said, and left as a comment")
def test_what_cannot_be_translated_is_said_and_left():
    code, path, err = imported({"permissions": {
        "deny": ["mcp__github__push", "Bash(a && b)", "Task(x)", "Read(../x)", "Bash(x", "WebFetch(y)"],
        "allow": ["Bash(ls:*)", "WebFetch(domain:a b)"],
        "additionalDirectories": ["../docs"], "defaultMode": "bypassPermissions"}})
    equal(code, 1)
    for entry in ("mcp__github__push", "Bash(a && b)", "Task(x)", "Read(../x)", "Bash(x:", "WebFetch(y)",
                  "WebFetch(domain:a b)", "additionalDirectories", "bypassPermissions"):
        check(entry in err, f"{entry} is said: {err}")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    equal(text.count("# not translated:"), 9, text)
    check("id: allow-1" in text and "default: ask" in text, text)
    equal(sbx("check", path)[0], 0)
    equal(sbx("import", write("x.json", "{}"))[0], 2)
    equal(sbx("import", write("x.json", "[1"))[0], 2)


main()
