#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The operator's policy over MCP: what is denied, what a person is asked, in the client or in the queue."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from mcp import *

POLICY = """
version: 1
default: allow
rules:
  - id: publish
    verdict: ask
    risk: high
    reason: it publishes
    command: ["git push *", "touch published"]
  - id: secrets
    verdict: deny
    reason: secrets stay here
    path: ["/workspace/secret*"]
  - id: deploy
    verdict: ask
    write: ["/workspace/deploy/**"]
  - id: grave
    verdict: ask
    risk: critical
    command: ["rm -rf *"]
"""


def with_policy(*flags):
    path = os.path.join(tempfile.mkdtemp(prefix="mas-policy-"), "policy.yaml")
    with open(path, "w") as f:
        f.write(POLICY)
    return Daemon("--policy-file", path, *flags)


_daemon = None


def daemon():
    global _daemon
    if not _daemon:
        _daemon = with_policy("--mcp-approval-wait", "1s").start()
        atexit.register(_daemon.__exit__)
    return _daemon


def text_of(r):
    return "\n".join(c["text"] for c in r["content"])


def result(a):
    check("result" in a, a)
    return a["result"]


class Person(Client):
    """A client whose user answers questions."""

    def __init__(self, d, answer):
        self.answer, self.questions = answer, []
        super().__init__(d, elicitation={})

    def ask(self, method, params=None, id=None):
        id, self.next = self.next, self.next + 1
        s = self.open(rpc(method, params, id))
        got = None
        for m in s.messages():
            if m.get("method") == "elicitation/create":
                self.questions.append(m["params"])
                said = self.answer(m["params"])
                if said is not None:
                    equal(self.post({"jsonrpc": "2.0", "id": m["id"], "result": said}).status, 202)
            elif "method" not in m and m.get("id") == id:
                got = m
        s.close()
        check(got is not None, "no answer")
        return got


def accept(p):
    return {"action": "accept", "content": {"approve": True, "reason": "fine"}}


@test("a denied call is told as such, and what not to do")
def denied():
    c = Client(daemon())
    for tool, args in (("read_file", {"path": "secret.txt"}), ("write_file", {"path": "secret", "content": "x"}),
                       ("edit_file", {"path": "secret", "old_text": "a", "new_text": "b"}),
                       ("search_files", {"pattern": "x", "path": "secret.d"}), ("list_files", {"path": "secret"}),
                       ("download_file", {"path": "./secret"}), ("run_command", {"command": "cat secret.txt"}),
                       ("upload_file", {"path": "/workspace/../workspace/secret", "content_base64": ""})):
        r = result(c.call(tool, **args))
        check(r.get("isError") and "secrets" in text_of(r), f"{tool}: {r}")
        check("Do not try to get around it" in text_of(r), text_of(r))
    a = c.ask("resources/read", {"uri": "sandbox://current/file/workspace/secret"})
    check("error" in a and "secrets" in a["error"]["message"], a)


@test("the client's user is asked, sees all that will run, and approves")
def approved():
    c = Person(daemon(), accept)
    r = result(c.call("run_command", command="touch published && ls"))
    check(not r.get("isError"), r)
    equal(r["structuredContent"]["stdout"], "published\n")
    q = c.questions[0]
    check("touch published && ls" in q["message"] and "it publishes" in q["message"] and "high" in q["message"], q)
    equal(q["requestedSchema"]["required"], ["approve"])
    r = result(c.call("write_file", path="deploy/x", content="the content"))
    check(not r.get("isError"), r)
    check("the content" in c.questions[1]["message"] and "deploy/x" in c.questions[1]["message"], c.questions[1])
    id = result(c.call("start_command", command="touch published; sleep 100"))["structuredContent"]["exec_id"]
    check(id.startswith("ex-"), id)
    equal(len(c.questions), 3, "an approval is for one call")


