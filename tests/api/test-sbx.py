#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The sbx API: sandboxes and streaming exec, as its clients speak it."""
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


def daemon():
    return shared_daemon("--kill-grace", "1s")


def fail(a, status, *words):
    equal(a.status, status, a)
    equal(set(a.json), {"error"}, a)
    for w in words:
        check(w in a.json["error"], f"{w!r} is not in {a.json['error']!r}")


def create(d=None, **body):
    a = (d or daemon()).post("/sandboxes", body)
    equal(a.status, 200, a)
    equal(set(a.json), {"id", "namespace", "pod_name"})
    return a.json["id"]


def delete(sid, d=None):
    a = (d or daemon()).delete("/sandboxes/" + sid)
    equal((a.status, a.json), (200, {"status": "deleted"}))


class Box:
    def __init__(self, d=None, **body):
        self.d = d or daemon()
        self.body = body

    def __enter__(self):
        self.id = create(self.d, **self.body)
        self.path = "/sandboxes/" + self.id
        return self

    def __exit__(self, *exc):
        self.d.delete(self.path)

    def sync(self, script, **more):
        a = self.d.post(self.path + "/exec", dict({"command": ["sh", "-c", script], "async": False}, **more))
        equal(a.status, 200, a)
        return a.json

    def start(self, script, **more):
        a = self.d.post(self.path + "/exec", dict({"command": ["sh", "-c", script], "async": True}, **more))
        equal(a.status, 200, a)
        equal((set(a.json), a.json["status"]), ({"exec_id", "status"}, "running"))
        return a.json["exec_id"]

    def status(self, exec_id):
        a = self.d.get(f"{self.path}/execs/{exec_id}")
        equal(a.status, 200, a)
        return a.json

    def until(self, exec_id, *states, seconds=PATIENCE_S):
        wait_for(lambda: self.status(exec_id)["status"] in states, f"status {states}", seconds)
        return self.status(exec_id)

    def cancel(self, exec_id):
        return self.d.post(f"{self.path}/execs/{exec_id}/cancel", {})

    def stream(self, exec_id, since=None):
        more = "" if since is None else f"&since={since}"
        return self.d.ws(f"{self.path}/stream?exec_id={exec_id}{more}")


def text(events, stream=None):
    return "".join(e["data"] for e in events if e["type"] == "output" and stream in (None, e["stream"]))


# --- sandboxes

@test("healthz")
def test_healthz():
    a = daemon().get("/healthz")
    equal((a.status, a.body), (200, b"ok"))


@test("create: a given id becomes sbx-<id>, namespace and id are one")
def test_create_a_given_id_becomes_sbx_id_namespace():
    a = daemon().post("/sandboxes", {"id": "my-box"})
    equal((a.status, a.json), (200, {"id": "sbx-my-box", "namespace": "sbx-my-box", "pod_name": "sandbox"}))
    equal(daemon().get("/sandboxes/sbx-my-box").json,
          {"id": "sbx-my-box", "namespace": "sbx-my-box", "pod_name": "sandbox", "phase": "Running"})
    fail(daemon().post("/sandboxes", {"id": "my-box"}), 409)
    delete("sbx-my-box")
    fail(daemon().get("/sandboxes/sbx-my-box"), 404)
    fail(daemon().delete("/sandboxes/sbx-my-box"), 404)
    delete(create(id="my-box"))


@test("create: without an id, or with an empty one, one is made")
def test_create_without_an_id_or_with_an_empty():
    a, b = create(), create(id="")
    check(re.fullmatch(r"sbx-[a-z0-9]([-a-z0-9]*[a-z0-9])?", a) and a != b, (a, b))
    delete(a), delete(b)


@test("ids are DNS-1123 labels of at most 63")
def test_ids_are_dns_1123_labels_of_at_most_63():
    for good in ("a", "0", "a-b", "a--b", "a" * 63):
        delete(create(id=good))
    for bad in ("A", "-a", "a-", "a_b", "a.b", "a/b", "../x", "a" * 64, "é", "a b", "a\nb", "a\0b"):
        fail(daemon().post("/sandboxes", {"id": bad}), 400)
    fail(daemon().post("/sandboxes", {"id": 5}), 400, "id")


