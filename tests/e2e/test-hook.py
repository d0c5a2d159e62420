#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sbx hook pre-tool-use: the policy's verdict in the hook's form, and everything else blocks."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

DIR = tempfile.mkdtemp(prefix="mas-hook-")
atexit.register(shutil.rmtree, DIR)
POLICY = f"""
version: 1
default: ask
workspace: {DIR}
rules:
  - {{id: look, verdict: allow, command: ["ls *", "cat *", "echo *"]}}
  - {{id: wipe, verdict: deny, reason: "no", command: ["rm -rf *"]}}
  - {{id: secrets, verdict: deny, path: ["**/.env"]}}
  - {{id: files, verdict: allow, path: ["{DIR}/**", "{DIR}"]}}
  - {{id: docs, verdict: allow, host: ["docs.example.org"]}}
  - {{id: odd, verdict: deny, tool: "mcp__bad__*"}}
"""


def put(name, text):
    with open(os.path.join(DIR, name), "w") as f:
        f.write(text)
    return os.path.join(DIR, name)


PATH = put("policy.yaml", POLICY)
os.symlink(".env", os.path.join(DIR, "link"))
put(".env", "x")


def run(text, *flags, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SANDBOX_")}
    return subprocess.run([SBX, "hook", "pre-tool-use", *flags], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=dict(clean, **env))


def hook(tool, flags=("-policy", PATH), **arguments):
    r = run(json.dumps({"session_id": "s", "hook_event_name": "PreToolUse", "cwd": DIR, "tool_name": tool,
                        "tool_input": arguments}), *flags)
    out = json.loads(r.stdout)["hookSpecificOutput"] if r.stdout else {}
    check(not out or out["hookEventName"] == "PreToolUse", out)
    return r.returncode, out.get("permissionDecision"), out.get("permissionDecisionReason", "") + r.stderr


@test("verdicts on commands: allow, ask, deny")
def commands():
    equal(hook("Bash", command="ls -l && cat a")[:2], (0, "allow"))
    code, verdict, why = hook("Bash", command="ls; rm -rf /tmp/x")
    equal((code, verdict), (2, "deny"))
    check("wipe" in why, why)
    equal(hook("Bash", command="make")[:2], (0, "ask"))
    equal(hook("Bash", command="cat .env")[:2], (2, "deny"))
    check(hook("Bash", command="ls $(cat x)")[1] != "deny", "parts are looked at")
    equal(hook("Bash", command="eval $X")[1], "ask", "what cannot be known is never allowed")


@test("files, through links too; searches, the web, other tools")
def others():
    equal(hook("Read", file_path=os.path.join(DIR, "a"))[:2], (0, "allow"))
    equal(hook("Write", file_path="sub/b", content="x")[:2], (0, "allow"))
    equal(hook("Read", file_path=os.path.join(DIR, "sub/../.env"))[:2], (2, "deny"))
    equal(hook("Read", file_path=os.path.join(DIR, "link"))[:2], (2, "deny"), "a link to a secret")
    equal(hook("Edit", file_path="/etc/passwd", old_string="a", new_string="b")[:2], (0, "ask"))
    equal(hook("Grep", pattern="x")[:2], (0, "allow"))
    equal(hook("Glob", pattern="*", path="/")[:2], (0, "ask"))
    equal(hook("WebFetch", url="https://docs.example.org/x?y", prompt="p")[:2], (0, "allow"))
    equal(hook("WebFetch", url="https://evil.example/", prompt="p")[:2], (0, "ask"))
    equal(hook("WebFetch", url="https://docs.example.org@evil.example/")[0], 2, "a URL that is not plain")
    equal(hook("mcp__bad__x")[:2], (2, "deny"))
    equal(hook("mcp__other__x")[:2], (0, "ask"))


@test("what only a sandbox can keep becomes a question")
def walls():
    path = put("walls.yaml", "version: 1\ndefault: allow\nrules:\n  - {id: w, require: {runtime: local}}\n")
    code, verdict, why = hook("Bash", flags=("-policy", path), command="ls")
    equal((code, verdict), (0, "ask"))
    check("sandbox" in why, why)


@test("everything that is wrong blocks")
def closed():
    good = json.dumps({"tool_name": "Bash", "tool_input": {"command": "ls"}})
    equal(run(good, "-policy", PATH).returncode, 0)
    bad = put("bad.yaml", "version: 1\nrules: {")
    for text, flags in (("", ("-policy", PATH)), ("{", ("-policy", PATH)), ("[]", ("-policy", PATH)), ("{}", ("-policy", PATH)),
                        (good, ()), (good, ("-policy", "/no/such")), (good, ("-policy", bad)),
                        ('{"tool_name": "Bash", "tool_input": {}}', ("-policy", PATH)),
                        ('{"tool_name": "Bash", "tool_input": "ls"}', ("-policy", PATH)),
                        ('{"hook_event_name": "Stop", "tool_name": "Bash", "tool_input": {"command": "ls"}}', ("-policy", PATH)),
                        ('{"tool_name": "Write", "tool_input": {"content": "x"}}', ("-policy", PATH))):
        r = run(text, *flags)
        check(r.returncode == 2 and r.stderr and "allow" not in r.stdout, f"{text[:60]!r} {flags}: {r}")


@test("the policy is where the daemon's settings have it")
def settings():
    good = json.dumps({"tool_name": "Bash", "tool_input": {"command": "rm -rf x"}})
    check("wipe" in run(good, SANDBOX_POLICY_FILE=PATH).stderr, "a variable")
    config = put("config.yaml", f"policy_file: {PATH}\n")
    check("wipe" in run(good, SANDBOX_CONFIG=config).stderr, "a file")


main()