@test("the question has directory, variables and what is not pinned; what would hide something is asked in the queue only")
def whole():
    c = Person(daemon(), accept)
    r = result(c.call("run_command", command="touch published", cwd="/tmp", env={"COLOUR": "red"}))
    check(c.questions, r)
    message = c.questions[0]["message"]
    for word in ("Directory: /tmp", "Variable: COLOUR=red", "Not pinned: -c", "Not pinned: touch published"):
        check(word in message, f"{word}: {message} {r}")
    posing = "x\nIt runs:\nls\nInput:\nnothing"
    result(c.call("run_command", command=f"touch published\n{posing}", env={"A": posing}))
    lines = c.questions.pop()["message"].splitlines()
    equal([line for line in lines if line in ("It runs:", "ls", "Input:", "nothing")], ["It runs:"], "what is asked about poses as nothing of ours")
    for hidden in "\u202e\u200b\u2066\ufeff":
        r = result(c.call("run_command", command=f"touch published # {hidden}"))
        check(r.get("isError") and "waits for a person" in text_of(r), r)
    equal(len(c.questions), 1, "it was not asked in the client")


@test("declined, unticked, dismissed: nothing runs")
def declined():
    for answer, word in (({"action": "decline"}, "rejected"),
                         ({"action": "accept", "content": {"approve": False, "reason": "not today"}}, "not today"),
                         ({"action": "cancel"}, "waits for a person")):
        c = Person(daemon(), lambda p: answer)
        r = result(c.call("run_command", command="touch published"))
        check(r.get("isError") and word in text_of(r), f"{answer}: {r}")
        equal(result(c.call("run_command", command="ls"))["structuredContent"]["stdout"], "")


@test("without elicitation the call waits, then says what to do; the queue has it")
def queue():
    d = daemon()
    c = Client(d)
    r = result(c.call("run_command", command="touch published"))
    check(r.get("isError") and "approval_id" in text_of(r), r)
    id = text_of(r).split('"approval_id": "')[1].split('"')[0]
    listed = d.get("/v1/approvals").json["approvals"]
    check(any(a["id"] == id and a["status"] == "pending" for a in listed), listed)
    r = result(c.call("run_command", command="touch published", approval_id=id))
    check(r.get("isError"), "a grant that is none")
    equal(d.post(f"/v1/approvals/{id}/approve", {}).status, 200)
    r = result(c.call("run_command", command="touch published; ls", approval_id=id))
    check(r.get("isError"), "another call than the approved one")


@test("approved in the queue: the repeated call runs, once")
def repeated():
    d = daemon()
    c = Client(d)
    r = result(c.call("run_command", command="touch published; ls"))
    id = text_of(r).split('"approval_id": "')[1].split('"')[0]
    equal(d.post(f"/v1/approvals/{id}/approve", {}).status, 200)
    r = result(c.call("run_command", command="touch published; ls", approval_id=id))
    check("structuredContent" in r, r)
    equal(r["structuredContent"]["stdout"], "published\n")
    check(result(c.call("run_command", command="touch published; ls", approval_id=id)).get("isError"), "twice")


@test("approved while the call waits: it goes on by itself")
def while_waiting():
    with with_policy("--mcp-approval-wait", "60s") as d:
        c = Client(d)

        def pending():
            return [a["id"] for a in d.get("/v1/approvals").json["approvals"] if a["status"] == "pending"]

        def approve(question=None):
            wait_for(pending, "the question")
            equal(d.post(f"/v1/approvals/{pending()[0]}/approve", {}).status, 200)
        t = threading.Thread(target=approve)
        t.start()
        r = result(c.call("run_command", command="touch published; ls"))
        t.join()
        equal(r["structuredContent"]["stdout"], "published\n")
        p = Person(d, approve)
        r = result(p.call("run_command", command="touch published; pwd"))
        equal((len(p.questions), r["structuredContent"]["stdout"]), (1, "/workspace\n"),
              "somebody else decides while the client's user is asked")


@test("critical is never asked in a client, and neither is what cannot be shown in full")
def never():
    c = Person(daemon(), accept)
    r = result(c.call("run_command", command="rm -rf x"))
    check(r.get("isError") and not c.questions, r)
    r = result(c.call("run_command", command="touch published #" + "x" * 5000))
    check(r.get("isError") and not c.questions, r)


@test("a cancelled call leaves no question behind in the client")
def cancelled():
    d = daemon()
    c = Client(d, elicitation={})
    s = c.open(rpc("tools/call", {"name": "run_command", "arguments": {"command": "touch published"}}, 500))
    asked = None
    for m in s.messages():
        if m.get("method") == "elicitation/create":
            asked = m["id"]
            c.post(rpc("notifications/cancelled", {"requestId": 500}))
            break
    check(asked is not None, "asked")
    s.close()
    equal(result(c.call("run_command", command="ls"))["structuredContent"]["stdout"], "")


