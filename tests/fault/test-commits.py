#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What narrows is durable no later than what it narrows: the control plane is killed at every commit of a create
with a policy, a pause, a key's end and a decision, and before, between and after them. Whatever is there
afterwards may do no more than what was asked for, and what was answered holds."""
import os
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *
from guarded import Guarded

COMMITS = ("commit.begin", "commit.before", "commit.done")
TOKEN = "a-token-of-the-operator"
ADMIN = {"Authorization": "Bearer " + TOKEN}


def armed(fault, *flags, **kw):
    return Daemon("--debug-endpoints", *flags, env={"MAS_FAULT": fault}, **kw)


def commits(first, last):
    return [f"{name}:{n}" for n in range(first, last + 1) for name in COMMITS]


def asked(d, method, path, body=None, headers=None):
    """The answer, or None where the control plane died of it."""
    try:
        return d.request(method, path, body, headers=headers)
    except BROKEN:
        return None


# --- create with a policy

def check_narrow(d, name, what):
    """There is no such sandbox, or it runs what its policy allows and nothing else."""
    def execute(tool, **args):
        return again(d, "POST", "/v1/sandbox/execute", {"sandbox_id": name, "tool": {"name": tool, "args": args}}).json
    a = execute("shell", command="echo escaped")
    if "there is no sandbox" in a.get("error", {}).get("message", ""):
        return False
    equal((a.get("result"), a["error"]["message"]), (None, "tool not allowed"), what)
    a = execute("calculator", expression="1+1")
    check("has died" in a["error"]["message"] if "error" in a else a["result"]["result"] == 2, (what, a))
    return "error" not in a


@test("a sandbox with a policy never comes back without it, killed at any step and commit of its create")
def test_a_sandbox_with_a_policy_never_comes_back_without():
    for fault in commits(1, 2) + ["create.before-plan", "create.plan-sent", "create.started", "create.answered"]:
        with armed(fault) as d:
            a = asked(d, "POST", "/v1/sandbox/create", {"sandbox_id": "mine", "policy": {"AllowedTools": ["calculator"]}})
            if a:
                equal(a.status, 200, (fault, a))
            there = check_narrow(d, "mine", fault)
            check(there or not a, f"{fault}: what was answered is gone")


def edit_row(d, change):
    """The row of the only sandbox, as another version, a half-written or a damaged one would have it."""
    with sqlite3.connect(d.state + "/control/state.db", timeout=10) as db:
        key, body = db.execute("SELECT key, body FROM sandbox").fetchone()
        row = json.loads(body)
        change(row)
        db.execute("UPDATE sandbox SET body = ? WHERE key = ?", (json.dumps(row).encode(), key))


def remove(*names):
    return lambda row: [row.pop(n, None) for n in names]


def with_note(row):
    """The row as the version before wrote it: the policy is a text."""
    row["note"] = json.dumps(row.pop("policy"))


def older(change):
    return lambda row: (with_note(row), change(row))


ROWS = {
    "the policy is lost": (remove("policy"), "closed"),
    "the policy is no object": (lambda row: row.update(policy="all"), "gone"),
    "the policy is none": (lambda row: row.update(policy={"policy": {"AllowedTools": 3}}), "closed"),
    "the owner is no text": (lambda row: row.update(owner=7), "gone"),
    "noted is no truth": (lambda row: row.update(noted="no", policy=None), "gone"),
    "the version before": (with_note, "policy"),
    "the version before, the note is lost": (older(remove("note")), "closed"),
    "the version before, the note is no text": (older(lambda row: row.update(note={"policy": None})), "gone"),
    "the version before, the note is not a policy":
        (older(lambda row: row.update(note='{"policy":{"AllowedTools":3}}')), "closed"),
    "the version before, noted is no truth": (older(lambda row: row.update(noted="no", note=None)), "gone"),
    "an older version, killed before its note": (older(remove("note", "noted")), "closed"),
    "an older version's whole row": (older(remove("noted")), "policy"),
}


@test("a row without what narrows it fails closed; a whole one of the version before opens")
def test_a_row_without_what_narrows_it_fails_closed():
    for what, (change, want) in ROWS.items():
        with Daemon() as d:
            a = d.post("/v1/sandbox/create", {"sandbox_id": "mine", "policy": {"AllowedTools": ["calculator"]}})
            equal(a.status, 200, a)
            edit_row(d, change)
            d.kill_control()
            got = {}
            for tool, args in (("shell", {"command": "echo escaped"}), ("calculator", {"expression": "1+1"})):
                a = again(d, "POST", "/v1/sandbox/execute", {"sandbox_id": "mine", "tool": {"name": tool, "args": args}})
                got[tool] = a.json.get("result") or a.json["error"]["message"]
            check("stdout" not in got["shell"], (what, got))
            if want == "gone":
                check("there is no sandbox" in got["calculator"], (what, got))
            elif want == "closed":
                equal(got["calculator"], "tool not allowed", what)
            else:
                equal(got["calculator"]["result"], 2, what)


@test("a sandbox that has no policy runs everything after a restart, also one of the version before")
def test_a_sandbox_that_has_no_policy_runs_everything():
    for change in (lambda row: None, remove("noted")):
        with Daemon() as d, d.sandbox() as sb:
            edit_row(d, change)
            d.kill_control()
            equal(again(d, "POST", sb.path + "/exec", {"command": ["echo", "free"]}).json["stdout"], "free\n")


# --- pause

def state_of(d, sb):
    wait_for(lambda: again(d, "GET", sb.path).json["state"] != "creating", "it is adopted")
    return again(d, "GET", sb.path).json["state"]


def check_stands(d, sb, what):
    """What it says is what it does, and it can be let go on and used."""
    state = state_of(d, sb)
    check(state in ("ready", "paused"), (what, state))
    a = again(d, "POST", sb.path + "/exec", {"command": ["echo", "runs"], "timeout_ms": 5000})
    equal((a.status, a.json.get("stdout")), (200, "runs\n") if state == "ready" else (409, None), (what, state, a))
    equal(again(d, "POST", sb.path + "/resume").status, 200, what)
    wait_for(lambda: again(d, "GET", sb.path).json["state"] == "ready", what)
    equal(again(d, "POST", sb.path + "/exec", {"command": ["echo", "goes on"], "timeout_ms": 5000}).json["stdout"],
          "goes on\n", what)
    return state


@test("killed at any step of a pause or a resume: it says whether it stands still, and resume lets it go on")
def test_killed_at_any_step_of_a_pause_or_a_resume():
    for verb in ("pause", "resume"):
        n = 2 if verb == "pause" else 3  # a create is one commit, so is a pause
        for fault in commits(n, n) + ["pause.wish-written", "pause.frozen"] * (verb == "pause") + \
                ["resume.thawed"] * (verb == "resume"):
            with armed(fault, "--cgroup-prefix", f"mas-commits-{os.getpid()}") as d:
                sb = d.sandbox()
                if verb == "resume":
                    equal(d.post(sb.path + "/pause").status, 200)
                a = asked(d, "POST", f"{sb.path}/{verb}")
                if a:
                    equal(a.status, 200, (fault, a))
                wait_for(lambda: generations(d) == 2, fault)
                state = check_stands(d, sb, (verb, fault))
                if a:
                    equal(state, "paused" if verb == "pause" else "ready", (verb, fault))


@test("resume lets go on what is believed to run")
def test_resume_lets_go_on_what_is_believed_to_run():
    with Daemon("--cgroup-prefix", f"mas-commits-{os.getpid()}") as d, d.sandbox() as sb:
        for _ in range(2):
            a = d.post(sb.path + "/resume")
            equal((a.status, a.json["state"]), (200, "ready"), a)
        equal(sb.sh("echo fine")["stdout"], "fine\n")


# --- keys

def accepted(d, secret):
    """Whether the key is one; asked until there is an answer."""
    end = time.time() + PATIENCE_S
    while time.time() < end:
        a = asked(d, "GET", "/v1/sandboxes", headers={"Authorization": "Bearer " + secret})
        if a:
            return a.status != 401
        time.sleep(0.02)
    raise AssertionError(d.log_text())


@test("a key whose end was answered has ended, killed at any commit; what was not answered is one of the two")
def test_a_key_whose_end_was_answered_has_ended_killed():
    for fault in commits(2, 2):
        for verb in ("revoke", "rotate"):
            with armed(fault, "-auth-token", TOKEN) as d:
                key = d.post("/v1/keys", {"name": "k", "roles": ["agent"]}, headers=ADMIN).json
                check(accepted(d, key["secret"]), "a new key")
                path = "/v1/keys/" + key["id"]
                a = asked(d, "DELETE", path, headers=ADMIN) if verb == "revoke" else \
                    asked(d, "POST", path + "/rotate", headers=ADMIN)
                wait_for(lambda: generations(d) == 2, fault)
                if a:
                    check(not accepted(d, key["secret"]), f"{fault}: a key that was {verb}d is taken")
                if a and verb == "rotate":
                    check(accepted(d, a.json["secret"]), f"{fault}: the new secret")
                if not a:
                    asked(d, "DELETE", path, headers=ADMIN)
                    check(not accepted(d, key["secret"]), f"{fault}: revoked again")


@test("a revocation that could not be recorded is recorded later, and outlives a restart")
def test_a_revocation_that_could_not_be_recorded():
    with Daemon("-auth-token", TOKEN) as d:
        key = d.post("/v1/keys", {"name": "k", "roles": ["agent"]}, headers=ADMIN).json
        other = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        a = asked(d, "DELETE", "/v1/keys/" + key["id"], headers=ADMIN)
        check(a.status >= 500, a)
        check(not accepted(d, key["secret"]), "it holds")
        other.execute("ROLLBACK")
        body = "SELECT body FROM api_key WHERE key = ?"
        wait_for(lambda: json.loads(other.execute(body, (key["id"],)).fetchone()[0])["revoked_ns"], "the record")
        other.close()
        d.kill_control(headers=ADMIN)
        check(not accepted(d, key["secret"]), "it holds after a restart")


# --- approvals

POLICY = """version: 1
default: allow
rules:
  - {id: touchy, verdict: ask, risk: high, command: "touch *"}
"""


@test("killed at any commit of a decision: a rejection that was answered stays one, and none becomes a grant")
def test_killed_at_any_commit_of_a_decision_a_rejection():
    for fault in commits(3, 3):  # after the sandbox's and the question's
        with Guarded(POLICY, "--debug-endpoints", env={"MAS_FAULT": fault}) as d:
            sb = d.sandbox()
            call = {"command": ["touch", "/workspace/x"]}
            id = d.post(sb.path + "/exec", call).json["approval_id"]
            a = asked(d, "POST", f"/v1/approvals/{id}/reject", {})
            wait_for(lambda: generations(d) == 2, fault)
            state = again(d, "GET", f"/v1/approvals/{id}").json["status"]
            check(state == "rejected" or (not a and state == "pending"), (fault, state))
            again(d, "GET", sb.path)
            a = asked(d, "POST", sb.path + "/exec", call, headers={"X-Mas-Approval-Id": id})
            check(a.status in (202, 403), (fault, a))
            equal(again(d, "POST", sb.path + "/exec", {"command": ["ls", "/workspace"]}).json["stdout"], "", fault)


main()