@test("fields that only a cluster can mean are refused by name; local ones work")
def test_fields_that_only_a_cluster_can_mean_are_refused():
    fail(daemon().post("/sandboxes", {"image": "ubuntu:22.04"}), 404, "images_default_registry")
    for field, value in (("volume_mode", "pvc"), ("cache_mode", "pvc"),
                         ("cache_pvc_size", "5Gi"), ("cache_pvc_storage_class", "x"),
                         ("cache_pvc_access_mode", "ReadWriteOnce"), ("allowed_hosts", ["a b"])):
        fail(daemon().post("/sandboxes", {field: value}), 400, field)
    with Box(volume_mode="emptydir", cache_mode="emptydir", image="", cache_pvc_size="", allowed_hosts=[]) as b:
        equal(b.sync("echo x > /workspace/a && echo y > /cache/b && cat /workspace/a /cache/b; pwd")["stdout"],
              "x\ny\n/workspace\n")


@test("limits of a create hold in its sandbox; one that is misspelled or no number makes none")
def test_limits_of_a_create_hold_in_its_sandbox():
    with Box(limits={"memory_mb": 48, "max_processes": 20}) as b:
        got = daemon().get(f"/v1/sandboxes/{b.id}").json["effective"]
        equal((got["memory"]["limit_mb"], got["processes"]["limit"]), (48, 20))
        check(b.sync("i=0; while [ $i -lt 40 ]; do sleep 1 & i=$((i+1)); done; wait")["exit_code"] != 0, "40 processes ran")
    before = len(daemon().get("/sandboxes").json)
    for bad in ({"memory": 48}, {"memory_mb": "48"}, {"memory_mb": 0}, 5):
        fail(daemon().post("/sandboxes", {"limits": bad}), 400, "limits")
    equal(len(daemon().get("/sandboxes").json), before)


@test("cache_mode hostpath shares a host directory the operator allowed, and only then")
def test_cache_mode_hostpath_shares_a_host_directory():
    host = tempfile.mkdtemp(prefix="mas-test-cache-")
    os.chmod(host, 0o777)
    try:
        with Daemon("--mounts-allow", host, env={"SANDBOX_CACHE_HOSTPATH": host}) as d:
            with Box(d, cache_mode="hostpath") as one:
                equal(one.sync("echo shared > /cache/f; echo $?")["stdout"], "0\n")
            with Box(d, cache_mode="hostpath") as two:
                equal(two.sync("cat /cache/f")["stdout"], "shared\n")
        check(daemon().post("/sandboxes", {"cache_mode": "hostpath"}).status >= 400, "a mount nobody allowed")
    finally:
        shutil.rmtree(host)


@test("env of the request reaches commands; hosts lists as SBX_*_HOSTS")
def test_env_of_the_request_reaches_commands_hosts_lists():
    with Box(env={"A": "1", "B": "x y=z"}, disallowed_hosts=["bad.example", "worse.example"]) as b:
        env = b.sync("env")["stdout"]
        check("A=1\n" in env and "B=x y=z\n" in env, env)
        check("SBX_DISALLOWED_HOSTS=bad.example,worse.example\n" in env, env)
    for env in ({"A=B": "1"}, {"": "1"}, {"A": 1}, ["A=1"]):
        fail(daemon().post("/sandboxes", {"env": env}), 400, "env")
    for member in ("allowed_hosts", "disallowed_hosts"):
        a = daemon().post("/sandboxes", {"allowed_hosts": ["good.example"], member: ["a b"]})
        check(a.status == 400 and f"{member}: 'a b' is not a host" in a.body.decode() and "AllowedHosts" not in a.body.decode(), a)


@test("a sandbox's own command runs in it")
def test_a_sandbox_own_command_runs():
    with Box(command=["sh", "-c", "echo from-start > /workspace/f; sleep infinity"]) as b:
        wait_for(lambda: b.sync("cat /workspace/f")["stdout"] == "from-start\n", "its command ran")


