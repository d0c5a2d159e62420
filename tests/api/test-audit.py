#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The audit: what is recorded, who may read it, and that every change to it is found."""
import os
import sqlite3
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

TOKEN = "the-operators-token"


def sbx(*argv, code=0, **kw):
    p = subprocess.run([SBX, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                       **({"stdin": subprocess.DEVNULL} if "input" not in kw else {}), **kw)
    equal(p.returncode, code, f"sbx {argv}: {p.stdout} {p.stderr}")
    return p.stdout


def address(d):
    return ["-addr", f"http://127.0.0.1:{d.port}"] + (["-token", d.token] if d.token else [])


def records(d, query="", **kw):
    a = d.get("/v1/audit" + query, **kw)
    equal(a.status, 200, a)
    return [json.loads(x) for x in a.body.splitlines()]


def daemon():
    return shared_daemon()


def export(d):
    path = os.path.join(d.dir, "export.jsonl")
    with open(path, "w") as f:
        f.write(sbx("audit", "export", *address(d)))
    return path


def altered(path, change):
    """A copy of an export whose lines went through change()."""
    with open(path) as f:
        lines = f.read().split("\n")[:-1]
    change(lines)
    copy = path + ".altered"
    with open(copy, "w") as f:
        f.write("\n".join(lines) + "\n")
    return copy


def wrong(path, *more):
    out = sbx("audit", "verify", path, *more, code=1)
    check(out.startswith("wrong: "), out)
    return out


# --- what is recorded

@test("a call is an intent, a start and an end under one id, with hashes of what went in and out")
def test_a_call_is_an_intent_a_start_and_an_end():
    d = daemon()
    d.run("echo", "hello")
    got = records(d, "?order=newest&limit=3")[::-1]
    equal([r["kind"] for r in got], ["intent", "started", "exited"])
    equal(len({r["call"] for r in got}), 1, "one call")
    check(got[0]["details"]["argv_digest"].startswith("sha256:"), got[0])
    check(got[1]["details"]["isolation"]["syscalls"] == "seccomp" or d.flags, got[1])
    equal(got[2]["outcome"], "completed")
    check(got[2]["details"]["stdout_digest"].startswith("sha256:"), got[2])
    equal([r["seq"] for r in got], list(range(got[0]["seq"], got[0]["seq"] + 3)))


@test("filters, ranges and limits")
def test_filters_ranges_and_limits():
    d = daemon()
    with d.sandbox() as s:
        s.exec("true")
        s.exec("false")
        equal(len(records(d, f"?kind=exited&sandbox={s.id}")), 2)
        equal(records(d, f"?sandbox={s.id}&kind=policy_change"), [])
        equal(d.get("/v1/audit?kind=nothing").status, 400)
    every = records(d, "?limit=1000000")
    equal([r["seq"] for r in every], list(range(1, len(every) + 1)))
    equal(records(d, "?since=2&until=4"), every[2:4])
    equal(records(d, "?limit=2"), every[:2])
    equal(records(d, "?limit=2&order=newest"), every[:-3:-1])
    equal(records(d, f"?from={every[3]['time']}&to={every[4]['time']}"), every[3:5])
    for bad in ("since=x", "limit=0", "order=up", "from=yesterday", "order=newest&follow=1"):
        equal(d.get("/v1/audit?" + bad).status, 400, bad)


@test("what is followed comes as it happens, as lines and as events")
def test_what_is_followed_comes_as_it_happens_as_lines():
    d = daemon()
    for accept, prefix in (("application/x-ndjson", b""), ("text/event-stream", b"data: ")):
        conn = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30)
        conn.request("GET", "/v1/audit?follow=1&kind=exited&since=1", headers={"Accept": accept})
        answer = conn.getresponse()
        want = len(records(d, "?kind=exited&since=1&limit=100000")) + 2
        got = []

        def read():
            while len(got) < want:
                line = answer.readline()
                if line.startswith(prefix + b"{"):
                    got.append(json.loads(line[len(prefix):]))
        t = threading.Thread(target=read)
        t.start()
        d.run("true")
        d.run("true")
        t.join(60)
        equal(len(got), want, accept)
        equal([r["kind"] for r in got], ["exited"] * want)
        conn.close()


