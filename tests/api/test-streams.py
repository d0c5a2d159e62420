#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Streams of events: NDJSON, SSE, WebSocket text and binary; resuming; limits of the journal."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

KIB = 1024
MIB = 1024 * KIB
TYPES = {1: "start", 2: "output", 3: "cut", 4: "exit", 5: "blocked"}


def daemon():
    return shared_daemon("--kill-grace", "1s")


def small_journals(full):
    return shared_daemon("--kill-grace", "1s", config=f"""
journal_exec_bytes: 256Ki
journal_sandbox_bytes: 1Mi
journal_full: {full}
stream_buffer: 1
""")


def start(sb, script, **spec):
    return sb.sh(script, **{"async": True}, **spec)["exec_id"]


def logs_path(sb, exec_id, query=""):
    return f"{sb.path}/execs/{exec_id}/logs?follow=1{query}"


def ndjson(sb, exec_id, query=""):
    a = sb.daemon.get(logs_path(sb, exec_id, query))
    equal(a.status, 200, a)
    return [json.loads(line) for line in a.body.decode().splitlines()]


def sse_parse(text):
    """As a browser reads it: blocks of fields, comments left out."""
    out = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            event = json.loads(fields["data"])
            equal((int(fields["id"]), fields["event"]), (event["seq"], event["type"]), "id and event")
            out.append(event)
    return out


def sse(sb, exec_id, query="", headers=None, path=None):
    a = sb.daemon.get(path or logs_path(sb, exec_id, query),
                      headers=dict({"Accept": "text/event-stream"}, **(headers or {})))
    equal((a.status, a.headers["Content-Type"]), (200, "text/event-stream"), a)
    return sse_parse(a.body.decode())


def ws_path(sb, exec_id, query=""):
    return f"/sandboxes/{sb.id}/stream?exec_id={exec_id}{query}"


def ws_text(sb, exec_id, query=""):
    return sb.daemon.ws(ws_path(sb, exec_id, query)).events()


def open_binary(sb, exec_id, query="", offer="mas.binary.v1"):
    return sb.daemon.ws(ws_path(sb, exec_id, query), {"Sec-WebSocket-Protocol": offer})


def binary_parse(message):
    kind, stream, zero, length, seq, offset, time_ns = struct.unpack("<BBHIQQQ", message[:32])
    equal((zero, length), (0, len(message) - 32), "header")
    check(kind == 2 or json.loads(message[32:])["seq"] == seq, "the event of a header")
    check(time_ns > 10**18, "time")
    return {"type": TYPES[kind], "stream": stream, "seq": seq, "offset": offset, "bytes": message[32:]}


def binary(sb, exec_id, query=""):
    return [binary_parse(m) for m in open_binary(sb, exec_id, query).messages()]


def raw(event):
    if "bytes" in event:
        return event["bytes"]
    return base64.b64decode(event["data_base64"]) if "data_base64" in event else event["data"].encode()


def joined(events, stream=1):
    """A stream's bytes; every event must go on where the one before it ended."""
    out, at = b"", None
    for e in events:
        if e["type"] == "output" and e["stream"] in (stream, ("stdout", "stderr")[stream - 1]):
            check(at in (None, e["offset"]), f"offset {e['offset']} after {at}")
            out += raw(e)
            at = e["offset"] + len(raw(e))
    return out


def types(events):
    return [e["type"] for e in events]


FORMS = {"ndjson": ndjson, "sse": sse, "ws": ws_text, "binary": binary}


@test("all four forms carry the same events, bytes and offsets; exit is last")
def test_all_four_forms_carry_the_same_events_bytes():
    with daemon().sandbox() as sb:
        ex = start(sb, "printf 'a\\377b'; sleep 0.2; printf 'ä😀' >&2; sleep 0.2; printf end; exit 3")
        want = [("start", None), ("output", b"a\xffb"), ("output", "ä😀".encode()), ("output", b"end"), ("exit", None)]
        for name, read in FORMS.items():
            events = read(sb, ex)
            equal([(e["type"], raw(e) if e["type"] == "output" else None) for e in events], want, name)
            equal([e["seq"] for e in events], [1, 2, 3, 4, 5], name)
            equal([e["offset"] for e in events if e["type"] == "output"], [0, 0, 3], name)
        exit_event = json.loads(binary(sb, ex)[-1]["bytes"])
        equal((exit_event["exit_code"], exit_event["type"]), (3, "exit"))