@test("the list is sorted by id, with all fields")
def test_the_list_is_sorted_by_id_with_all_fields():
    ids = [create(id=n) for n in ("zz", "aa", "mm")]
    with_exec = ids[1]
    daemon().post(f"/sandboxes/{with_exec}/exec", {"command": ["true"], "async": False})
    a = daemon().get("/sandboxes")
    equal(a.status, 200)
    rows = {r["id"]: r for r in a.json}
    equal([r["id"] for r in a.json], sorted(rows))
    check(set(ids) <= set(rows), rows)
    for r in rows.values():
        equal(set(r), {"id", "namespace", "age", "state", "allocated", "last_exec_time"})
        equal(r["namespace"], r["id"])
        check(re.fullmatch(r"(\d+[hms])+", r["age"]) and r["allocated"] == "true", r)
    check(TIME.fullmatch(rows[with_exec]["last_exec_time"]), rows[with_exec])
    equal(rows[ids[0]]["last_exec_time"], "")
    equal(rows[ids[0]]["state"], "ready")
    for i in ids:
        delete(i)


@test("errors are {error} with their status, whatever the route")
def test_errors_are_with_their_status_whatever_the_route():
    d = daemon()
    with Box() as b:
        for method, path, status in (("GET", "/sandboxes/nope", 404), ("DELETE", "/sandboxes/nope", 404),
                                     ("POST", "/sandboxes/nope/exec", 404), ("GET", "/sandboxes/nope/execs/x", 404),
                                     ("GET", b.path + "/execs/nope", 404), ("POST", b.path + "/execs/nope/cancel", 404),
                                     ("GET", "/sandboxes/nope/stream?exec_id=x", 404), ("PUT", "/sandboxes", 405),
                                     ("PUT", b.path, 405), ("DELETE", "/sandboxes", 405), ("GET", b.path + "/exec", 405),
                                     ("GET", "/sandboxes/a/b/c/d", 404)):
            body = '{"command":["true"]}' if method == "POST" else None
            fail(d.request(method, path, body), status)
        for body in ("", "{", "[]", '"x"', '{"command":"ls"}', '{"command":[]}', '{"command":[1]}', "{}", '{"command":null}',
                     '{"command":["a"],"async":"yes"}', '{"command":["a"],"timeout_seconds":-1}',
                     '{"command":["a"],"timeout_seconds":"5"}', '{"command":["a"],"timeout_seconds":1e99}'):
            fail(d.post(b.path + "/exec", body), 400)


# --- exec

@test("exec is async by default")
def test_exec_is_async_by_default():
    with Box() as b:
        a = b.d.post(b.path + "/exec", {"command": ["true"]})
        equal((a.status, set(a.json)), (200, {"exec_id", "status"}))
        equal(a.json["status"], "running")


@test("sync exec: output, status and exit code")
def test_sync_exec_output_status_and_exit_code():
    with Box() as b:
        r = b.sync("echo out; echo err >&2; exit 5")
        equal((r["stdout"], r["stderr"], r["status"], r["exit_code"]), ("out\n", "err\n", "completed", 5))
        r = b.sync("kill -9 $$")
        equal((r["status"], r["exit_code"]), ("failed", 137))
        a = b.d.post(b.path + "/exec", {"command": ["/nonexistent"], "async": False})
        equal((a.status, a.json["status"], a.json["exit_code"]), (200, "failed", 127))
        equal(b.sync("sleep 5", timeout_seconds=1)["status"], "timed_out")


@test("status of an exec, field by field, while it runs and afterwards")
def test_status_of_an_exec_field_by_field_while_it_runs():
    with Box() as b:
        e = b.start("sleep 0.4; exit 3", timeout_seconds=60)
        s = b.status(e)
        equal({k: s[k] for k in s if k != "started_at"},
              {"sandbox_id": b.id, "exec_id": e, "status": "running", "timeout_seconds": 60})
        check(TIME.fullmatch(s["started_at"]), s)
        s = b.until(e, "completed")
        equal(set(s), {"sandbox_id", "exec_id", "status", "exit_code", "started_at", "finished_at", "timeout_seconds"})
        equal(s["exit_code"], 3)
        check(TIME.fullmatch(s["finished_at"]) and s["finished_at"] > s["started_at"], s)


@test("failed, timed_out and canceled")
def test_failed_timed_out_and_canceled():
    with Box() as b:
        s = b.until(b.start("kill -SEGV $$"), "failed")
        equal(s["exit_code"], 139)
        check("SIGSEGV" in s["error"], s)
        s = b.until(b.start("sleep 60", timeout_seconds=1), "timed_out")
        check(s["error"], s)
        e = b.start("sleep 60")
        a = b.cancel(e)
        equal(a.status, 200, a)
        check(a.json["status"] in ("canceling", "canceled"), a)
        equal(a.json["exec_id"], e)
        b.until(e, "canceled")