@test("a reader of events that comes back goes on where it was")
def test_a_reader_of_events_that_comes_back_goes_on():
    d = daemon()
    for _ in range(3):
        d.run("true")
    every = records(d, "?limit=100000")
    last = every[-3]["seq"]
    a = d.get("/v1/audit?since=1", headers={"Accept": "text/event-stream", "Last-Event-ID": str(last)})
    numbers = [int(line[4:]) for line in a.body.decode().splitlines() if line.startswith("id: ")]
    equal(numbers[:2], [last + 1, last + 2])
    equal(d.get("/v1/audit", headers={"Accept": "text/event-stream", "Last-Event-ID": "x"}).status, 400)


class Follower:
    """Reads the audit in a thread of its own; `last` is the newest record's number."""

    def __init__(self, d):
        self.last = 0
        self.conn = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            self.conn.request("GET", "/v1/audit?follow=1&since=0")
            answer = self.conn.getresponse()
            while line := answer.readline():
                self.last = json.loads(line)["seq"]
        except (OSError, ValueError, AttributeError):
            pass

    def close(self):
        self.conn.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(60)


@test("a follower gets every record, also one that is written while it reads a page")
def test_a_follower_gets_every_record_also():
    d = daemon()
    with d.sandbox() as sb:
        for i in range(20):
            crowd = [threading.Thread(target=sb.exec, args=("true",)) for _ in range(8)]
            followers = []
            for c in crowd:
                c.start()
                followers.append(Follower(d))
            for c in crowd:
                c.join()
            newest = records(d, "?order=newest&limit=1")[0]["seq"]
            for f in followers:
                wait_for(lambda: f.last >= newest, f"record {newest} after {f.last}")
                f.close()


@test("login failures and missing roles are recorded, a flood of them is counted")
def test_login_failures_and_missing_roles_are_recorded():
    with Daemon("-auth-token", TOKEN) as d:
        d.token = TOKEN
        for i in range(100):
            equal(d.get("/v1/status", headers={"Authorization": "Bearer wrong"}).status, 401)
        got = records(d, "?kind=login_failure")
        equal(len(got), 60)
        equal(got[0]["details"]["path"], "/v1/status")
        check("wrong" not in json.dumps(got).replace("token is wrong", ""), got[0])
        a = d.post("/v1/keys", {"name": "worker", "roles": ["agent"]}).json
        agent = {"Authorization": "Bearer " + a["secret"]}
        a = d.post("/v1/keys", {"name": "auditor", "roles": ["auditor"]}).json
        auditor = {"Authorization": "Bearer " + a["secret"]}
        for path in ("/v1/audit", "/v1/audit/checkpoint", "/v1/audit/export"):
            equal(d.get(path, headers=agent).status, 403, path)
            equal(d.get(path, headers=auditor).status, 200, path)
        check(a["secret"] not in d.get("/v1/audit?limit=100000", headers=auditor).body.decode(), "a secret")


@test("sandboxes, connections and the configuration are on record")
def test_sandboxes_connections_and_the_configuration():
    with Daemon() as d:
        with d.sandbox() as s:
            pass
        wait_for(lambda: len(records(d, f"?sandbox={s.id}&kind=sandbox")) == 2, "the deletion")
        equal([r["outcome"] for r in records(d, f"?sandbox={s.id}&kind=sandbox")], ["created", "deleted"])
        d.post("/v1/sandbox/execute", {"tool_call_id": "1", "tool": {"name": "fetch", "args": {"url": "http://127.0.0.1:9/"}},
                                       "policy": {"Network": {"Enabled": True, "AllowedHosts": ["127.0.0.1"]}}})
        got = records(d, "?kind=network")
        equal([r["outcome"] for r in got], ["address_not_allowed"], got)
        equal(got[0]["details"]["asked"], "CONNECT 127.0.0.1 9")
        check(got[0]["call"] in [r["call"] for r in records(d, "?kind=intent&tool=fetch")], got)
        equal(len(records(d, "?kind=config_change")), 1)
        d.stop()
        d.flags += ["--max-execs", "77"]
        d.start()
        equal(len(records(d, "?kind=config_change")), 2)


