#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The sandbox as MCP tools: every tool, what a model is told, limits, cancel, resources, prompt."""
import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from mcp import *


def daemon():
    return shared_daemon("--mcp-session-ttl", "30m")


_clients = []


def client(**kw):
    c = Client(daemon(), **kw)
    _clients.append(c)
    return c


def result(answer):
    check("result" in answer, answer)
    return answer["result"]


def good(answer):
    r = result(answer)
    check(not r.get("isError"), r)
    return r["structuredContent"]


def bad(answer):
    r = result(answer)
    check(r.get("isError"), r)
    return text_of(r)


def text_of(r):
    return "\n".join(c["text"] for c in r["content"])


@test("every tool has a title, a description, strict schemas and annotations")
def listing():
    tools = result(client().ask("tools/list"))["tools"]
    names = [t["name"] for t in tools]
    equal(sorted(names), sorted(["run_command", "run_code", "start_command", "read_output", "send_input",
          "stop_command", "read_file", "write_file", "edit_file", "list_files", "search_files", "upload_file",
          "download_file", "create_sandbox", "list_sandboxes", "destroy_sandbox", "list_runtimes"]))
    for t in tools:
        check(t["title"] and len(t["description"]) > 40, t["name"])
        equal(t["inputSchema"]["additionalProperties"], False, t["name"])
        equal(t["outputSchema"]["additionalProperties"], False, t["name"])
        for name, p in t["inputSchema"]["properties"].items():
            check(p.get("description"), f"{t['name']}.{name} is not described")
        check("readOnlyHint" in t["annotations"], t["name"])


@test("a command: exit code, both streams, and files that stay")
def commands():
    c = client()
    a = good(c.call("run_command", command="echo out; echo err >&2; echo kept > f; exit 3"))
    equal((a["exit_code"], a["stdout"], a["stderr"], a["status"]), (3, "out\n", "err\n", "completed"))
    r = result(c.call("run_command", command="cat f; pwd"))
    equal(r["structuredContent"]["stdout"], "kept\n/workspace\n")
    check("kept" in text_of(r) and "[exit code 0]" in text_of(r), text_of(r))
    a = good(c.call("run_command", command="cat; echo $A; pwd", stdin="in ", env={"A": "b"}, cwd="/tmp"))
    equal(a["stdout"], "in b\n/tmp\n")
    a = good(c.call("run_code", language="python", code="print(6*7)"))
    equal(a["stdout"], "42\n")
    other = client()
    a = good(other.call("run_command", command="ls /workspace"))
    equal(a["stdout"], "", "another session has another sandbox")


@test("bad arguments are refused by name before anything runs")
def arguments():
    c = client()
    for tool, args, want in (("run_command", {}, "command"), ("run_command", {"command": 1}, "command"),
                             ("run_command", {"command": "x", "shell": "y"}, "shell"),
                             ("run_code", {"language": "cobol", "code": "x"}, "language"),
                             ("run_command", {"command": "true", "timeout_s": -1}, "timeout_s"),
                             ("read_output", {"exec_id": ""}, "exec_id")):
        a = c.call(tool, **args)
        text = text_of(a["result"]) if "result" in a else a["error"]["message"]
        check("error" in a or a["result"].get("isError"), a)
        check(want in text, text)
    equal(c.call("no_such_tool")["error"]["code"], -32602)


@test("long output is head and tail, and the rest can be read")
def long_output():
    c = client()
    r = result(c.call("run_command", command="seq 1 100000; seq 1 5 >&2"))
    a = r["structuredContent"]
    check(a["truncated"] and len(a["stdout"]) < 17000, len(a["stdout"]))
    check(a["stdout"].startswith("1\n2\n") and a["stdout"].endswith("99999\n100000\n"), "head and tail")
    check("read_output" in text_of(r) and a["exec_id"] in text_of(r), "how to read the rest")
    offset = int(text_of(r).split("and offset ")[1].split()[0])
    got, offset = a["stdout"][:offset], offset
    while True:
        part = good(c.call("read_output", exec_id=a["exec_id"], offset=offset, max_bytes=100000))
        got += part["text"]
        offset = part["next_offset"]
        if part["end"]:
            break
    equal(got, "".join(f"{i}\n" for i in range(1, 100001)))
    equal(good(c.call("read_output", exec_id=a["exec_id"], stream="stderr"))["text"], "1\n2\n3\n4\n5\n")
    few = good(c.call("run_command", command="seq 1 1000", max_output_bytes=256))
    check(few["truncated"] and len(few["stdout"]) < 400, len(few["stdout"]))