@test("cancel: 409 while canceling and when terminal")
def test_cancel_409_while_canceling_and_when_terminal():
    with Box() as b:
        e = b.start("trap '' TERM; echo on; while :; do sleep 0.1; done")
        wait_for(lambda: "on" in b.d.get(f"/v1/sandboxes/{b.id}/execs/{e}/logs").body.decode(), "the trap is set")
        equal((b.cancel(e).status, b.status(e)["status"]), (200, "canceling"))
        fail(b.cancel(e), 409)
        s = b.until(e, "canceled")
        fail(b.cancel(e), 409)
        e = b.start("true")
        b.until(e, "completed")
        fail(b.cancel(e), 409)
        equal(b.d.post(f"{b.path}/execs/{b.start('sleep 9')}/cancel", "").status, 200, "an empty body is fine too")


@test("a background child that holds the output open does not hold back the exit")
def test_a_background_child_that_holds_the_output_open():
    with Box() as b:
        start = time.time()
        r = b.sync("sleep 300 & echo done")
        equal((r["stdout"], r["exit_code"]), ("done\n", 0))
        check(time.time() - start < PATIENCE_S, "waited for the child")


@test("SANDBOX_USE_ASYNC_EXEC and SANDBOX_ASYNC_EXEC")
def test_sandbox_use_async_exec_and_sandbox_async_exec():
    for name in ("SANDBOX_USE_ASYNC_EXEC", "SANDBOX_ASYNC_EXEC"):
        with Daemon(env={name: "false"}) as d:
            with Box(d) as b:
                equal(d.post(b.path + "/exec", {"command": ["echo", "x"]}).json["stdout"], "x\n", name)
                equal(d.post(b.path + "/exec", {"command": ["echo", "x"], "async": True}).json["status"], "running")


# --- streams

@test("a stream: start, output, exit, in seq order with every field")
def test_a_stream_start_output_exit_in_seq_order():
    with Box() as b:
        e = b.start("echo one; sleep 0.2; echo two >&2; sleep 0.2; exit 4")
        events = b.stream(e).events()
        equal([v["type"] for v in events], ["start", "output", "output", "exit"])
        equal([v["seq"] for v in events], [1, 2, 3, 4])
        for v in events:
            equal((v["sandbox_id"], v["exec_id"]), (b.id, e))
            check(TIME.fullmatch(v["time"]), v)
        equal([(v["stream"], v["data"]) for v in events[1:3]], [("stdout", "one\n"), ("stderr", "two\n")])
        equal(events[3]["exit_code"], 4)


@test("a stream is live: output comes while the command runs")
def test_a_stream_is_live_output_comes_while_the_command():
    with Box() as b:
        e = b.start("echo first; sleep 1.5; echo last")
        ws = b.stream(e)
        messages = ws.messages()
        seen = [json.loads(next(messages)) for _ in range(2)]
        equal(text(seen), "first\n")
        equal(b.status(e)["status"], "running")
        rest = [json.loads(m) for m in messages]
        equal((text(rest), rest[-1]["type"]), ("last\n", "exit"))
        equal(ws.close_code, 1000)


@test("a late subscriber gets the whole journal; since=SEQ the rest of it")
def test_a_late_subscriber_gets_the_whole_journal_since():
    with Box() as b:
        e = b.start("for i in $(seq 300); do echo line $i; sleep 0.001; done")
        early = b.stream(e)
        first = early.events()
        b.until(e, "completed")
        late = b.stream(e).events()
        equal(late, first)
        equal(text(late), "".join(f"line {i}\n" for i in range(1, 301)))
        equal([v["seq"] for v in late], list(range(1, len(late) + 1)))
        equal(b.stream(e, since=0).events(), late)
        middle = len(late) // 2
        equal(b.stream(e, since=middle).events(), late[middle:])
        equal(b.stream(e, since=late[-1]["seq"]).events(), [])