# --- proofs

@test("an export verifies: from the daemon, a file, standard input")
def test_an_export_verifies_from_the_daemon_a_file():
    d = daemon()
    d.run("true")
    path = export(d)
    for source, kw in ((address(d), {}), ([path], {}), (["-"], {"input": open(path).read()})):
        out = sbx("audit", "verify", *source, **kw)
        check(out.startswith("genuine: records 1 to "), out)
        check("not proved: who signed this" in out, out)
    out = json.loads(sbx("audit", "verify", path, "-json"))
    check(out["genuine"] and out["signed_to"] == out["last"] and out["first"] == 1, out)
    equal(records(d, "?kind=export&order=newest&limit=1")[0]["outcome"], "begun")


@test("changes, removals and moves in an export are found, and the place is told")
def test_changes_removals_and_moves_in_an_export():
    d = daemon()
    d.run("true")
    path = export(d)
    with open(path) as f:
        n = len(f.read().split("\n")) - 1

    def edit(lines):
        lines[3] = lines[3].replace("allow", "Allow") if "allow" in lines[3] else lines[3].replace(":", " :", 1)
    check("line 4" in wrong(altered(path, edit)), "the place")
    for i in (0, 1, 2, n // 2, n - 2, n - 1):
        wrong(altered(path, lambda lines: lines.pop(i)))
    wrong(altered(path, lambda lines: lines.insert(2, lines.pop(4))))
    wrong(altered(path, lambda lines: lines.append(lines[-1])))
    wrong(altered(path, lambda lines: lines.__setitem__(slice(n // 2, None), [])))
    check("footer" in wrong(altered(path, lambda lines: lines.pop())), "the footer")


@test("a key and checkpoints from elsewhere")
def test_a_key_and_checkpoints_from_elsewhere():
    d = daemon()
    key, other, kept = (os.path.join(d.dir, x) for x in ("key", "other-key", "kept"))
    d.run("true")
    early = export(d)
    answer = d.get("/v1/audit/checkpoint").json
    with open(key, "w") as f:
        f.write(answer["key"] + "\n")
    with open(other, "w") as f:
        f.write("00" * 31 + "01")
    d.run("true")
    with open(kept, "w") as f:
        f.write("Nov 16 host mas-sandboxd[1]: audit " + sbx("audit", "checkpoint", *address(d)))
    out = sbx("audit", "verify", *address(d), "-key", key, "-checkpoint", kept)
    check("who signed" not in out and "genuine" in out, out)
    check("cut off" in wrong(early, "-checkpoint", kept, "-key", key), "an early export passes for all")
    wrong(early, "-key", other)
    sbx("audit", "verify", early, "-key", kept, code=2)
    sbx("audit", "verify", early, "-checkpoint", key, code=2)
    sbx("audit", "verify", early, "-checkpoint", kept, "-key", other, code=2)


def offline(change):
    """The state directory of a stopped daemon after change(database)."""
    with Daemon() as d:
        d.run("true")
        d.run("true")
        sbx("audit", "checkpoint", *address(d))
        d.run("true")
        d.stop()
        with sqlite3.connect(d.state + "/control/state.db") as db:
            change(db)
        return subprocess.run([SBX, "audit", "verify", "-state-dir", d.state], stdout=subprocess.PIPE, text=True)


@test("the state directory of a stopped daemon: untouched it verifies, anything else is found")
def test_the_state_directory_of_a_stopped_daemon():
    p = offline(lambda db: None)
    check(p.returncode == 0 and p.stdout.startswith("genuine"), p.stdout)
    check("who" not in p.stdout, p.stdout)
    for change, told in (
            (lambda db: db.execute("UPDATE audit SET body = CAST(replace(CAST(body AS TEXT), 'allow', 'deny ') AS BLOB)"
                                   " WHERE seq = 3"), "record 3 was changed"),
            (lambda db: db.execute("DELETE FROM audit WHERE seq = 5"), "records 5 to 5 are missing"),
            (lambda db: db.execute("DELETE FROM audit WHERE seq < 4"), "no signed base"),
            (lambda db: db.executescript("UPDATE audit SET seq = -1 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE "
                                         "seq = 5; UPDATE audit SET seq = 5 WHERE seq = -1"), "another's place"),
            (lambda db: db.executescript("DELETE FROM audit_checkpoint WHERE seq = (SELECT min(seq) FROM "
                                         "audit_checkpoint)"), "checkpoint"),
            # a cut back to an older checkpoint: the warden knows better
            (lambda db: db.executescript("DELETE FROM audit WHERE seq > (SELECT min(seq) FROM audit_checkpoint);"
                                         "DELETE FROM audit_checkpoint WHERE seq > (SELECT max(seq) FROM audit)"),
             "cut off")):
        p = offline(change)
        check(p.returncode == 1 and told in p.stdout, (told, p.stdout))


@test("a rewritten past with right hashes is found by what was signed")
def test_a_rewritten_past_with_right_hashes_is_found():
    import hashlib

    def forge(db):
        rows = db.execute("SELECT seq, body FROM audit ORDER BY seq").fetchall()
        last = bytes(32)
        for seq, body in rows:
            if seq == 3:
                check(b"true" in body, body)
                body = body.replace(b"true", b"evil")
            last = hashlib.sha256(last + seq.to_bytes(8, "big") + len(body).to_bytes(8, "big") + body).digest()
            db.execute("UPDATE audit SET body = ?, hash = ? WHERE seq = ?", (body, last, seq))
    p = offline(forge)
    check(p.returncode == 1 and "is of other records" in p.stdout, p.stdout)


@test("an export of a stopped daemon ends in its newest checkpoint")
def test_an_export_of_a_stopped_daemon_ends_in_its_newest():
    with Daemon() as d:
        d.run("true")
        d.stop()
        out = sbx("audit", "export", "-state-dir", d.state)
        path = os.path.join(d.dir, "offline.jsonl")
        with open(path, "w") as f:
            f.write(out)
        check('"kind":"stop"' in out.split("\n")[-3], out)
        out = sbx("audit", "verify", path, "-key", d.state + "/warden/audit.pub")
        check("genuine" in out and "ordinary checkpoint" in out, out)


@test("query and tail")
def test_query_and_tail():
    d = daemon()
    d.run("true")
    lines = sbx("audit", "query", "kind=exited", "limit=1", *address(d)).split("\n")
    equal(json.loads(lines[0])["kind"], "exited")
    equal(len(lines), 2)
    got = [json.loads(x) for x in sbx("audit", "tail", "limit=4", *address(d)).split("\n")[:-1]]
    equal([r["seq"] for r in got], sorted(r["seq"] for r in got))
    equal(got[-1]["seq"], records(d, "?order=newest&limit=1")[0]["seq"])
    sbx("audit", "query", "colour=red", *address(d), code=2)
    sbx("audit", "gossip", code=2)


@test("checkpoints go to a file from the warden, and a restart goes on with them")
def test_checkpoints_go_to_a_file_from_the_warden():
    kept = tempfile.mktemp(prefix="mas-test-checkpoints-")
    try:
        with Daemon("--audit-checkpoint-file", kept, "--audit-checkpoint-interval", "100ms") as d:
            d.run("true")
            wait_for(lambda: os.path.exists(kept) and os.path.getsize(kept), "a checkpoint")
            d.stop()
            d.start()
            d.run("true")
            out = sbx("audit", "verify", *address(d), "-checkpoint", kept)
            check("genuine" in out, out)
            d.stop()
            with open(kept) as f:
                lines = [json.loads(x) for x in f]
            equal([x["prev_seq"] for x in lines[1:]], [x["seq"] for x in lines[:-1]], "links")
            equal(oct(os.stat(d.state + "/warden/audit.key").st_mode & 0o777), "0o600")
    finally:
        os.unlink(kept)


@test("a signing key that is lost or replaced is on record, and the old public key is kept")
def test_a_signing_key_that_is_lost_or_replaced():
    for lose in (("audit.key",), ("audit.key", "audit.last")):
        with Daemon() as d:
            d.run("true")
            d.get("/v1/audit/checkpoint")
            d.stop()
            place = d.state + "/warden/"
            with open(place + "audit.pub") as f:
                old = f.read()
            for name in lose:
                os.unlink(place + name)
            d.launch()
            records = [json.loads(x) for x in d.get("/v1/audit?kind=key_change").body.splitlines()]
            equal([(r["outcome"], r["details"]["what"]) for r in records], [("replaced", "signing key")], lose)
            check(records[0]["details"]["signed_by_the_old"] > 0, records)
            kept = [x for x in os.listdir(place) if x.startswith("audit.pub.")]
            equal(len(kept), 1, kept)
            with open(place + kept[0]) as f:
                equal(f.read(), old)
            with open(place + "audit.pub") as f:
                check(f.read() != old, "audit.pub is still the old one")
            d.kill_control()
            d.run("true")
            equal(len(d.get("/v1/audit?kind=key_change").body.splitlines()), 1, "told once")
            d.get("/v1/audit/checkpoint")
            export = d.get("/v1/audit/export").body
            d.stop()
            # Segment by segment, with both keys; without the old one its segment is not proved.
            for argv, text in (("-state-dir", d.state), None), (("-key", place + "audit.pub", "-"), export):
                p = subprocess.run([SBX, "audit", "verify", *argv], input=text, stdout=subprocess.PIPE)
                equal(p.returncode, 0, (lose, argv, p.stdout))
                check(b"proved with an earlier key" in p.stdout, (lose, p.stdout))
                check(b"only the new key's word" in p.stdout, (lose, p.stdout))
            # The new key's statement names the old one; the old key alone proves nothing of what came after.
            os.rename(place + kept[0], place + "elsewhere")
            for key, code, text in ("audit.pub", 0, b"earlier key"), ("elsewhere", 1, b"the key before was lost"):
                p = subprocess.run([SBX, "audit", "verify", "-key", place + key, "-"], input=export,
                                   stdout=subprocess.PIPE)
                check(p.returncode == code and text in p.stdout, (lose, key, p.stdout))


@test("a rotated key: the first one proves everything through the rotation")
def test_a_rotated_key_the_first_one_proves_everything():
    with Daemon("--audit-checkpoint-interval", "50ms") as d:
        place = d.state + "/warden/"
        first = os.path.join(d.dir, "first.pub")
        keys = []
        for _ in range(3):
            keys.append(d.get("/v1/audit/checkpoint").json["key"])
            d.run("true")
            if len(keys) == 1:
                shutil.copy(place + "audit.pub", first)
            if len(keys) < 3:
                answer = json.loads(sbx("audit", "rotate", "-json", *address(d)))
                equal((answer["old_key"], answer["checkpoint"]["checkpoint"]), (keys[-1], "rotate"))
                check(answer["key"] not in keys, answer)
        equal(len({*keys}), 3, keys)
        kept = sorted(x for x in os.listdir(place) if x.startswith("audit."))
        equal(kept, sorted(["audit.key", "audit.last", "audit.pub"] + [f"audit.pub.{k[:16]}" for k in keys[:2]]))
        told = [r["outcome"] for r in records(d, "?kind=key_change")]
        equal(told, ["asked", "rotated"] * 2)
        path = export(d)
        for more in ([], ["-key", first], ["-key", place + "audit.pub"]):
            out = sbx("audit", "verify", path, *more)
            for k in keys:
                check(f"proved with key {k[:16]}" in out, out)
            check("the new key's word" not in out and "earlier key" not in out, out)
        got = json.loads(sbx("audit", "verify", path, "-key", first, "-json"))
        equal([s["by"] for s in got["segments"]], ["the key given"] + ["named by the key before"] * 2)
        equal([s["key"] for s in got["segments"]], keys)
        # A rotation that was taken out, or is signed by one of the two only.
        with open(path) as f:
            lines = f.read().split("\n")[:-1]
        at = [i for i, x in enumerate(lines) if '"checkpoint":"rotate"' in x][0]
        wrong(altered(path, lambda x: x.pop(at)), "-key", first)
        for member in "signature", "new_signature":
            def forge(x):
                c = json.loads(x[at])
                c[member] = "0" * 128
                x[at] = json.dumps(c, separators=(",", ":"))
            wrong(altered(path, forge), "-key", first)
        # What was kept elsewhere is held against the keys that the first one leads to.
        newest = os.path.join(d.dir, "newest")
        with open(newest, "w") as f:
            f.write(sbx("audit", "checkpoint", *address(d)))
        sbx("audit", "verify", export(d), "-key", first, "-checkpoint", newest)
        d.stop()
        out = sbx("audit", "verify", "-state-dir", d.state, "-key", first)
        check("genuine" in out and keys[2][:16] in out, out)
        d.launch()
        equal([r["outcome"] for r in records(d, "?kind=key_change")], told, "told once")
        sbx("audit", "verify", export(d), "-key", first)


@test("rotations end where too many earlier keys are kept, and go on when the operator has moved them")
def test_rotations_end_where_too_many_earlier_keys():
    with Daemon() as d:
        d.post("/v1/run", {"command": ["true"]})
        kept = [f"{d.state}/warden/audit.pub.{i:016x}" for i in range(999)]
        for path in kept:
            open(path, "w").close()
        equal(d.post("/v1/audit/rotate").status, 200)
        a = d.post("/v1/audit/rotate")
        check(a.status >= 400 and "1000 earlier public keys" in a.json["error"]["message"], a)
        equal(d.post("/v1/run", {"command": ["true"]}).status, 200, "what is signed goes on")
        equal(d.get("/v1/audit/checkpoint").status, 200)
        for path in kept:
            os.remove(path)
        equal(d.post("/v1/audit/rotate").status, 200)


@test("who may rotate the key, and where there is none")
def test_who_may_rotate_the_key_and_where_there_is_none():
    with Daemon("-auth-token", TOKEN) as d:
        d.token = TOKEN
        for role, status in ("operator", 200), ("admin", 200), ("auditor", 403), ("agent", 403), ("approver", 403):
            key = d.post("/v1/keys", {"name": role, "roles": [role]})
            equal(key.status, 201, key)
            a = d.post("/v1/audit/rotate", headers={"Authorization": "Bearer " + key.json["secret"]})
            equal(a.status, status, (role, a))
    with Daemon("--audit=false") as d:
        equal(d.post("/v1/audit/rotate").status, 400)


@test("audit: false keeps none, and says so")
def test_audit_false_keeps_none_and_says():
    with Daemon("--audit=false") as d:
        equal(d.run("true")["exit_code"], 0)
        equal(d.get("/v1/audit").status, 400)
        check(not os.path.exists(d.state + "/warden/audit.key"), "a key")


@test("with a full disk nothing runs, and then it does again")
def test_with_a_full_disk_nothing_runs_and_then():
    if os.geteuid() != 0:
        raise Skip("mounting needs root")
    with Daemon() as d:
        d.stop()
        os.makedirs(d.state, exist_ok=True)
        shutil.rmtree(d.state)
        os.mkdir(d.state)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", d.state], check=True)
        try:
            d.start()
            s = d.sandbox()
            s.exec("true")
            filler = d.state + "/filler"
            with open(filler, "wb", buffering=0) as f:
                try:
                    while True:
                        f.write(b"x" * 4096)
                except OSError:
                    pass
            refused = 0
            for _ in range(200):
                a = d.post(s.path + "/exec", {"command": ["sh", "-c", "echo x >> /workspace/ran"]})
                if a.status != 200:
                    refused += 1
                    check("audit" in a.body.decode(), a)
                    break
            equal(refused, 1, "a call that could not be recorded ran")
            before = records_on_disk(d)
            a = d.post(s.path + "/exec", {"command": ["sh", "-c", "echo y > /workspace/never"]})
            check(a.status != 200, a)
            os.unlink(filler)
            wait_for(lambda: d.post(s.path + "/exec", {"command": ["true"]}).status == 200, "room again")
            got = s.sh("ls /workspace; wc -l < /workspace/ran 2>/dev/null || echo 0")["stdout"]
            check("never" not in got, got)
            check(before >= 0, "")
            out = sbx("audit", "verify", *address(d))
            check("genuine" in out, out)
        finally:
            d.stop()
            subprocess.run(["umount", "-l", d.state], check=True)


def records_on_disk(d):
    return sum(open(d.state + f"/control/audit-{i}.log", "rb").read().count(b"\n") for i in (0, 1))


main()