@test("a character is never cut in half by an offset")
def characters():
    c = client()
    a = good(c.call("run_code", language="python", code="print('ä' * 3000)", max_output_bytes=300))
    part = good(c.call("read_output", exec_id=a["exec_id"], max_bytes=1001))
    equal((part["text"], part["next_offset"]), ("ä" * 500, 1000))


@test("a time limit ends the command and says what to do")
def timeout():
    r = result(client().call("run_command", command="echo before; sleep 60", timeout_s=0.5))
    check(r["isError"], r)
    equal(r["structuredContent"]["status"], "timed_out")
    check("before" in text_of(r) and "start_command" in text_of(r), text_of(r))


@test("a long command: started, followed, fed, stopped")
def long_command():
    c = client()
    a = good(c.call("start_command", command="while read x; do echo got $x; done; echo bye"))
    equal(a["status"], "running")
    id = a["exec_id"]
    good(c.call("send_input", exec_id=id, text="one\n"))
    part = good(c.call("read_output", exec_id=id, wait_s=10))
    equal((part["text"], part["end"]), ("got one\n", False))
    good(c.call("send_input", exec_id=id, text="two\n", close=True))
    text, offset = "", part["next_offset"]
    for _ in range(20):
        part = good(c.call("read_output", exec_id=id, offset=offset, wait_s=10))
        text, offset = text + part["text"], part["next_offset"]
        if part["end"]:
            break
    equal((text, part["status"], part["exit_code"]), ("got two\nbye\n", "completed", 0))
    check("read" in bad(c.call("send_input", exec_id=id, text="x")), "input of one that ended")
    id = good(c.call("start_command", command="sleep 1000"))["exec_id"]
    a = good(c.call("stop_command", exec_id=id))
    equal(a["status"], "canceled")
    equal(good(c.call("stop_command", exec_id=id))["status"], "canceled", "twice")
    message = bad(c.call("read_output", exec_id="ex-none"))
    check(id in message, f"an unknown id is answered with known ones: {message}")
    id = good(c.call("start_command", command="trap 'echo usr; exit 0' USR1; echo up; while :; do sleep 0.05; done"))["exec_id"]
    good(c.call("read_output", exec_id=id, wait_s=10))
    good(c.call("stop_command", exec_id=id, signal="USR1"))
    part = good(c.call("read_output", exec_id=id, offset=3, wait_s=10))
    equal(part["text"], "usr\n")


@test("files: written, read in parts, edited exactly, listed, searched")
def files():
    c = client()
    good(c.call("write_file", path="src/a.py", content="def f():\n    return 1\n\nprint(f())\n"))
    a = good(c.call("read_file", path="src/a.py", start_line=2, max_lines=1))
    equal((a["text"], a["end_line"], a["total_lines"], a["next_line"]), ("    return 1\n", 2, 4, 3))
    a = good(c.call("edit_file", path="src/a.py", old_text="return 1", new_text="return 2"))
    equal((a["replacements"], a["line"]), (1, 2))
    equal(good(c.call("run_command", command="python3 src/a.py"))["stdout"], "2\n")
    check("times" in bad(c.call("edit_file", path="src/a.py", old_text="f()", new_text="g()")), "twice")
    message = bad(c.call("edit_file", path="src/a.py", old_text="nothing", new_text="x"))
    check("not in the file" in message and "Read the file again" in message, message)
    good(c.call("write_file", path="run.sh", content="#!/bin/sh\necho ran\n", executable=True))
    equal(good(c.call("run_command", command="./run.sh"))["stdout"], "ran\n")
    good(c.call("write_file", path="run.sh", content="echo more\n", append=True))
    equal(good(c.call("write_file", path="empty", content=""))["bytes"], 0)
    equal(good(c.call("read_file", path="empty"))["text"], "")
    a = good(c.call("list_files", recursive=True))
    equal({e["path"].removeprefix("./") for e in a["entries"]}, {"src", "src/a.py", "run.sh", "empty"})
    check(good(c.call("list_files", max_entries=1))["truncated"], "a limit")
    a = good(c.call("search_files", pattern="ret.rn [0-9]+", glob="*.py"))
    equal([(m["path"].removeprefix("./"), m["line"]) for m in a["matches"]], [("src/a.py", 2)])
    check("regular expression" in bad(c.call("search_files", pattern="(")), "a bad pattern")
    check("list_files" in bad(c.call("read_file", path="no/such")), "what to do")
    check("/workspace" in bad(c.call("write_file", path="/etc/passwd", content="x")), "a read-only place")
    check("download_file" in bad(c.call("read_file", path="/bin/sh")), "a binary file")