@test("two subscribers and one that joins in the middle see the same")
def test_two_subscribers_and_one_that_joins_in_the_middle():
    with Box() as b:
        e = b.start("for i in $(seq 20); do echo $i; sleep 0.05; done")
        out = [None] * 3
        def read(i, delay):
            time.sleep(delay)
            out[i] = b.stream(e).events()
        threads = [threading.Thread(target=read, args=(i, 0.3 * i)) for i in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        equal(out[0], out[1])
        equal(out[0], out[2])
        equal(text(out[0]), "".join(f"{i}\n" for i in range(1, 21)))


@test("exit comes after all output, however much there was")
def test_exit_comes_after_all_output_however_much_there():
    with Box() as b:
        e = b.start("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2")
        events = b.stream(e).events()
        equal((events[-1]["type"], len(text(events, "stdout")), text(events, "stderr")), ("exit", 3000000, "end\n"))


@test("binary bytes and split UTF-8 are valid JSON text, and the bytes can be had")
def test_binary_bytes_and_split_utf_8_are_valid_json_text():
    with Box() as b:
        e = b.start("printf 'a\\377\\0b'; sleep 0.2; printf '\\303'; sleep 0.2; printf '\\244 \\360\\237'; sleep 0.2; printf '\\230\\200'")
        events = b.stream(e).events()
        out = [v for v in events if v["type"] == "output"]
        raw = b"".join(base64.b64decode(v["data_base64"]) if "data_base64" in v else v["data"].encode() for v in out)
        equal(raw, b"a\xff\0b\xc3\xa4 \xf0\x9f\x98\x80")
        equal("".join(v["data"] for v in out), "a\ufffd\0bä 😀")


@test("an unfinished UTF-8 sequence at the end is not lost")
def test_an_unfinished_utf_8_sequence_at_the_end():
    with Box() as b:
        e = b.start("printf 'x\\303'")
        out = [v for v in b.stream(e).events() if v["type"] == "output"]
        equal(b"".join(base64.b64decode(v["data_base64"]) if "data_base64" in v else v["data"].encode() for v in out), b"x\xc3")


@test("over the journal's limit: an explicit cut, SANDBOX_STREAM_BUFFER newest events kept")
def test_over_the_journal_limit_an_explicit_cut_sandbox():
    with Daemon("--journal-exec-bytes", "64Ki", env={"SANDBOX_STREAM_BUFFER": "20"}) as d:
        with Box(d) as b:
            e = b.start("i=0; while [ $i -lt 60 ]; do i=$((i+1)); printf '%05d' $i; head -c 8000 /dev/zero | tr '\\0' x; sleep 0.01; done")
            b.until(e, "completed")
            events = b.stream(e).events()
            cuts = [v for v in events if v["type"] == "cut"]
            equal(len(cuts), 1, [v["type"] for v in events])
            check(cuts[0]["dropped_bytes"] > 0 and cuts[0]["dropped_events"] > 0, cuts)
            after = [v for v in events[events.index(cuts[0]) + 1:] if v["type"] == "output"]
            check(len(after) >= 19, f"{len(after)} events after the cut")
            equal((events[0]["type"], events[-1]["type"]), ("start", "exit"))
            seqs = [v["seq"] for v in events]
            equal(seqs, sorted(set(seqs)))
            kept = sum(len(v["data"]) for v in events if v["type"] == "output")
            equal(kept + cuts[0]["dropped_bytes"], 60 * 8005)
            equal(after[-1]["data"][-100:], "x" * 100)


@test("stream: missing or unknown exec_id, no upgrade, wrong sandbox")
def test_stream_missing_or_unknown_exec_id_no_upgrade():
    with Box() as b, Box() as other:
        e = b.start("sleep 0.1")
        fail(b.d.get(f"{b.path}/stream"), 400, "exec_id")
        fail(b.d.get(f"{b.path}/stream?exec_id=nope"), 404)
        fail(b.d.get(f"{other.path}/stream?exec_id={e}"), 404)
        fail(b.d.get(f"{b.path}/stream?exec_id={e}"), 400, "WebSocket")
        equal(b.d.ws(f"{b.path}/stream?exec_id=nope").status, 404)
        for bad in ("x", "-1", "99999999999999999999999"):
            equal(b.stream(e, since=bad).status, 400, bad)
            a = b.d.get(f"/v1/sandboxes/{b.id}/execs/{e}/logs?since={bad}")
            equal((a.status, a.json["error"]["field"]), (400, "since"))


@test("ingest is 409 where a runner exists")
def test_ingest_is_409_where_a_runner_exists():
    with Box() as b:
        fail(b.d.get(b.path + "/ingest"), 409)
        equal(b.d.ws(b.path + "/ingest").status, 409)


@test("a client that leaves a stream does not end the command")
def test_a_client_that_leaves_a_stream_does_not_end():
    with Box() as b:
        e = b.start("for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; exit 9")
        ws = b.stream(e)
        next(ws.messages())
        ws.close()
        equal(b.until(e, "completed")["exit_code"], 9)


# --- around it

@test("X-Request-Id is echoed, or made")
def test_x_request_id_is_echoed_or_made():
    d = daemon()
    equal(d.get("/healthz", headers={"X-Request-Id": "abc-123"}).headers["X-Request-Id"], "abc-123")
    equal(d.get("/sandboxes/nope", headers={"X-Request-Id": "abc-123"}).headers["X-Request-Id"], "abc-123")
    a, b = (d.get("/healthz").headers["X-Request-Id"] for _ in range(2))
    check(a and b and a != b, (a, b))
    check(d.get("/healthz", headers={"X-Request-Id": "x" * 500}).headers["X-Request-Id"] != "x" * 500, "too long an id")


@test("metrics: Prometheus text whose counters move")
def test_metrics_prometheus_text_whose_counters_move():
    def read():
        a = daemon().get("/metrics")
        check(a.status == 200 and a.headers["Content-Type"].startswith("text/plain"), a.headers)
        out = {}
        for line in a.body.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                check(re.fullmatch(r"[a-z_]+(\{[^}]*\})?", name), line)
                out[name] = float(value)
        return out
    before = read()
    with Box() as b:
        during = read()
        b.sync("echo 12345; exit 1")
        b.sync("kill -9 $$")
        fail(b.d.get("/sandboxes/nope"), 404)
    after = read()
    equal(during["sandbox_active"] - before["sandbox_active"], 1)
    equal(after["sandbox_active"], before["sandbox_active"])
    for name, least in (("sandbox_created_total", 1), ("sandbox_deleted_total", 1), ("sandbox_exec_total", 2),
                        ("sandbox_exec_failed_total", 1), ("sandbox_exec_output_bytes_total", 6),
                        ("sandbox_http_requests_total", 5), ("sandbox_http_rejected_total", 1)):
        check(after[name] - before[name] >= least, f"{name}: {before[name]} -> {after[name]}")


@test("delete in every state: while creating, while commands run, twice at once, after a crash")
def test_delete_in_every_state_while_creating():
    d = daemon()
    t = threading.Thread(target=lambda: d.post("/sandboxes", {"id": "race"}))
    t.start()
    wait_for(lambda: d.delete("/sandboxes/sbx-race").status == 200, "deleted while it comes up")
    t.join()
    d.delete("/sandboxes/sbx-race")
    b = Box().__enter__()
    e = b.start("trap '' TERM; while :; do sleep 1; done")
    ws = b.stream(e)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(d.delete(b.path).status)) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    check(200 in answers and set(answers) <= {200, 404}, answers)
    events = ws.events()
    equal(events[-1]["type"], "exit")
    check("exit_code" not in events[-1], events[-1])
    fail(d.get(f"{b.path}/execs/{e}"), 404)