@test("since= resumes after any event, in every form")
def test_since_resumes_after_any_event_in_every_form():
    with daemon().sandbox() as sb:
        ex = start(sb, "for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 0.1; echo 4")
        for name, read in FORMS.items():
            whole = read(sb, ex)
            for since in range(len(whole) + 1):
                rest = read(sb, ex, f"&since={since}")
                equal([(e["seq"], e["type"]) for e in rest],
                      [(e["seq"], e["type"]) for e in whole if e["seq"] > since], f"{name} since {since}")


@test("byte offsets resume exactly, also inside a character, in every form")
def test_byte_offsets_resume_exactly_also_inside():
    text = "aä€😀z".encode()
    with daemon().sandbox() as sb:
        ex = start(sb, f"printf '{text.decode()}'; sleep 0.1; printf tail; sleep 0.1; printf 12345 >&2")
        ndjson(sb, ex)
        whole = text + b"tail"
        for name, read in FORMS.items():
            for at in range(len(whole) + 1):
                events = read(sb, ex, f"&stdout_offset={at}&stderr_offset=2")
                equal(joined(events, 1), whole[at:], f"{name} stdout from {at}")
                equal(joined(events, 2), b"345", f"{name} stderr")
                first = [e for e in events if e["type"] == "output"][0]
                equal(first["offset"], at if at < len(whole) else 2, f"{name} first offset")
                equal(types(events)[-1], "exit")
                check("start" not in types(events), "what was seen before is not repeated")
        cut = ndjson(sb, ex, "&stdout_offset=2")[0]
        equal((raw(cut), cut["data"][0]), (text[2:], "\ufffd"), "a cut inside a character")


@test("offsets that make no sense are refused; so is a mixture with since=")
def test_offsets_that_make_no_sense_are_refused():
    with daemon().sandbox() as sb:
        ex = start(sb, "true")
        for query in ("&stdout_offset=-1", "&stderr_offset=x", "&since=1&stdout_offset=1", "&since=y"):
            a = sb.daemon.get(logs_path(sb, ex, query))
            equal(a.status, 400, query)
            equal(sb.daemon.ws(ws_path(sb, ex, query)).status, 400, query)
        a = sb.daemon.get(logs_path(sb, ex), headers={"Accept": "text/event-stream", "Last-Event-ID": "x1"})
        equal(a.status, 400, a)


@test("SSE: Last-Event-ID resumes and is newer than since=; the sbx API route has it too")
def test_sse_last_event_id_resumes_and_is_newer():
    with daemon().sandbox() as sb:
        ex = start(sb, "echo 1; sleep 0.2; echo 2")
        whole = sse(sb, ex)
        equal(types(whole), ["start", "output", "output", "exit"])
        equal(sse(sb, ex, "&since=1", {"Last-Event-ID": "2"}), whole[2:])
        equal(sse(sb, ex, path=ws_path(sb, ex)), whole)
        equal(sse(sb, ex, path=ws_path(sb, ex), headers={"Last-Event-ID": "3"}), whole[3:])
        equal(daemon().get(ws_path(sb, ex)).status, 400)
        a = daemon().post("/v1/run", {"command": ["echo", "hi"]}, headers={"Accept": "text/event-stream"})
        equal((a.status, a.headers["Content-Type"]), (200, "text/event-stream"), a)
        events = sse_parse(a.body.decode())
        equal((types(events), joined(events)), (["start", "output", "exit"], b"hi\n"))