@test("bytes go in and out exactly, in parts, within a limit")
def transfer():
    c = client()
    data = bytes(range(256)) * 300
    good(c.call("upload_file", path="b.bin", content_base64=base64.b64encode(data[:50000]).decode()))
    good(c.call("upload_file", path="b.bin", content_base64=base64.b64encode(data[50000:]).decode(), append=True))
    got, offset = b"", 0
    while True:
        a = good(c.call("download_file", path="b.bin", offset=offset, max_bytes=33333))
        got, offset = got + base64.b64decode(a["content_base64"]), a["next_offset"]
        if a["end"]:
            break
    equal(got, data)
    whole = good(c.call("download_file", path="b.bin"))
    equal((base64.b64decode(whole["content_base64"]), whole["end"]), (data, True))
    check("base64" in bad(c.call("upload_file", path="x", content_base64="???")), "no base64")
    big = base64.b64encode(b"x" * (2 * 1024 * 1024 + 1)).decode()
    check("append" in bad(c.call("upload_file", path="x", content_base64=big)), "over the limit")
    check("next_offset" in bad(c.call("download_file", path="b.bin", max_bytes=1 << 29)), "over the limit")


@test("sandboxes: made, chosen, listed, destroyed; runtimes")
def sandboxes():
    c = client()
    own = good(c.call("run_command", command="echo mine > f"))["sandbox_id"]
    r = good(c.call("list_runtimes"))
    check(any(x["name"] == r["default"] and x["available"] for x in r["runtimes"]), r)
    a = good(c.call("create_sandbox", name="other", runtime=r["default"], memory_mb=128))
    equal((a["id"], a["current"], a["effective"]["memory"]["limit_mb"]), ("sbx-other", True, 128))
    equal(good(c.call("run_command", command="ls"))["stdout"], "")
    found = good(c.call("list_sandboxes"))["sandboxes"]
    equal([s["id"] for s in found if s["current"]], ["sbx-other"])
    equal(good(c.call("run_command", command="cat f", sandbox=own))["stdout"], "mine\n", "the first one")
    good(c.call("destroy_sandbox", sandbox="sbx-other"))
    equal(good(c.call("run_command", command="cat f"))["stdout"], "mine\n", "back in the session's own")
    check("none-such" in bad(c.call("create_sandbox", runtime="none-such")), "no such runtime")
    check("none-such" in bad(c.call("create_sandbox", image="none-such")), "no such image")
    if os.path.exists(BUILD + "/default-image.tar"):
        for _ in range(2):  # fetched, then known
            a = good(c.call("create_sandbox", image="default"))
            equal((a["image"], len(a["image_digest"])), ("default", 64))
            check("Debian" in good(c.call("run_command", command="cat /etc/os-release"))["stdout"], "the image's")
            good(c.call("destroy_sandbox", sandbox="current"))
    check("list_sandboxes" in bad(c.call("run_command", command="true", sandbox="sbx-none")), "unknown")
    good(c.call("destroy_sandbox", sandbox="current"))
    a = result(c.call("run_command", command="ls"))
    equal((a["structuredContent"]["stdout"], len(a["content"])), ("", 1), "a new one, no complaint")


@test("a sandbox that died is replaced, and the model is told")
def death():
    c = client()
    a = good(c.call("run_command", command="echo x > f"))
    equal(daemon().delete("/v1/sandboxes/" + a["sandbox_id"]).status, 200)
    r = result(c.call("run_command", command="ls"))
    equal(r["structuredContent"]["stdout"], "")
    check("is gone" in r["content"][0]["text"] and a["sandbox_id"] in r["content"][0]["text"], r)
    check(len(result(c.call("run_command", command="ls"))["content"]) == 1, "told once")


@test("the sandbox goes with the session")
def session_end():
    c = client()
    id = good(c.call("run_command", command="true"))["sandbox_id"]
    equal(daemon().get("/v1/sandboxes/" + id).status, 200)
    c.end()
    wait_for(lambda: daemon().get("/v1/sandboxes/" + id).status == 404, "the sandbox is deleted")


@test("progress: what the command prints while it runs")
def progress():
    c = client()
    s = c.open(rpc("tools/call", {"name": "run_command", "_meta": {"progressToken": "p"},
                                  "arguments": {"command": "for i in 1 2 3; do echo step $i; sleep 0.6; done"}}, 77))
    said, numbers, final = "", [], None
    for m in s.messages():
        if m.get("method") == "notifications/progress":
            equal(m["params"]["progressToken"], "p")
            said += m["params"].get("message", "")
            numbers.append(m["params"]["progress"])
        elif m.get("id") == 77:
            final = m
    check(all(f"step {i}" in said for i in (1, 2, 3)), said)
    check(numbers == sorted(set(numbers)) and len(numbers) >= 3, numbers)
    equal(good(final)["stdout"], "step 1\nstep 2\nstep 3\n")