@test("a sync exec whose sandbox is deleted is answered")
def test_a_sync_exec_whose_sandbox_is_deleted_is_answered():
    b = Box().__enter__()
    out = []
    t = threading.Thread(target=lambda: out.append(b.d.post(b.path + "/exec", {"command": ["sleep", "30"], "async": False})))
    t.start()
    wait_for(lambda: b.d.get(f"/v1/sandboxes/{b.id}/execs").json["execs"], "it runs")
    delete(b.id)
    t.join(60)
    check(out and out[0].status in (200, 409), out)
    check("deleted" in out[0].body.decode(), out)


@test("deleting frees the name at once")
def test_deleting_frees_the_name_at_once():
    for _ in range(5):
        delete(create(id="again"))


# --- configuration

@test("configuration: a variable wins over the file, a flag over both")
def test_configuration_a_variable_wins_over_the_file():
    yaml = "idle_ttl: 1h\nuse_async_exec: false\nenv:\n  FROM: file\n  ONLY_FILE: '1'\n"
    with Daemon(config=yaml, env={"SANDBOX_ENV_FROM": "variable"}) as d:
        with Box(d) as b:
            r = d.post(b.path + "/exec", {"command": ["env"]}).json
            check("FROM=variable\n" in r["stdout"] and "ONLY_FILE=1\n" in r["stdout"], r)
    with Daemon(config=yaml, env={"SANDBOX_USE_ASYNC_EXEC": "true"}) as d:
        with Box(d) as b:
            equal(d.post(b.path + "/exec", {"command": ["env"]}).json["status"], "running")
    with Daemon("--use-async-exec=false", env={"SANDBOX_USE_ASYNC_EXEC": "true"}) as d:
        with Box(d) as b:
            equal(d.post(b.path + "/exec", {"command": ["echo", "x"]}).json["stdout"], "x\n")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("use_async_exec: false\n")
        f.flush()
        os.chmod(f.name, 0o644)
        with Daemon(env={"SANDBOX_CONFIG": f.name}) as d:
            with Box(d) as b:
                equal(d.post(b.path + "/exec", {"command": ["echo", "y"]}).json["stdout"], "y\n")