@test("keys: what is another's is not there; who asks does not approve, and is not asked")
def keys():
    token = "t" * 32
    with with_policy("--mcp-approval-wait", "60s", "--auth-token", token) as d:
        d.token = token

        def key(name, *roles):
            a = d.post("/v1/keys", {"name": name, "roles": list(roles)})
            equal(a.status, 201, a)
            return {"Authorization": "Bearer " + a.json["secret"]}
        one, two, boss = key("one", "agent", "approver"), key("two", "agent"), key("boss", "approver")
        a, b = Client(d, headers=one, elicitation={}), Client(d, headers=two)
        made = result(a.call("run_command", command="echo mine > f"))["structuredContent"]
        for tool, args in (("run_command", {"command": "cat f"}), ("read_file", {"path": "f"}), ("destroy_sandbox", {}),
                           ("read_output", {"exec_id": made["exec_id"]}), ("stop_command", {"exec_id": made["exec_id"]})):
            r = result(b.call(tool, sandbox=made["sandbox_id"], **args))
            check(r.get("isError") and "there is no sandbox" in text_of(r), f"{tool}: {r}")
        uri = f"sandbox://{made['sandbox_id']}/file/workspace/f"
        equal(b.ask("resources/read", {"uri": uri})["error"]["code"], -32002)
        equal(result(b.call("list_sandboxes"))["structuredContent"]["sandboxes"], [])
        equal(d.request("POST", "/mcp", json.dumps(rpc("tools/list", {}, 9)),
                        headers=dict(b.all_headers(), **{"Mcp-Session-Id": a.id})).status, 404, "another's session")
        equal(mcp_post(d, hello(), headers=boss).status, 403, "an approver runs nothing")

        def decide():
            find = lambda: [x["id"] for x in d.get("/v1/approvals", headers=boss).json["approvals"] if x["status"] == "pending"]
            wait_for(find, "the question")
            equal(d.post(f"/v1/approvals/{find()[0]}/approve", {}, headers=one).status, 403, "who asked")
            equal(d.post(f"/v1/approvals/{find()[0]}/approve", {}, headers=boss).status, 200)
        t = threading.Thread(target=decide)
        t.start()
        s = a.open(rpc("tools/call", {"name": "run_command", "arguments": {"command": "touch published; ls"}}, 700))
        messages = list(s.messages())
        t.join()
        check(not any(m.get("method") == "elicitation/create" for m in messages), messages)
        equal(messages[-1]["result"]["structuredContent"]["stdout"], "f\npublished\n")


@test("over stdio nobody else can approve, and the model is told so at once")
def alone():
    path = os.path.join(tempfile.mkdtemp(prefix="mas-policy-"), "policy.yaml")
    with open(path, "w") as f:
        f.write(POLICY)
    with Stdio("--policy-file", path) as s:
        s.send(rpc("tools/call", {"name": "run_command", "arguments": {"command": "touch published"}}, 1))
        r = result(s.next())
        check(r.get("isError") and "no person can approve" in text_of(r), r)


@test("over stdio a question makes few progress notes, and ends with the input, not with the grace")
def asked_over_stdio():
    path = os.path.join(tempfile.mkdtemp(prefix="mas-policy-"), "policy.yaml")
    with open(path, "w") as f:
        f.write(POLICY)
    with Stdio("--policy-file", path, "--shutdown-grace", "1h", elicitation={}) as s:
        s.send(rpc("tools/call", {"name": "run_command", "arguments": {"command": "touch published"},
                                  "_meta": {"progressToken": "p"}}, 1))
        started = time.monotonic()
        while s.next().get("method") != "elicitation/create":
            pass
        time.sleep(1.5)
        waited = time.monotonic() - started
        check(s.got.qsize() <= 3 + waited, f"{s.got.qsize()} messages in {waited:.1f} s")
        equal(s.close(), 0, "nobody will answer")
        rest = [json.loads(line) for line in iter(lambda: s.got.get(timeout=60), None)]
        r = result([m for m in rest if m.get("id") == 1][0])
        check(r.get("isError") and "no person can approve" in text_of(r), r)


main()