@test("a cancelled call ends all that its command started")
def cancel():
    c = client()
    good(c.call("run_command", command="true"))
    s = c.open(rpc("tools/call", {"name": "run_command", "_meta": {"progressToken": 1},
                                  "arguments": {"command": "trap '' TERM; setsid sleep 4321 & echo up; while :; do sleep 0.1; done"}}, 905))
    for m in s.messages():
        if "up" in m.get("params", {}).get("message", ""):
            break
    running = "ps ax -o args | grep -c '^sleep 4321'; true"
    equal(good(c.call("run_command", command=running))["stdout"].strip(), "1")
    equal(c.post(rpc("notifications/cancelled", {"requestId": 905})).status, 202)
    s.close()
    wait_for(lambda: good(c.call("run_command", command=running))["stdout"].strip() == "0", "all is dead")


@test("resources: files and logs by template, completion, subscription")
def resources():
    c = client()
    good(c.call("write_file", path="a b.json", content="{}"))
    good(c.call("run_code", language="python", code="open('bin','wb').write(bytes([0,255]))"))
    read = lambda uri: c.ask("resources/read", {"uri": uri})
    a = result(read("sandbox://current/file/workspace/a%20b.json"))["contents"][0]
    equal((a["text"], a["mimeType"]), ("{}", "application/json"))
    a = result(read("sandbox://current/file/workspace/bin"))["contents"][0]
    equal(base64.b64decode(a["blob"]), b"\0\xff")
    equal(read("sandbox://current/file/workspace/none")["error"]["code"], -32002)
    equal(read("sandbox://current/file/workspace/../../etc/passwd")["error"]["code"], -32002)
    equal(read("sandbox://sbx-none/file/workspace/bin")["error"]["code"], -32002)
    id = good(c.call("start_command", command="echo one; read x; echo two"))["exec_id"]
    good(c.call("read_output", exec_id=id, wait_s=10))
    listed = result(c.ask("resources/list"))["resources"]
    uri = [r["uri"] for r in listed if id in r["uri"] and r["uri"].endswith("stdout")][0]
    equal(result(read(uri))["contents"][0]["text"], "one\n")
    templates = result(c.ask("resources/templates/list"))["resourceTemplates"]
    equal(len(templates), 2)
    done = result(c.ask("completion/complete", {"ref": {"type": "ref/resource", "uri": templates[1]["uriTemplate"]},
                                                "argument": {"name": "exec_id", "value": id[:5]},
                                                "context": {"arguments": {"sandbox": "current"}}}))
    check(id in done["completion"]["values"], done)
    stream = c.listen()
    result(c.ask("resources/subscribe", {"uri": uri}))
    check("error" in c.ask("resources/subscribe", {"uri": "sandbox://current/file/workspace/bin"}), "files are not told")
    good(c.call("send_input", exec_id=id, text="\n"))
    for m in stream.messages():
        if m.get("method") == "notifications/resources/updated":
            equal(m["params"]["uri"], uri)
            break
    stream.close()
    wait_for(lambda: result(read(uri))["contents"][0]["text"] == "one\ntwo\n", "the log has grown")


@test("the prompt explains the limits")
def prompt():
    c = client()
    r = result(c.ask("prompts/get", {"name": "sandbox_guide", "arguments": {"task": "count to ten"}}))
    text = r["messages"][0]["content"]["text"]
    for word in ("/workspace", "network", "read_output", "120 s", "count to ten", "approval"):
        check(word in text, word)
    check("sandbox" in c.hello["instructions"], "instructions")


@test("the control plane dies: sessions begin anew, their sandboxes and commands are there by id")
def restart():
    with Daemon() as d:
        c = Client(d)
        made = good(c.call("start_command", command="echo one > f; echo up; read x; echo two"))
        good(c.call("read_output", exec_id=made["exec_id"], wait_s=10))
        d.kill_control()
        equal(c.post(rpc("tools/list", {}, 3)).status, 404, "the session is unknown")
        c = Client(d)
        where = {"sandbox": made["sandbox_id"]}
        equal(good(c.call("run_command", command="cat f", **where))["stdout"], "one\n")
        good(c.call("send_input", exec_id=made["exec_id"], text="\n", **where))
        wait_for(lambda: good(c.call("read_output", exec_id=made["exec_id"], **where))["text"] == "up\ntwo\n", "its output")


@test("without HTTP: a session over stdin and stdout, and its end")
def stdio():
    with Stdio() as s:
        s.send(rpc("tools/call", {"name": "run_command", "arguments": {"command": "echo hi"}}, 1))
        equal(good(s.next())["stdout"], "hi\n")
        equal(s.close(), 0)


main()
