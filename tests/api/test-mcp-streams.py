#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""MCP: answers that are streams, readers that go and come back or do not read, what the server asks a
client, cancelling, and stdin and stdout."""
import os
import signal
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from mcp import *

FLAGS = ("--blanks", "0", "--mcp-stream-after", "100ms")


def daemon():
    return shared_daemon(*FLAGS, command=[FIXTURES])


def call(tool, id=1, token=None, **arguments):
    params = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return rpc("tools/call", params, id)


def control_pid(d):
    return d.get("/v1/status").json["pid"]


def memory(pid):
    return resident_kib(pid) << 10


# --- streams

@test("a quick answer is JSON, a slow one a stream that begins with an id to come back with")
def test_a_quick_answer_is_json_a_slow_one_a_stream():
    c = Client(daemon())
    s = c.open(call("test_simple_text"))
    equal((s.status, s.type), (200, "application/json"))
    s = c.open(call("test_sleep", ms=300))
    equal((s.status, s.type), (200, "text/event-stream"))
    events = list(s.events())
    equal([e[1] for e in events], ["1000", None], "retry")
    equal((events[0][2], events[1][2]["result"]["content"][0]["text"]), (None, "Done."))
    check(all(e[0] for e in events) and events[0][0] != events[1][0], "ids")
    old = Client(daemon(), "2025-06-18").open(call("test_sleep", ms=300))
    equal(len(list(old.events())), 1, "clients before 2025-11-25 do not know events without data")


@test("progress and logs come before the answer, as far as they were asked for")
def test_progress_and_logs_come_before_the_answer_as_far():
    c = Client(daemon())
    for token in ("t", 7):
        got = list(c.open(call("test_tool_with_progress", token=token)).messages())
        equal([m["params"]["progress"] for m in got[:-1]], [0, 50, 100])
        check(all(m["params"]["progressToken"] == token and m["params"]["total"] == 100 for m in got[:-1]), got)
    equal(len(list(c.open(call("test_tool_with_progress")).messages())), 1, "no token, no progress")
    equal(len(list(c.open(call("test_tool_with_logging")).messages())), 4)
    equal(c.ask("logging/setLevel", {"level": "warning"})["result"], {})
    equal(len(list(c.open(call("test_tool_with_logging")).messages())), 1)


@test("a reader that left in the middle comes back for exactly the rest, more than once")
def test_a_reader_that_left_in_the_middle_comes_back():
    c = Client(daemon())
    s = c.open(call("test_tool_with_logging"))
    events = s.events()
    first = [next(events), next(events)]
    s.close()
    time.sleep(0.3)
    for _ in range(2):
        rest = list(c.listen(after=first[-1][0]).events())
        equal([e[2].get("method", "answer") for e in rest], ["notifications/message"] * 2 + ["answer"])
        equal([e[2]["params"]["data"] for e in rest[:2]], ["Tool processing data", "Tool execution completed"])
    whole = list(c.listen(after=first[0][0]).events())
    equal(len(whole), 4, "after the first event")
    equal(list(c.listen(after=whole[-1][0]).events()), [], "after the last one there is nothing")


@test("a tool may send its client away, the answer waits")
def test_a_tool_may_send_its_client_away_the_answer_waits():
    c = Client(daemon())
    s = c.open(call("test_reconnection"))
    equal([e[2] for e in s.events()], [None])
    equal([m["result"]["content"][0]["text"] for m in c.listen(after=s.last_id).messages()], ["Done."])


@test("ids of no stream, of other sessions and of finished ones are refused")
def test_ids_of_no_stream_of_other_sessions():
    with Daemon(*FLAGS, "--mcp-replay-ttl", "1s", command=[FIXTURES]) as d:
        c, other = Client(d), Client(d)
        s = c.open(call("test_sleep", ms=150))
        equal(len(list(s.events())), 2)
        for after in ("x", "1", "-", "1-99999", "99-0", "1-0-0", "1 -0", "18446744073709551616-0", "9" * 40, "-1-1"):
            equal(c.listen(after=after).status, 400, after)
        equal(other.listen(after=s.last_id).status, 400, "another session")
        equal(c.listen(after=s.last_id).status, 200)
        wait_for(lambda: c.listen(after=s.last_id).status == 400, "it is forgotten")


@test("what belongs to no call goes to the stream of a GET")
def test_what_belongs_to_no_call_goes_to_the_stream():
    c = Client(daemon())
    s = c.listen()
    equal((s.status, s.type), (200, "text/event-stream"))
    events = s.events()
    equal(next(events)[2], None)
    c.call("test_touch")
    equal(next(events)[2]["method"], "notifications/resources/list_changed", "not subscribed")
    c.ask("resources/subscribe", {"uri": "test://watched-resource"})
    c.call("test_touch")
    equal(next(events)[2]["params"], {"uri": "test://watched-resource"})
    next(events)
    last = s.last_id
    s.close()
    c.call("test_touch")
    again = c.listen(after=last)
    messages = again.messages()
    equal(next(messages)["method"], "notifications/resources/updated", "sent meanwhile")
    next(messages)
    second = c.listen()
    equal(list(messages), [], "a second reader takes the stream over")
    c.ask("resources/unsubscribe", {"uri": "test://watched-resource"})
    c.call("test_touch")
    equal(next(second.messages())["method"], "notifications/resources/list_changed")
    c.end()
    equal(list(second.messages()), [], "it ends with its session")


@test("a quiet stream shows that it lives")
def test_a_quiet_stream_shows_that_it_lives():
    with Daemon(*FLAGS, "--mcp-keepalive", "1s", command=[FIXTURES]) as d:
        s = Client(d).listen()
        lines = [s.response.readline() for _ in range(6)]
        check(b":\n" in lines, lines)


# --- cancelling, and ends

@test("a cancelled call stops, has no answer, and its id is free")
def test_a_cancelled_call_stops_has_no_answer_and_its_id():
    c = Client(daemon())
    for id in (5, "five", 123456789012345678901234567890):
        s = c.open(call("test_sleep", id=id, ms=600000))
        equal(c.post(rpc("notifications/cancelled", {"requestId": "other"})).status, 202)
        equal(c.post(rpc("notifications/cancelled", {"requestId": id, "reason": "enough"})).status, 202)
        equal([e[2] for e in s.events()], [None], "no answer")
        equal(c.ask("ping", id=id)["result"], {})


@test("a client that loses its connection has not cancelled, one that ends its session has")
def test_a_client_that_loses_its_connection():
    c = Client(daemon())
    s = c.open(call("test_sleep", ms=400))
    priming = next(s.events())
    s.close()
    time.sleep(0.5)
    equal([m["result"]["content"][0]["text"] for m in c.listen(after=priming[0]).messages()], ["Done."])
    s = c.open(call("test_sleep", id=2, ms=600000))
    c.end()
    equal([e[2] for e in s.events()], [None])


@test("SIGTERM does not wait for readers, and not for long for calls")
def test_sigterm_does_not_wait_for_readers():
    d = Daemon(*FLAGS, "--shutdown-grace", "1s", command=[FIXTURES]).start()
    try:
        c = Client(d)
        s, busy = c.listen(), c.open(call("test_sleep", ms=600000))
        started = time.time()
        equal(d.stop(), 0)
        check(time.time() - started < 60, "it took long")
        equal([m for m in list(s.messages()) + list(busy.messages())], [])
    finally:
        d.__exit__()


@test("a new control plane knows no session, and says so")
def test_a_new_control_plane_knows_no_session_and_says():
    with Daemon(*FLAGS, command=[FIXTURES]) as d:
        c = Client(d)
        os.kill(control_pid(d), signal.SIGKILL)

        def gone():
            try:
                return c.post(rpc("ping", id=1)).status == 404
            except OSError:
                return False
        wait_for(gone, "404")
        equal(Client(d).call("test_simple_text")["result"]["content"][0]["type"], "text")


# --- what the server asks

def answer(c, message, **what):
    return c.post({"jsonrpc": "2.0", "id": message["id"], **what})


@test("sampling and elicitation: asked on the call's stream, answered by a message")
def test_sampling_and_elicitation_asked_on_the_call():
    c = Client(daemon(), sampling={}, elicitation={})
    messages = c.open(call("test_sampling", prompt="why?")).messages()
    asked = next(messages)
    equal((asked["method"], asked["params"]["messages"][0]["content"]["text"]), ("sampling/createMessage", "why?"))
    equal(answer(c, asked, result={"role": "assistant", "content": {"type": "text", "text": "because"}, "model": "m"}).status, 202)
    equal(next(messages)["result"]["content"][0]["text"], "LLM response: because")
    messages = c.open(call("test_elicitation", message="who?")).messages()
    asked = next(messages)
    equal(asked["method"], "elicitation/create")
    equal(answer(c, {"id": asked["id"] + 1000}, result={}).status, 202, "an answer to nothing")
    answer(c, asked, result={"action": "decline"})
    check("action=decline" in next(messages)["result"]["content"][0]["text"], "decline")


@test("a client that refuses, answers nonsense, cannot, or does not answer")
def test_a_client_that_refuses_answers_nonsense_cannot():
    with Daemon(*FLAGS, "--mcp-client-timeout", "1s", command=[FIXTURES]) as d:
        c = Client(d, sampling={})
        for reply, word in (({"error": {"code": -1, "message": "no, thanks"}}, "no, thanks"),
                            ({"error": {}}, "error"), ({"result": [1]}, "not an object"), ({"result": None}, "not an object")):
            messages = c.open(call("test_sampling", prompt="?")).messages()
            answer(c, next(messages), **reply)
            r = next(messages)["result"]
            check(r["isError"] and word in r["content"][0]["text"], r)
        r = c.call("test_elicitation", message="?")["result"]
        check(r["isError"] and "does not support" in r["content"][0]["text"], r)
        messages = c.open(call("test_sampling", prompt="?")).messages()
        asked = next(messages)
        equal((lambda m: (m["method"], m["params"]))(next(messages)), ("notifications/cancelled", {"requestId": asked["id"]}))
        check("mcp_client_timeout" in next(messages)["result"]["content"][0]["text"], "late")
        only_urls = Client(d, elicitation={"url": {}})
        check(only_urls.call("test_elicitation", message="?")["result"]["isError"], "forms were not offered")


@test("cancelling a call takes back what it asked")
def test_cancelling_a_call_takes_back_what_it_asked():
    c = Client(daemon(), sampling={})
    messages = c.open(call("test_sampling", prompt="?")).messages()
    asked = next(messages)
    c.post(rpc("notifications/cancelled", {"requestId": 1}))
    equal(list(messages)[0]["params"], {"requestId": asked["id"]})
    equal(answer(c, asked, result={"content": {}}).status, 202)


# --- slow readers

@test("readers that do not read cost a bounded amount, and nobody else waits for them")
def test_readers_that_do_not_read_cost_a_bounded_amount():
    with Daemon(*FLAGS, "--mcp-queue-bytes", "64Ki", "--mcp-buffer-total-bytes", "8Mi", "--max-write-queue", "64Ki",
                "--write-timeout", "2s", "--mcp-replay-ttl", "1s", command=[FIXTURES]) as d:
        pid = control_pid(d)
        clients = [Client(d) for _ in range(20)]
        before, slow = memory(pid), []
        for c in clients:
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", d.port))
            body = json.dumps(call("test_flood", bytes=50000, logs=20000))  # 1 GB, if all of it were kept
            head = "".join(f"{k}: {v}\r\n" for k, v in c.all_headers().items())
            s.sendall(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            slow.append(s)
        quick = Client(d)
        equal(quick.call("test_simple_text")["result"]["content"][0]["type"], "text")
        grown = memory(pid) - before
        allowed = (512 if "asan" in proc_text(pid, "maps") else 64) * 1024 * 1024  # a sanitizer keeps what is freed
        check(grown < allowed, f"{grown} bytes for 20 readers")
        time.sleep(3.5)
        equal(quick.ask("ping")["result"], {})
        for s in slow:
            s.close()


@test("a session keeps no more sent events than it may")
def test_a_session_keeps_no_more_sent_events():
    with Daemon(*FLAGS, "--mcp-replay-bytes", "64Ki", command=[FIXTURES]) as d:
        c = Client(d)
        streams = []
        for i in range(8):
            s = c.open(call("test_flood", id=i, bytes=20000, logs=1))
            streams.append(list(s.events()))
            equal(len(streams[-1]), 3)
        kept = [c.listen(after=e[0][0]).status for e in streams]
        equal((kept[0], kept[-1]), (400, 200))
        check(1 <= kept.count(200) <= 3, kept)


# --- stdin and stdout

@test("stdio: the same protocol, nothing else on stdout, and its own end")
def test_stdio_the_same_protocol_nothing_else_on_stdout():
    with Stdio(sampling={}) as io:
        equal(io.hello["protocolVersion"], NEWEST)
        io.send(call("test_tool_with_progress", id="p", token=1))
        equal([io.next().get("method", "answer") for _ in range(4)], ["notifications/progress"] * 3 + ["answer"])
        io.send(call("test_sampling", id="s", prompt="?"))
        asked = io.next()
        io.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": {"type": "text", "text": "yes"}}})
        equal(io.next()["result"]["content"][0]["text"], "LLM response: yes")
        io.send(rpc("resources/subscribe", {"uri": "test://watched-resource"}, 1))
        io.send(call("test_touch", id=2))
        equal([io.next().get("method") for _ in range(4)][1], "notifications/resources/updated")
        io.send(call("test_sleep", id="long", ms=600000))
        io.send(rpc("notifications/cancelled", {"requestId": "long"}))
        io.raw(b"\n  \n")
        io.send(call("test_sleep", id="last", ms=300))
        equal(io.close(), 0)
        equal(io.next()["id"], "last", "what runs when the input ends is answered")
        equal(io.got.get(timeout=60), None)


@test("stdio: initialize comes first, batches only where there are any, long lines are refused")
def test_stdio_initialize_comes_first_batches():
    with Stdio("--mcp-max-message-bytes", "4Ki", revision=None) as io:
        for message, want in ((rpc("tools/list", id=1), -32600), ([rpc("ping", id=1)], -32600), (rpc("nope", id=1), -32601)):
            io.send(message)
            equal(io.next()["error"]["code"], want, str(message))
        io.send(rpc("ping", id=2))
        equal(io.next()["result"], {})
        io.send(hello("2025-03-26"))
        equal(io.next()["result"]["protocolVersion"], "2025-03-26")
        io.send([call("test_sleep", id=1, ms=50), rpc("notifications/none"), rpc("ping", id=2)])
        equal(sorted(m["id"] for m in io.next()), [1, 2])
        io.raw(b'{"jsonrpc":"2.0","id":3,"method":"' + b"x" * 200000 + b'"}\n')
        check("mcp_max_message_bytes" in io.next()["error"]["message"], "long")
        io.send(rpc("ping", id=4))
        equal(io.next()["result"], {})


@test("stdio: SIGTERM ends it, and so does a reader that went away")
def test_stdio_sigterm_ends_it_and_so_does_a_reader():
    with Stdio() as io:
        io.send(call("test_sleep", ms=600000))
        io.p.terminate()
        equal(io.p.wait(60), 0)
    p = subprocess.Popen([FIXTURES, "-mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    p.stdout.close()
    p.stdin.write(json.dumps(hello()).encode() + b"\n")
    p.stdin.flush()
    equal(p.wait(60), 0)
    p.stdin.close()


@test("stdio: a client that is gone altogether is not waited for, whatever runs")
def test_stdio_a_client_that_is_gone_altogether():
    p = subprocess.Popen([FIXTURES, "-mcp", "--shutdown-grace", "1h"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for message in (hello(), call("test_sleep", id="long", ms=600000), rpc("ping", id=2)):
        p.stdin.write(json.dumps(message).encode() + b"\n")
    p.stdin.flush()
    equal([json.loads(p.stdout.readline())["id"] for _ in range(2)], [0, 2])
    p.stdin.close()
    p.stdout.close()
    try:
        equal(p.wait(PATIENCE_S), 0)
    finally:
        p.kill()


@test("stdio: a reader that does not read holds up its own input, and gets everything")
def test_stdio_a_reader_that_does_not_read_holds_up():
    p = subprocess.Popen([FIXTURES, "-mcp", "--mcp-queue-bytes", "64Ki"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    n = 300

    def write():
        p.stdin.write(json.dumps(hello()).encode() + b"\n")
        for i in range(n):
            p.stdin.write(json.dumps(call("test_flood", id=i + 1, bytes=20000)).encode() + b"\n")
        p.stdin.close()
    t = threading.Thread(target=write)
    t.start()
    time.sleep(1)
    ids = [json.loads(line)["id"] for line in p.stdout]
    t.join()
    equal(ids, list(range(n + 1)))
    equal(p.wait(60), 0)


main()