@test("SSE: a quiet stream gets a comment before 20 seconds are over")
def test_sse_a_quiet_stream_gets_a_comment_before_20():
    with daemon().sandbox() as sb:
        ex = start(sb, "sleep 100")
        s = daemon().connect()
        s.settimeout(60)
        s.sendall(f"GET {logs_path(sb, ex)} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode())
        got = b""
        while b"\n:\n\n" not in got:
            piece = s.recv(4096)
            check(piece, f"the stream ended: {got!r}")
            got += piece
        check(got.startswith(b"HTTP/1.1 200") and b"event: start" in got, got)
        s.close()


@test("the binary subprotocol is chosen only where it is offered, and said so")
def test_the_binary_subprotocol_is_chosen():
    with daemon().sandbox() as sb:
        ex = start(sb, "echo hi")
        check("sec-websocket-protocol: mas.binary.v1" in open_binary(sb, ex, offer="x, mas.binary.v1").head.lower(), "accepted")
        ws = open_binary(sb, ex, offer="mas.binary.v2")
        check("sec-websocket-protocol" not in ws.head.lower(), "not accepted")
        check(all(isinstance(m, str) for m in ws.messages()), "text then")


@test("binary: 24 MiB arrive exactly, in few messages, and resume by seq and by offset")
def test_binary_24_mib_arrive_exactly_in_few_messages():
    with daemon().sandbox() as sb:
        n = 24 * MIB
        ex = start(sb, f"yes 0123456789abcde | head -c {n}")
        events = binary(sb, ex)
        whole = joined(events)
        check(whole == b"0123456789abcde\n" * (n // 16), "every byte in its place")
        again = binary(sb, ex)
        check(joined(again) == whole, "the same from the journal")
        check(len(again) < n // (200 * KIB), f"events are joined: {len(again)} messages")
        middle = again[len(again) // 2]
        rest = binary(sb, ex, f"&since={middle['seq']}")
        check(joined(rest) == whole[middle["offset"] + len(middle["bytes"]):], "since= a joined message's seq")
        check(joined(binary(sb, ex, f"&stdout_offset={n // 2 + 7}")) == whole[n // 2 + 7:], "by offset")


@test("an answer to HEAD ends, whatever it would follow")
def test_an_answer_to_head_ends_whatever_it_would_follow():
    d = daemon()
    with d.sandbox() as sb:
        ex = start(sb, "sleep 1000")
        for path in (logs_path(sb, ex), "/v1/events?follow=true", "/v1/audit?follow=true", sb.path + "/network/log?follow=true",
                     "/v1/audit/export", sb.path + "/files/tar?path=."):
            for accept in ("application/x-ndjson", "text/event-stream"):
                out = d.raw(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n"
                            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                equal((out.count(b"HTTP/1.1 200 "), out[-6:]), (2, b"\r\n\r\nok"), f"{path}: {out}")
        equal(d.post(f"{sb.path}/execs/{ex}/cancel").status, 200, "what it looked at goes on")


@test("a reader that never reads slows neither the command nor another reader, and costs little")
def test_a_reader_that_never_reads_slows_neither():
    d = daemon()
    with d.sandbox() as sb:
        pid = d.get("/v1/status").json["pid"]

        def rss():
            return resident_kib(pid) * KIB
        n = 40 * MIB
        ex = start(sb, f"sleep 0.5; yes | head -c {n}")
        stuck = []
        for _ in range(5):
            stuck.append(d.ws(ws_path(sb, ex)))
            stuck.append(open_binary(sb, ex))
            s = d.connect()
            s.sendall(f"GET {logs_path(sb, ex)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            check(b" 200 " in s.recv(15), "an answer has begun")
            stuck.append(s)
        before = rss()
        events = binary(sb, ex)
        equal(len(joined(events)), n, "bytes")
        equal(types(events)[-1], "exit")
        allowed = (256 if "asan" in proc_text(pid, "maps") else 48) * MIB  # a sanitizer keeps what is freed
        check(rss() - before < allowed, f"15 stuck readers cost {(rss() - before) // MIB} MiB")
        equal(sb.sh("echo fine")["stdout"], "fine\n")
        equal(len(joined(list(map(binary_parse, stuck[1].messages())))), n, "a late start gets everything")
        for s in stuck:
            s.close()


@test("over the limit, truncate: the command ends, head and tail are there, offsets show the gap")
def test_over_the_limit_truncate_the_command_ends_head():
    with small_journals("truncate").sandbox() as sb:
        n = 2 * MIB
        ex = start(sb, f"yes | head -c {n}; echo; echo last")
        wait_for(lambda: sb.daemon.get(f"{sb.path}/execs/{ex}").json["status"] == "completed", "its end")
        for name, read in FORMS.items():
            events = read(sb, ex)
            equal((types(events).count("cut"), types(events)[-1]), (1, "exit"), name)
            cut = types(events).index("cut")
            head, tail = joined(events[:cut]), joined(events[cut:])
            check(head == b"y\n" * (len(head) // 2), "head")
            check(tail.endswith(b"y\n\nlast\n"), "tail")
            first = [e for e in events[cut:] if e["type"] == "output"][0]
            equal(first["offset"] + len(tail), n + 6, name)
            check(len(head) + len(tail) <= 320 * KIB, f"kept {len(head) + len(tail)}")
            after = read(sb, ex, f"&stdout_offset={first['offset'] + 1}")
            check("cut" not in types(after), f"{name}: nothing after the gap is missing")
            check(joined(after) == tail[1:], name)


@test("over the limit, block: the command waits, the stream and its status say so, cancel ends it")
def test_over_the_limit_block_the_command_waits():
    d = small_journals("block")
    with d.sandbox() as sb:
        ex = start(sb, "yes; echo never")
        path = f"{sb.path}/execs/{ex}"
        wait_for(lambda: d.get(path).json.get("output_blocked"), "output_blocked")
        check(d.get(f"/sandboxes/{sb.id}/execs/{ex}").json["output_blocked"], "the sbx API's status")
        got = []
        reader = threading.Thread(target=lambda: got.extend(ndjson(sb, ex)))
        reader.start()
        settled(lambda: len(d.get(f"{path}/logs").body), 0.6)
        equal(d.get(path).json["status"], "running")
        equal(sb.sh("echo others go on")["stdout"], "others go on\n")
        equal(d.post(f"{path}/cancel").status, 200)
        reader.join(60)
        check(not reader.is_alive(), "the stream ended")
        equal((types(got).count("blocked"), types(got).count("cut"), types(got)[-1]), (1, 0, "exit"))
        kept = joined(got)
        check(kept == b"y\n" * (len(kept) // 2), "no byte is missing")
        check(256 * KIB < len(kept) <= 1344 * KIB, f"kept {len(kept)}")
        status = d.get(path).json
        equal((status["status"], "output_blocked" in status), ("canceled", False))


@test("block: a sandbox with a blocked command can be deleted; a timeout ends one")
def test_block_a_sandbox_with_a_blocked_command():
    d = small_journals("block")
    with d.sandbox() as sb:
        r = sb.sh("yes", timeout_ms=1500)
        equal(r["status"], "timed_out")
    sb = d.sandbox()
    ex = start(sb, "yes")
    wait_for(lambda: d.get(f"{sb.path}/execs/{ex}").json.get("output_blocked"), "output_blocked")
    equal(sb.delete().status // 100, 2)


@test("on_output_limit of a request goes before the configuration; others are refused")
def test_on_output_limit_of_a_request_goes():
    d = small_journals("block")
    with d.sandbox() as sb:
        ex = start(sb, f"yes | head -c {MIB}", on_output_limit="truncate")
        # A reader that keeps up with a running command never meets the cut.
        wait_for(lambda: d.get(f"{sb.path}/execs/{ex}").json["status"] == "completed", "its end")
        check("cut" in types(ndjson(sb, ex)), "cut, not blocked")
    d = small_journals("truncate")
    with d.sandbox() as sb:
        ex = start(sb, "yes", on_output_limit="block")
        wait_for(lambda: d.get(f"{sb.path}/execs/{ex}").json.get("output_blocked"), "output_blocked")
        a = d.post(f"/sandboxes/{sb.id}/exec", {"command": ["yes"], "async": True, "on_output_limit": "block"})
        other = a.json["exec_id"]
        wait_for(lambda: d.get(f"/sandboxes/{sb.id}/execs/{other}").json.get("output_blocked"), "the sbx API")
        for bad in ("drop", "", 1):
            equal(d.post(sb.path + "/exec", {"command": ["true"], "on_output_limit": bad}).status, 400, bad)
            equal(d.post(f"/sandboxes/{sb.id}/exec", {"command": ["true"], "on_output_limit": bad}).status, 400, bad)


@test("the limit of a sandbox holds for all its commands together")
def test_the_limit_of_a_sandbox_holds():
    d = small_journals("truncate")
    with d.sandbox() as sb:
        for _ in range(12):
            sb.sh(f"yes | head -c {240 * KIB}", max_output_bytes=0)
        kept = 0
        for e in d.get(sb.path + "/execs").json["execs"]:
            events = ndjson(sb, e["exec_id"])
            kept += len(joined(events[:1 + types(events).index("cut")] if "cut" in types(events) else events))
        check(500 * KIB < kept < 1900 * KIB, f"kept {kept // KIB} KiB of 2880")


@test("block: what ends gives its room to a command that waits for the sandbox's limit")
def test_block_what_ends_gives_its_room_to_a_command():
    with Daemon("--kill-grace", "1s", config="""
journal_exec_bytes: 4Mi
journal_sandbox_bytes: 2Mi
journal_full: block
exec_status_retention: 2s
""") as d, d.sandbox() as sb:
        sb.sh(f"yes | head -c {1900 * KIB}", max_output_bytes=0)
        ex = start(sb, f"yes | head -c {1500 * KIB}")
        wait_for(lambda: d.get(f"{sb.path}/execs/{ex}").json.get("output_blocked"), "output_blocked")
        events = ndjson(sb, ex)
        equal((types(events).count("blocked"), types(events)[-1]), (1, "exit"))
        equal(len(joined(events)), 1500 * KIB, "every byte")


@test("binary: offsets resume over kill -9 of the control plane without a lost or doubled byte")
def test_binary_offsets_resume_over_kill_9_of_the_control():
    with Daemon() as d, d.sandbox() as sb:
        ex = start(sb, "for i in $(seq 30); do seq -f '%06g' 2000; sleep 0.05; done")
        got, done = b"", False
        for attempt in range(5):
            if attempt:
                d.kill_control()
            # Messages of a connection that breaks are kept as far as they came.
            for m in open_binary(sb, ex, f"&stdout_offset={len(got)}").messages():
                e = binary_parse(m)
                if e["type"] == "output":
                    equal(e["offset"], len(got), "offset")
                    got += e["bytes"]
                done |= e["type"] == "exit"
                if attempt < 3 and len(got) > (attempt + 1) * 60000:
                    break
            if done:
                break
        check(done, "the end came")
        check(got == b"".join(b"%06d\n" % i for i in range(1, 2001)) * 30, f"{len(got)} bytes")


@test("block outlives the control plane: still blocked, every byte there, cancel ends it")
def test_block_outlives_the_control_plane_still_blocked():
    with Daemon("--kill-grace", "1s", config="journal_exec_bytes: 256Ki\njournal_full: block") as d, d.sandbox() as sb:
        ex = start(sb, "seq 1000000000")
        path = f"{sb.path}/execs/{ex}"

        def blocked():
            return d.get(path).json.get("output_blocked")
        wait_for(blocked, "output_blocked")
        d.kill_control()
        wait_for(blocked, "output_blocked again")
        equal(d.post(f"{path}/cancel").status, 200)
        events = ndjson(sb, ex)
        equal((types(events).count("blocked"), types(events)[-1]), (1, "exit"))
        lines = joined(events).split(b"\n")
        check(lines[:-1] == [b"%d" % i for i in range(1, len(lines))], "every byte")


main()
