#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""MCP: what is agreed, what is refused and how it is said, and whose sessions are whose.

The tools are the fixtures of the conformance suite, so that it is the protocol that is tested."""
import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from mcp import *

TOKEN = "the-operators-token"


def daemon():
    return shared_daemon("--blanks", "0", command=[FIXTURES])


def code(answer):
    return answer.json["error"]["code"]


def corpus():
    with open(os.path.join(os.path.dirname(__file__), "json-corpus.txt")) as f:
        for line in f:
            if line.startswith("#"):
                continue
            kind, name, text = line.rstrip("\n").split(" ", 2)
            if "*" in text:
                count, _, text = text.partition("*")
                piece, _, rest = text.partition("+")
                data = base64.b64decode(piece) * int(count) + base64.b64decode(rest)
            else:
                data = b"" if text == "-" else base64.b64decode(text)
            yield kind, name, data


# --- what is agreed

@test("every revision is taken as asked for, an unknown one becomes the newest")
def test_every_revision_is_taken_as_asked_for_an_unknown():
    for revision in REVISIONS:
        equal(Client(daemon(), revision).hello["protocolVersion"], revision)
    for revision in ("2099-01-01", "1.0", ""):
        equal(Client(daemon(), revision).hello["protocolVersion"], NEWEST, revision)


@test("initialize says what there is")
def test_initialize_says_what_there():
    h = Client(daemon()).hello
    equal(h["serverInfo"]["name"], "mas-sandbox")
    for name in ("tools", "resources", "prompts", "logging", "completions"):
        check(name in h["capabilities"], name)
    equal(h["capabilities"]["resources"]["subscribe"], True)


@test("what a client says of itself is not kept")
def test_what_a_client_says_of_itself_is_not_kept():
    with Daemon("--blanks", "0", command=[FIXTURES]) as d:
        pid = d.get("/v1/status").json["pid"]
        message = hello(NEWEST)
        message["params"]["clientInfo"]["more"] = "x" * 4_000_000
        text = json.dumps(message)
        for _ in range(5):
            equal(mcp_post(d, text).status, 200)
        before = resident_kib(pid)
        for _ in range(20):
            equal(mcp_post(d, text).status, 200)
        allowed = (300 if "asan" in proc_text(pid, "maps") else 40) * 1024  # a sanitizer keeps what is freed
        check(resident_kib(pid) - before < allowed, f"20 sessions cost {(resident_kib(pid) - before) // 1024} MiB")


@test("an initialize that is wrong makes no session")
def test_an_initialize_that_is_wrong_makes_no_session():
    for params in (None, {}, {"protocolVersion": 1, "capabilities": {}, "clientInfo": {}},
                   {"protocolVersion": NEWEST, "clientInfo": {}},
                   {"protocolVersion": NEWEST, "capabilities": [], "clientInfo": {}},
                   {"protocolVersion": NEWEST, "capabilities": {}}):
        a = mcp_post(daemon(), rpc("initialize", params, 1))
        equal((a.status, code(a)), (200, -32602), str(params))
        check("Mcp-Session-Id" not in a.headers, "a session id")


@test("session ids are visible ASCII, long, and never the same")
def test_session_ids_are_visible_ascii_long_and_never():
    ids = [Client(daemon()).id for _ in range(20)]
    equal(len(set(ids)), 20)
    for i in ids:
        check(len(i) >= 32 and all(0x21 <= ord(c) <= 0x7e for c in i), i)


# --- ids

@test("ids are echoed exactly, whatever their size")
def test_ids_are_echoed_exactly_whatever_their_size():
    c = Client(daemon())
    for id in ("0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
               "123456789012345678901234567890", "-" + "9" * 500, '""', '"x"', '"\\u0000"', '"\\ud83d\\ude00"',
               '"a\\"b\\\\"', '"' + "y" * 900 + '"'):
        a = c.post('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id)
        equal(a.status, 200, a)
        if id.lstrip("-").isdigit():
            check(('"id":%s,' % id).encode() in a.body, f"{id[:40]}: {a}")
        else:
            equal(a.json["id"], json.loads(id))
    a = c.post('{ "id" : 99999999999999999999 , "jsonrpc":"2.0","method":"nope","params":{"id":"99999999999999999999"}}')
    check(b'"id":99999999999999999999,' in a.body and code(a) == -32601, a)


@test("no id can pass for another, whatever else the text has")
def test_no_id_can_pass_for_another_whatever_else():
    big = "99999999999999999999"
    for odd in ("\ue000", "\ue000" + big, "\ue000}", "0", big):
        c = Client(daemon(), revision="2025-03-26")
        text = ('[{"jsonrpc":"2.0","id":%s,"method":"ping"},{"jsonrpc":"2.0","method":"ping","params":{"requestId":%s},"id":%s},'
                '{"jsonrpc":"2.0","id":0,"method":"ping","params":{"a":[{"id":1}]}}]' % (big, big, json.dumps(odd)))
        a = c.post(text)
        equal(a.status, 200, a)
        events = [line[6:] for line in a.body.decode().splitlines() if line.startswith("data: ")]
        answers = json.loads(events[-1]) if events else a.json
        equal([m["id"] for m in answers], [int(big), odd, 0], odd)


@test("a refusal has the id of what it refuses")
def test_a_refusal_has_the_id_of_what_it_refuses():
    c = Client(daemon())
    again = c.post(json.dumps(dict(hello(), id="again")))
    equal((again.status, again.json["id"]), (400, "again"), again)
    d = daemon()
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    for more, status in (({}, 400), ({"Mcp-Session-Id": "none"}, 404)):
        for method in ("ping", "initialize") if more else ("ping",):
            a = d.request("POST", "/mcp", json.dumps(dict(hello(), id=77, method=method)), headers=dict(accept, **more))
            equal((a.status, a.json["id"]), (status, 77), a)


@test("what is no id is refused")
def test_what_is_no_id_is_refused():
    c = Client(daemon())
    for id in ("null", "1.5", "1e3", "true", "[]", "{}", '"' + "z" * 2000 + '"', "9" * 2000):
        a = c.post('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id)
        equal((a.status, code(a), a.json["id"]), (400, -32600, None), id[:20])
    equal(code(c.post('{"jsonrpc":"2.0","id":01234567890123456789012,"method":"ping"}')), -32700)


@test("an id that is under way is not taken twice, and is free afterwards")
def test_an_id_that_is_under_way_is_not_taken_twice():
    c = Client(daemon())
    s = c.open(rpc("tools/call", {"name": "test_sleep", "arguments": {"ms": 700}}, "same"))
    equal(code(c.post(rpc("ping", id="same"))), -32600)
    equal([m["id"] for m in s.messages()], ["same"])
    equal(c.post(rpc("ping", id="same")).json["result"], {})


# --- JSON

@test("the JSON corpus: y is taken, n is refused, i is either")
def test_the_json_corpus_y_is_taken_n_is_refused_i():
    c = Client(daemon())
    seen = {"y": 0, "n": 0, "i": 0}
    for kind, name, data in corpus():
        a = c.post(data)
        parsed = not (a.status == 400 and code(a) == -32700)
        seen[kind] += 1
        if kind == "y" and name != "object_escaped_null_in_key":
            check(parsed, f"{name}: {a}")
        elif kind == "n":
            check(not parsed, f"{name}: {a}")
        check(a.status in (400, 413), f"{name}: {a}")
    equal(seen, {"y": 95, "n": 188, "i": 35})
    equal(c.post(rpc("ping", id=1)).json["result"], {}, "afterwards")


@test("the JSON corpus on stdin: the same, a line each")
def test_the_json_corpus_on_stdin_the_same_a_line_each():
    with Stdio() as io:
        for kind, name, data in corpus():
            if b"\n" in data or not data.strip(b" \t\r"):
                continue
            io.raw(data + b"\n")
            e = io.next()["error"]["code"]
            check(e != -32700 or kind != "y" or name == "object_escaped_null_in_key", f"{name}: {e}")
            check(e == -32700 or kind != "n", f"{name}: {e}")
        io.send(rpc("ping", id="after"))
        equal(io.next()["result"], {})
        equal(io.close(), 0)


# --- JSON-RPC

@test("malformed JSON-RPC gets a code and 400")
def test_malformed_json_rpc_gets_a_code_and_400():
    c = Client(daemon())
    for body, want in (
            ("", -32700), ("{", -32700), ("nul", -32700), ('{"a":1}x', -32700), (b"\xff\xfe", -32700),
            ("null", -32600), ("1", -32600), ('"x"', -32600), ("{}", -32600), ("[]", -32600),
            ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600), ('{"jsonrpc":2,"id":1,"method":"ping"}', -32600),
            ('{"id":1,"method":"ping"}', -32600), ('{"jsonrpc":"2.0","id":1}', -32600),
            ('{"jsonrpc":"2.0","id":1,"method":7}', -32600), ('{"jsonrpc":"2.0","id":1,"method":null}', -32600),
            ('{"jsonrpc":"2.0","id":1,"method":"pi\\u0000ng"}', -32600),
            ('{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600), ('{"jsonrpc":"2.0","result":{}}', -32600),
            ('{"jsonrpc":"2.0","id":1,"error":"x"}', -32600),
            ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
            ('{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', -32602),
            ("[" * 65 + "]" * 65, -32700)):
        a = c.post(body)
        equal((a.status, code(a)), (400, want), str(body)[:60])


@test("unknown methods, tools, prompts, resources and levels are named")
def test_unknown_methods_tools_prompts_resources():
    c = Client(daemon())
    for method, params, want, word in (
            ("nope", None, -32601, "nope"), ("tools", {}, -32601, "tools"), ("", {}, -32601, "method"),
            ("x" * 5000, {}, -32601, "xxx"), ("notifications/initialized", {}, -32601, "notif"),
            ("tools/call", {}, -32602, "name"), ("tools/call", {"name": 1}, -32602, "name"),
            ("tools/call", {"name": "rm"}, -32602, "rm"), ("tools/call", {"name": "test_simple_text\0x"}, -32602, "NUL"),
            ("tools/call", {"name": "test_echo", "arguments": []}, -32602, "arguments"),
            ("prompts/get", {"name": "none"}, -32602, "none"),
            ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "x"}}, -32602, "arg2"),
            ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": 1, "arg2": "x"}}, -32602, "arg1"),
            ("resources/read", {"uri": "test://none"}, -32002, "test://none"),
            ("resources/read", {"uri": "file:///etc/shadow"}, -32002, "shadow"),
            ("resources/read", {"uri": "test://" + "x" * 9000}, -32002, "xxx"), ("resources/read", {}, -32602, "uri"),
            ("resources/subscribe", {"uri": "test://none"}, -32602, "none"),
            ("logging/setLevel", {"level": "loud"}, -32602, "loud"),
            ("completion/complete", {}, -32602, "ref"),
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": "no"}, "argument": {"name": "a", "value": ""}},
             -32602, "no"),
            ("tools/list", {"cursor": "x"}, -32602, "cursor"), ("tools/list", {"cursor": 3}, -32602, "cursor"),
            ("tools/list", {"cursor": "99999"}, -32602, "cursor"), ("tools/list", {"cursor": "-1"}, -32602, "cursor"),
            ("ping", {"_meta": 1}, -32602, "_meta"), ("ping", {"_meta": {"progressToken": {}}}, -32602, "_meta"),
            ("initialize", hello()["params"], -32600, "already")):
        e = c.ask(method, params)["error"] if method != "initialize" else c.post(hello(id=9)).json["error"]
        equal(e["code"], want, f"{method} {str(params)[:80]}")
        check(word in e["message"], f"{method} {str(params)[:80]}: {e}")


@test("wrong arguments: a model reads what to do in the newest revision, a client before")
def test_wrong_arguments_a_model_reads():
    new, old = Client(daemon()), Client(daemon(), "2025-06-18")
    for arguments, word in (({}, "lacks 'text'"), ({"text": 1}, "'arguments.text' must be a string"),
                            ({"text": "x", "more": 1}, "no member 'more'; it takes: text"),
                            ({"text": "a\0b"}, "NUL")):
        r = new.call("test_echo", **arguments)["result"]
        check(r["isError"] and word in r["content"][0]["text"] and "again" in r["content"][0]["text"], r)
        e = old.call("test_echo", **arguments)["error"]
        check(e["code"] == -32602 and word in e["message"], e)
    r = new.call("test_echo", text="\u00e4\u20ac")["result"]
    equal(r["structuredContent"], {"text": "\u00e4\u20ac"})
    equal(json.loads(r["content"][0]["text"]), {"text": "\u00e4\u20ac"})


@test("notifications are taken in silence, wrong ones too")
def test_notifications_are_taken_in_silence_wrong_ones():
    c = Client(daemon())
    for n in (rpc("notifications/initialized"), rpc("notifications/none"), rpc("notifications/cancelled"),
              rpc("notifications/cancelled", {"requestId": 7}), rpc("notifications/cancelled", {"requestId": {}}),
              rpc("notifications/roots/list_changed"), {"jsonrpc": "2.0", "id": 77, "result": {}},
              {"jsonrpc": "2.0", "id": "never", "error": {"code": 1, "message": "x"}}):
        a = c.post(n)
        equal((a.status, a.body), (202, b""), str(n))


@test("batches: in the one revision that has them")
def test_batches_in_the_one_revision_that_has_them():
    batch = [rpc("ping", id=1), rpc("notifications/none"), rpc("nope", id=2), {"jsonrpc": "2.0"},
             rpc("tools/call", {"name": "test_sleep", "arguments": {"ms": 50}}, 3)]
    for revision in REVISIONS:
        c = Client(daemon(), revision)
        a = c.post(batch)
        if revision != "2025-03-26":
            equal((a.status, code(a)), (400, -32600), revision)
            continue
        equal(a.status, 200, a)
        got = {str(m["id"]): m.get("error", {}).get("code") for m in a.json}
        equal(got, {"1": None, "2": -32601, "None": -32600, "3": None})
        equal(c.post([rpc("notifications/none"), rpc("notifications/none")]).status, 202)
        for bad in ([], [rpc("ping", id=i) for i in range(65)]):
            equal((c.post(bad).status, code(c.post(bad))), (400, -32600), str(len(bad)))
        equal([m["error"]["code"] for m in c.post([1, "x", []]).json], [-32600] * 3)
        equal(c.post([hello(id=5)]).json[0]["error"]["code"], -32600)
    a = mcp_post(daemon(), [hello()])
    equal(a.status, 400, "a batch before there is a session")


# --- HTTP

@test("what HTTP refuses")
def test_what_http_refuses():
    d, c = daemon(), Client(daemon())
    ping = rpc("ping", id=1)
    for headers, want in (({"Accept": None}, 406), ({"Accept": "application/json"}, 406),
                          ({"Accept": "text/event-stream"}, 406), ({"Accept": "text/html"}, 406),
                          ({"Accept": "application/jsonx, text/event-stream"}, 406),
                          ({"Content-Type": None}, 415), ({"Content-Type": "text/plain"}, 415),
                          ({"MCP-Protocol-Version": "2020-01-01"}, 400), ({"MCP-Protocol-Version": ""}, 400),
                          ({"Host": "evil.example.com"}, 403), ({"Origin": "http://evil.example.com"}, 403),
                          ({"Origin": "null"}, 403), ({"Origin": f"http://127.0.0.1:{d.port}.evil.example"}, 403)):
        a = mcp_post(d, ping, c.id, headers=headers)
        equal(a.status, want, str(headers))
        equal(a.json["jsonrpc"], "2.0", str(headers))
    for headers in ({"Accept": "*/*"}, {"Accept": "application/*, text/*"}, {"Accept": "TEXT/event-stream;q=0.5,application/JSON"},
                    {"Content-Type": "application/json; charset=utf-8"}, {"Origin": f"http://127.0.0.1:{d.port}"},
                    *({"MCP-Protocol-Version": v} for v in REVISIONS)):
        equal(mcp_post(d, ping, c.id, headers=headers).status, 200, str(headers))
    for method in ("PUT", "PATCH", "OPTIONS", "HEAD"):
        a = d.request(method, "/mcp", headers=c.all_headers())
        equal(a.status, 405, method)
        check({"GET", "POST", "DELETE"} <= set(a.headers["Allow"].split(", ")), a.headers)
        if method != "HEAD":
            equal((a.json["jsonrpc"], a.json["id"], a.json["error"]["code"]), ("2.0", None, -32000), a)
            check(method in a.json["error"]["message"], a)
    equal(c.post(b" " * (4 * 1024 * 1024 + 1)).status, 413)


@test("without a session, with one that is none, with one that was")
def test_without_a_session_with_one_that_is_none():
    d = daemon()
    for body in (rpc("ping", id=1), rpc("notifications/initialized")):
        equal(mcp_post(d, body).status, 400)
        for id in ("x", "x" * 3000, "../..", "%00"):
            equal(mcp_post(d, body, id).status, 404, id[:9])
    equal(mcp_post(d, hello(), "stale").status, 404)
    equal(d.get("/mcp", headers={"Accept": "text/event-stream"}).status, 400)
    equal(d.delete("/mcp").status, 400)
    c = Client(d)
    equal(d.get("/mcp", headers=c.all_headers(Accept="application/json")).status, 406)
    equal(c.end().status, 204)
    equal((c.post(rpc("ping", id=1)).status, c.end().status), (404, 404))
    equal(d.get("/mcp", headers=c.all_headers(Accept="text/event-stream")).status, 404)


@test("a session is its key's: for any other it does not exist")
def test_a_session_is_its_keys_for_any_other():
    d = shared_daemon("--blanks", "0", "-auth-token", TOKEN, command=[FIXTURES])
    bearer = lambda secret: {"Authorization": "Bearer " + secret}
    keys = [d.post("/v1/keys", {"name": f"agent {i}", "roles": ["agent"]}, headers=bearer(TOKEN)).json["secret"]
            for i in range(2)]
    auditor = d.post("/v1/keys", {"name": "auditor", "roles": ["auditor"]}, headers=bearer(TOKEN)).json["secret"]
    equal(mcp_post(d, hello()).status, 401)
    equal(mcp_post(d, hello(), headers=bearer("wrong")).status, 401)
    equal(mcp_post(d, hello(), headers=bearer(auditor)).status, 403)
    c = Client(d, headers=bearer(keys[0]))
    for other in (keys[1], TOKEN):
        mine, c.headers = c.headers, bearer(other)
        equal(c.post(rpc("ping", id=1)).status, 404)
        equal(c.post(rpc("notifications/cancelled", {"requestId": 1})).status, 404)
        equal(d.get("/mcp", headers=c.all_headers(Accept="text/event-stream")).status, 404)
        equal(c.end().status, 404)
        c.headers = mine
    equal(mcp_post(d, rpc("ping", id=1), c.id).status, 401)
    equal(c.post(rpc("ping", id=1)).json["result"], {}, "it is still there")
    equal(c.end().status, 204)


# --- limits

@test("1,000 sessions at once, each with a state of its own")
def test_1_000_sessions_at_once_each_with_a_state():
    with Daemon("--blanks", "0", "--mcp-max-sessions", "1000", command=[FIXTURES]) as d:
        conn = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)

        def post(body, session=None):
            headers = {"Content-Type": "application/json", "Accept": BOTH}
            if session:
                headers["Mcp-Session-Id"] = session
            conn.request("POST", "/mcp", json.dumps(body), headers)
            r = conn.getresponse()
            return r.status, r.getheader("Mcp-Session-Id"), r.read()

        ids = []
        for i in range(1000):
            status, id, body = post(hello(REVISIONS[i % 4], id=i))
            equal(status, 200, body)
            ids.append(id)
        status, id, body = post(hello())
        equal((status, id), (429, None), body)
        check(b"mcp_max_sessions" in body, body)
        equal(len(set(ids)), 1000)
        for i, id in enumerate(ids):
            status, _, body = post([rpc("ping", id=i)], id)
            equal(status, 200 if i % 4 == 1 else 400, body)
        for id in ids[::7]:
            equal(post(rpc("tools/call", {"name": "test_simple_text"}, 1), id)[0], 200)
        conn.close()
        counts = dict(x.split() for x in d.get("/metrics").body.decode().splitlines() if x.startswith("sandbox_mcp_"))
        equal((counts["sandbox_mcp_sessions"], counts["sandbox_mcp_requests_running"]), ("1000", "0"))
        for id in ids[:3]:
            equal(d.delete("/mcp", headers={"Mcp-Session-Id": id}).status, 204)
        equal(mcp_post(d, hello()).status, 200, "there is room again")


@test("limits of a key, of a session, of a list, and an idle session's end")
def test_limits_of_a_key_of_a_session_of_a_list():
    flags = ("--mcp-max-sessions-per-key", "3", "--mcp-max-calls", "2", "--mcp-page-size", "5", "--mcp-session-ttl", "1s", "--mcp-stream-after", "10ms",
             "--mcp-max-subscriptions", "1", "--mcp-max-answer-bytes", "64Ki", "--mcp-max-message-bytes", "4Ki")
    with Daemon("--blanks", "0", *flags, command=[FIXTURES]) as d:
        c = Client(d)
        held = [c.open(rpc("tools/call", {"name": "test_sleep", "arguments": {"ms": 900}}, i)) for i in range(2)]
        a = c.post(rpc("ping", id="third"))
        check(code(a) == -32000 and "mcp_max_calls" in a.json["error"]["message"], a)
        for h in held:
            equal(len(list(h.messages())), 1)
        names, cursor = [], None
        while True:
            r = c.ask("tools/list", {"cursor": cursor} if cursor else None)["result"]
            check(len(r["tools"]) <= 5, "a page")
            names += [t["name"] for t in r["tools"]]
            cursor = r.get("nextCursor")
            if not cursor:
                break
        check(len(names) == len(set(names)) >= 14, names)
        equal(c.ask("resources/subscribe", {"uri": "test://static-text"})["result"], {})
        check("mcp_max_subscriptions" in c.ask("resources/subscribe", {"uri": "test://watched-resource"})["error"]["message"], "one")
        equal(c.ask("resources/unsubscribe", {"uri": "test://static-text"})["result"], {})
        equal(c.ask("resources/subscribe", {"uri": "test://watched-resource"})["result"], {})
        check("mcp_max_answer_bytes" in c.call("test_flood", bytes=70000)["error"]["message"], "a long answer")
        equal(c.post(rpc("ping", {"x": "y" * 5000}, 1)).status, 413)
        others = [Client(d) for _ in range(2)]
        a = mcp_post(d, hello())
        check(a.status == 429 and "mcp_max_sessions_per_key" in a.json["error"]["message"], a)
        listening = others[0].listen()
        wait_for(lambda: others[1].post(rpc("ping", id=1)).status == 404 or time.sleep(1.5), "an idle session ends")
        equal(c.post(rpc("ping", id=1)).status, 404)
        equal(others[0].post(rpc("ping", id=1)).status, 200, "one that listens is not idle")
        listening.close()


@test("the daemon itself has none of the suite's tools")
def test_the_daemon_itself_has_none_of_the_suite_tools():
    for program, has in ((FIXTURES, True), (SANDBOXD, False)):
        with open(program, "rb") as f:
            equal(b"test://static-text" in f.read(), has, program)
    with Daemon("--blanks", "0") as d:
        c = Client(d)
        names = [t["name"] for t in c.ask("tools/list")["result"]["tools"]]
        equal([n for n in names if n.startswith("test_")], [])
        check("run_command" in names, names)



main()