@test("SANDBOX_EXEC_TIMEOUT and SANDBOX_EXEC_MAX_TIMEOUT")
def test_sandbox_exec_timeout_and_sandbox_exec_max():
    with Daemon(env={"SANDBOX_EXEC_TIMEOUT": "1s", "SANDBOX_EXEC_MAX_TIMEOUT": "1m"}) as d:
        with Box(d) as b:
            equal(b.sync("sleep 20")["status"], "timed_out")
            equal(b.sync("sleep 1.3", timeout_seconds=20)["status"], "completed")
            fail(d.post(b.path + "/exec", {"command": ["true"], "timeout_seconds": 61}), 400, "timeout_seconds")


@test("idle sandboxes go after SANDBOX_IDLE_TTL; running commands and open streams keep them")
def test_idle_sandboxes_go_after_sandbox_idle_ttl_running():
    with Daemon(env={"SANDBOX_IDLE_TTL": "1500ms"}) as d:
        idle, busy, watched = create(d, id="idle"), Box(d, id="busy").__enter__(), Box(d, id="watched").__enter__()
        until_told = "until [ -e /workspace/go ]; do sleep 0.1; done"
        e = busy.start(until_told)
        old = watched.start("echo x")
        slow = watched.start(until_told)
        ws = watched.stream(slow)
        def ids():
            return {r["id"] for r in d.get("/sandboxes").json}
        wait_for(lambda: "sbx-idle" not in ids(), "the idle one is deleted")
        equal(ids(), {"sbx-busy", "sbx-watched"})
        equal(busy.status(e)["status"], "running")
        for b in (busy, watched):
            equal(d.put(f"/v1/sandboxes/{b.id}/files/content?path=/workspace/go", b"").status, 200)
        equal(ws.events()[-1]["type"], "exit")
        wait_for(lambda: not ids(), "the others follow once idle")
        fail(d.get("/sandboxes/sbx-busy"), 404)


@test("finished execs are kept for SANDBOX_EXEC_STATUS_RETENTION")
def test_finished_execs_are_kept_for_sandbox_exec_status():
    with Daemon(env={"SANDBOX_EXEC_STATUS_RETENTION": "1s"}) as d:
        with Box(d) as b:
            e = b.start("true")
            running = b.start("sleep 300")
            wait_for(lambda: d.get(f"{b.path}/execs/{e}").status == 404, "forgotten")
            equal(b.status(running)["status"], "running")


@test("a sandbox made here is known to the other contracts, and the other way round")
def test_a_sandbox_made_here_is_known_to_the_other():
    d = daemon()
    with Box(id="shared") as b:
        v = d.post("/v1/sandbox/execute", {"sandbox_id": "sbx-shared", "tool": {"name": "shell", "args": {"command": "echo a > /workspace/f"}}})
        equal(v.json["status"], "ok", v)
        equal(b.sync("cat /workspace/f")["stdout"], "a\n")
        equal(d.get("/v1/sandboxes/sbx-shared").json["id"], "sbx-shared")
    d.post("/v1/sandbox/create", {"sandbox_id": "Alias.1"})
    equal(d.post("/sandboxes/Alias.1/exec", {"command": ["echo", "hi"], "async": False}).json["stdout"], "hi\n")
    equal(d.delete("/sandboxes/Alias.1").status, 200)


main()
