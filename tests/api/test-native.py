#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The native API under /v1: runs, sandboxes, commands, terminals, files, idempotency."""
import hashlib
import io
import os
import re
import sys
import tarfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

MIB = 1024 * 1024


def daemon():
    return shared_daemon("--kill-grace", "1s")


def fail(a, status, code, field=None, words=""):
    equal(a.status, status, a)
    equal(set(a.json), {"error"}, a)
    e = a.json["error"]
    equal(e["code"], code, a)
    check(len(e["message"]) > 5 and words in e["message"], a)
    if field:
        equal(e.get("field"), field, a)
    return e


def start(sb, *argv, **spec):
    a = sb.daemon.post(sb.path + "/exec", dict({"command": list(argv), "async": True}, **spec))
    equal((a.status, a.json.get("status")), (200, "running"), a)
    equal(set(a.json), {"exec_id", "status", "sandbox_id"})
    return sb.path + "/execs/" + a.json["exec_id"]


def ended(path, seconds=PATIENCE_S):
    wait_for(lambda: daemon().get(path).json["status"] not in ("running", "canceling"), "the command ends", seconds)
    return daemon().get(path).json


def logs(path, query=""):
    a = daemon().get(path + "/logs" + query)
    equal((a.status, a.headers["Content-Type"]), (200, "application/x-ndjson"))
    return [json.loads(x) for x in a.body.splitlines()]


def output(path):
    return "".join(e["data"] for e in logs(path) if e["type"] == "output")


# --- run

@test("an empty stdin is an end of input, and nobody's memory")
def empty_stdin():
    d = shared_daemon()
    pid = d.get("/v1/status").json["pid"]
    equal(d.run("sh", "-c", "cat; echo end", stdin="")["stdout"], "end\n")
    equal(d.get("/v1/status").json["pid"], pid)


@test("run: a command, every member of the answer")
def test_run_a_command_every_member_of_the_answer():
    r = daemon().run("sh", "-c", "echo out; echo err >&2; exit 3")
    equal((r["stdout"], r["stderr"], r["exit_code"], r["status"]), ("out\n", "err\n", 3, "completed"))
    check(r["duration_ms"] > 0 and r["usage"]["max_rss_kb"] > 0, r)
    equal(set(r["usage"]), {"cpu_ms", "user_ms", "system_ms", "max_rss_kb"})
    check("truncated" not in r, r)


@test("run: python, javascript and bash")
def test_run_python_javascript_and_bash():
    for language, code, want in (("python", "import sys; print(sys.version_info[0])", "3\n"),
                                 ("javascript", "console.log(1 + 1)", "2\n"),
                                 ("bash", "x=(a b c); echo ${x[2]}", "c\n")):
        a = daemon().post("/v1/run", {"language": language, "code": code})
        equal((a.status, a.json["stdout"], a.json["exit_code"]), (200, want, 0), a)
    a = daemon().post("/v1/run", {"language": "python", "code": "1/0"})
    check(a.json["exit_code"] == 1 and "ZeroDivisionError" in a.json["stderr"], a)
    fail(daemon().post("/v1/run", {"language": "cobol", "code": "x"}), 400, "invalid_request", "language")
    fail(daemon().post("/v1/run", {"language": "python"}), 400, "invalid_request", "command")
    fail(daemon().post("/v1/run", {"language": "python", "code": "1", "command": ["x"]}), 400, "invalid_request", "command")
    fail(daemon().post("/v1/run", {"command": []}), 400, "invalid_request", "command")


@test("run: a command that cannot start names its directory, or the limit that was hit")
def test_run_a_command_that_cannot_start_names():
    d = daemon()
    for cwd, why in (("/nowhere/at/all", "No such file"), ("/etc/passwd", "Not a directory"), ("/workspace/closed", "Permission denied")):
        with d.sandbox() as sb:
            sb.sh("mkdir -m 000 closed")
            r = d.post(sb.path + "/exec", {"command": ["true"], "cwd": cwd}).json
            check(r["status"] == "failed" and cwd in r["error"] and why in r["error"], r)
    with d.sandbox(limits={"max_processes": 12}) as sb:
        for _ in range(15):
            d.post(sb.path + "/exec", {"command": ["sleep", "100"], "async": True})
        r = d.post(sb.path + "/exec", {"command": ["true"]}).json
        check(r["status"] == "failed" and "limits.max_processes is 12" in r["error"], r)


@test("run: files with text, bytes, mode and directories")
def test_run_files_with_text_bytes_mode_and_directories():
    r = daemon().run("sh", "-c", "cat /workspace/d/e/a.txt; od -An -tx1 b.bin; ./run; stat -c %a run; wc -c < /tmp/big",
                     files=[{"path": "/workspace/d/e/a.txt", "content": "text é\n"},
                            {"path": "b.bin", "content_base64": base64.b64encode(b"\0\xff\n").decode()},
                            {"path": "run", "content": "#!/bin/sh\necho ran\n", "mode": 0o755},
                            {"path": "/tmp/big", "content": "x" * 500000},
                            {"path": "/workspace/empty", "content": ""}])
    equal((r["stdout"], r["exit_code"]), ("text é\n 00 ff 0a\nran\n755\n500000\n", 0), r)
    for bad in ({"path": "x"}, {"content": "x"}, {"path": "x", "content_base64": "!!!!"}, {"path": "x", "content_base64": "abc"},
                {"path": "", "content": "x"}, "x", {"path": "x", "content": 1}, {"path": "x", "content": "y", "mode": 512}):
        equal(daemon().post("/v1/run", {"command": ["true"], "files": [bad]}).status, 400, bad)
    a = daemon().post("/v1/run", {"command": ["true"], "files": [{"path": "/etc/x", "content": "x"}]})
    check(a.status >= 400 and "/etc/x" in a.json["error"]["message"], a)


@test("run: stdin, env, cwd, workdir")
def test_run_stdin_env_cwd_workdir():
    equal(daemon().run("cat", stdin="héllo\n")["stdout"], "héllo\n")
    equal(daemon().run("wc", "-c", stdin="x" * 900000)["stdout"].strip(), "900000")
    equal(daemon().run("cat")["stdout"], "", "stdin is empty by default")
    r = daemon().run("sh", "-c", "echo $A; pwd; echo $HOME; id -un", env={"A": "b c"}, cwd="/tmp")
    equal(r["stdout"], "b c\n/tmp\n/home/sandbox\nsandbox\n")
    equal(daemon().run("pwd", workdir="/home/sandbox")["stdout"], "/home/sandbox\n")
    equal(daemon().run("true", stdin="nobody reads this" * 10000)["exit_code"], 0)
    r = daemon().run("pwd", cwd="/nonexistent")
    check(r["status"] == "failed" and "No such file" in r["error"], r)


@test("run: limits are enforced and named")
def test_run_limits_are_enforced_and_named():
    d = daemon()
    r = d.run("python3", "-c", "x = bytearray(300 << 20)", limits={"memory_mb": 64})
    equal((r["status"], r["exit_code"], r["signal"]), ("oom_killed", 137, 9), r)
    check("memory" in r["error"], r)
    r = d.run("sh", "-c", "head -c 60000000 /dev/zero > /tmp/x; echo $?", limits={"disk_mb": 16})
    equal(r["stdout"], "1\n")
    check("No space" in r["stderr"], r)
    r = d.run("python3", "-c", "import os\nn=0\ntry:\n  while True:\n    if os.fork()==0:\n      import time; time.sleep(9); os._exit(0)\n    n+=1\nexcept OSError as e: print(e.errno, n<20)",
              limits={"max_processes": 16})
    equal(r["stdout"], "11 True\n", r)
    for bad in ({"memory_mb": 0}, {"memory_mb": "64"}, {"cpu_cores": -1}, {"disk_mb": 1e30}, {"max_processes": 0}):
        fail(d.post("/v1/run", {"command": ["true"], "limits": bad}), 400, "invalid_request", "limits." + list(bad)[0])
    equal(d.post("/v1/run", {"command": ["true"], "limits": []}).status, 400)


@test("run: timeout_ms")
def test_run_timeout_ms():
    started = time.time()
    r = with_time(lambda ms: daemon().run("sh", "-c", "echo before; sleep 300", timeout_ms=ms), lambda r: r["stdout"])
    equal((r["status"], r["stdout"]), ("timed_out", "before\n"), r)
    check(time.time() - started < 2 * PATIENCE_S, "took too long")
    r = daemon().run("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", timeout_ms=300)
    equal(r["status"], "timed_out")
    for bad in (0, -5, "1s", 1e30):
        fail(daemon().post("/v1/run", {"command": ["true"], "timeout_ms": bad}), 400, "invalid_request", "timeout_ms")


@test("max_output_bytes is refused where the answer holds no output: with stream, by Accept and with async")
def test_max_output_bytes_is_refused_where_the_answer_holds_no_output():
    d = daemon()
    ndjson = {"Accept": "application/x-ndjson"}
    with d.sandbox() as sb:
        for path, more, headers in (("/v1/run", {"stream": True}, {}), ("/v1/run", {}, ndjson), (sb.path + "/exec", {"stream": True}, {}), (sb.path + "/exec", {}, ndjson),
                                    (sb.path + "/exec", {"async": True}, {})):
            a = d.post(path, dict({"command": ["true"], "max_output_bytes": 9}, **more), headers=headers)
            equal(a.status, 400, f"{path} {more} {headers}: {a}")
            equal(a.json["error"].get("field"), "max_output_bytes", f"{path} {more} {headers}: {a}")
            check(d.post(path, dict({"command": ["true"]}, **more), headers=headers).status in (200, 202), f"without it: {path} {more}")
        equal(len(d.get(sb.path + "/execs").json["execs"]), 3, "what was refused did not run")


@test("run: max_output_bytes keeps head and tail and says so")
def test_run_max_output_bytes_keeps_head_and_tail():
    r = daemon().run("sh", "-c", "seq 1 100000; echo fine >&2", max_output_bytes=1000)
    equal((r["truncated"], r["stderr"]), (True, "fine\n"))
    whole = len("".join(f"{i}\n" for i in range(1, 100001)))
    head, note, tail = re.split(r"(\n\[\.\.\. \d+ bytes omitted \.\.\.\]\n)", r["stdout"])
    check(head.startswith("1\n2\n3\n") and tail.endswith("99999\n100000\n"), r["stdout"])
    equal(len(head) + len(tail), 1000)
    equal(r["stdout_omitted_bytes"], whole - 1000)
    check(str(whole - 1000) in note, note)
    r = daemon().run("echo", "x" * 50, max_output_bytes=51)
    check("truncated" not in r, r)


@test("run: binary output comes as text and as base64")
def test_run_binary_output_comes_as_text_and_as_base64():
    r = daemon().run("printf", "a\\377\\000b")
    equal((r["stdout"], base64.b64decode(r["stdout_base64"])), ("a\ufffd\0b", b"a\xff\0b"))
    check("stderr_base64" not in r, r)


@test("run: NDJSON stream, by member and by Accept")
def test_run_ndjson_stream_by_member_and_by_accept():
    d = daemon()
    for body, headers in (({"stream": True}, {}), ({}, {"Accept": "application/x-ndjson"})):
        a = d.post("/v1/run", dict({"command": ["sh", "-c", "echo 1; echo 2 >&2; exit 6"]}, **body), headers=headers)
        equal((a.status, a.headers["Content-Type"]), (200, "application/x-ndjson"))
        events = [json.loads(x) for x in a.body.splitlines()]
        equal((events[0]["type"], events[-1]["type"], events[-1]["exit_code"]), ("start", "exit", 6))
        equal(sorted((e["stream"], e["data"]) for e in events[1:-1]), [("stderr", "2\n"), ("stdout", "1\n")])


@test("run: the stream is live, and the sandbox goes with a client that leaves")
def test_run_the_stream_is_live_and_the_sandbox_goes():
    d = daemon()
    s = d.connect()
    body = json.dumps({"command": ["sh", "-c", "echo first; sleep 30"], "stream": True}).encode()
    s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    got = b""
    while b"first" not in got:
        got += s.recv(65536)
    running = d.get("/v1/status").json["counts"]["execs_running"]
    s.close()
    wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] < running, "the run ends with its client")


@test("run: a client that leaves a sync run ends it")
def test_run_a_client_that_leaves_a_sync_run_ends():
    d = daemon()
    before = d.get("/v1/status").json["counts"]["execs_running"]
    s = d.connect()
    body = b'{"command":["sleep","30"]}'
    s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] > before, "it runs")
    s.close()
    wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] <= before, "it is ended")


@test("run: exit codes of signals, of what cannot be run, of background children")
def test_run_exit_codes_of_signals_of_what_cannot_be_run():
    d = daemon()
    for n, name in ((9, "KILL"), (15, "TERM"), (11, "SEGV")):
        r = d.run("sh", "-c", f"kill -{name} $$")
        equal((r["exit_code"], r["signal"], r["status"]), (128 + n, n, "failed"))
        check("SIG" + name in r["error"], r)
    equal(d.run("sh", "-c", "exit 255")["exit_code"], 255)
    for argv, code, word in ((["/nonexistent"], 127, "No such file"), (["no-such-program"], 127, "No such file"),
                             (["/etc"], 126, "directory"), (["/etc/passwd"], 126, "denied")):
        r = d.run(*argv)
        equal((r["exit_code"], r["status"]), (code, "failed"), argv)
        check(word in r["error"] and argv[0] in r["error"], r)
    started = time.time()
    r = d.run("sh", "-c", "sleep 300 & echo $!")
    check(r["exit_code"] == 0 and r["background_output_dropped"] and time.time() - started < PATIENCE_S, r)


# --- sandboxes

@test("sandboxes: create, get, list, delete")
def test_sandboxes_create_get_list_delete():
    d = daemon()
    a = d.post("/v1/sandboxes", {"id": "mine", "env": {"A": "1"}})
    equal((a.status, a.json["id"], a.json["state"], a.json["runtime"]), (201, "sbx-mine", "ready", "local"))
    equal(d.get("/v1/sandboxes/sbx-mine").json, a.json)
    fail(d.post("/v1/sandboxes", {"id": "mine"}), 409, "conflict")
    fail(d.post("/v1/sandboxes", {"id": "No"}), 400, "invalid_request", "id")
    check("sbx-mine" in [s["id"] for s in d.get("/v1/sandboxes").json["sandboxes"]], "not in the list")
    equal(d.post("/v1/sandboxes/sbx-mine/exec", {"command": ["sh", "-c", "echo $A"]}).json["stdout"], "1\n")
    a = d.delete("/v1/sandboxes/sbx-mine")
    equal((a.status, a.json), (200, {"id": "sbx-mine", "status": "deleted"}))
    fail(d.get("/v1/sandboxes/sbx-mine"), 404, "not_found")
    fail(d.delete("/v1/sandboxes/sbx-mine"), 404, "not_found")


@test("sandboxes: the effective report says what enforces each limit")
def test_sandboxes_the_effective_report_says():
    with daemon().sandbox(limits={"cpu_cores": 0.5, "memory_mb": 128, "disk_mb": 32, "max_processes": 50}) as sb:
        e = sb.created["effective"]
        equal((e["memory"]["limit_mb"], e["cpu"]["limit_cores"], e["disk"]["limit_mb"], e["processes"]["limit"]), (128, 0.5, 32, 50))
        for wall in ("memory", "cpu", "disk", "processes", "network", "filesystem", "syscalls", "users"):
            check(e[wall]["by"], wall)
        equal((e["network"]["mode"], e["io"], e["uid_separation"], e["runtime"]), ("none", None, True, "local"))
        check(isinstance(e["disk"]["charged_to_memory"], bool), e)
        equal(sb.sh("ls /sys/class/net 2>/dev/null; python3 -c 'import socket; print([n for _, n in socket.if_nameindex()])'")["stdout"].split()[-1], "['lo']")


@test("sandboxes: an unenforceable limit fails by name unless weaker is accepted")
def test_sandboxes_an_unenforceable_limit_fails_by_name():
    d = daemon()
    a = d.post("/v1/sandboxes", {"limits": {"io_mb_per_s": 10}})
    if a.status == 201:
        d.delete("/v1/sandboxes/" + a.json["id"])
        check(a.json["effective"]["io"]["by"], "io limit taken and not reported")
        return
    fail(a, 422, "unenforceable", words="io")
    fail(d.post("/v1/run", {"command": ["true"], "limits": {"io_mb_per_s": 10}}), 422, "unenforceable", words="io")
    with d.sandbox(limits={"io_mb_per_s": 10}, accept_weaker=["io"]) as sb:
        check("io" in sb.created["effective"], "io is not reported")
    fail(d.post("/v1/sandboxes", {"accept_weaker": ["moon"]}), 400, "invalid_request", "accept_weaker")


@test("sandboxes: what this version lacks is refused by name")
def test_sandboxes_what_this_version_lacks_is_refused():
    d = daemon()
    for field, value in (("pool", "x"), ("snapshot", "x"), ("template", "x"), ("approval", True),
                         ("network", {"mode": "full"}), ("network", True), ("network", "host")):
        fail(d.post("/v1/sandboxes", {field: value}), 400, "unsupported", field)
    for runtime in ("kube", "kata", "nothing"):
        check(d.post("/v1/sandboxes", {"runtime": runtime}).status in (400, 422, 503), runtime)
    with d.sandbox(network="none") as sb:
        for verb, body in (("snapshot", None), ("snapshot", {}), ("snapshot", {"name": "x"}), ("fork", {"count": 2}), ("restore", {"snapshot": "x"})):
            fail(d.post(f"{sb.path}/{verb}", body), 400, "unsupported", words="'microvm' has them")
        equal(d.get("/v1/snapshots").json, {"snapshots": []})
        fail(d.delete("/v1/snapshots/x"), 404, "not_found")
        for query in ("", "?path=x"):
            fail(d.get(f"{sb.path}/files/watch{query}"), 400, "unsupported", words="watch")


@test("sandboxes: mounts need the operator's allowlist")
def test_sandboxes_mounts_need_the_operator_allowlist():
    host = tempfile.mkdtemp(prefix="mas-test-mount-")
    os.chmod(host, 0o755)
    try:
        with open(host + "/f", "w") as f:
            f.write("host\n")
        a = daemon().post("/v1/sandboxes", {"mounts": [{"source": host}]})
        check(a.status in (403, 422) and "mounts" in a.json["error"]["message"], a)
        with Daemon("--mounts-allow", host) as d:
            with d.sandbox(mounts=[{"source": host, "target": "/data"}]) as sb:
                equal(sb.sh("cat /data/f; touch /data/new 2>/dev/null || echo read-only")["stdout"], "host\nread-only\n")
            os.symlink("/etc", host + "/link")
            for source in (host + "/link", host + "/../", "/etc", host + "/nope"):
                check(d.post("/v1/sandboxes", {"mounts": [{"source": source, "target": "/data"}]}).status >= 400, source)
            for target in ("/etc", "/usr/x", "relative", "/", "/proc/x", "/data/../etc"):
                check(d.post("/v1/sandboxes", {"mounts": [{"source": host, "target": target}]}).status >= 400, target)
    finally:
        shutil.rmtree(host)


@test("sandboxes: pages by cursor, each sandbox once")
def test_sandboxes_pages_by_cursor_each_sandbox_once():
    d = daemon()
    made = [d.sandbox(id=f"page-{i}") for i in range(7)]
    try:
        seen, cursor, pages = [], "", 0
        while True:
            page = d.get(f"/v1/sandboxes?limit=3{cursor}").json
            check(len(page["sandboxes"]) <= 3, page)
            seen += [s["id"] for s in page["sandboxes"]]
            pages += 1
            if "next_cursor" not in page:
                break
            cursor = "&cursor=" + page["next_cursor"]
        equal(seen, sorted(set(seen)))
        check({s.id for s in made} <= set(seen) and pages >= 3, seen)
        for bad in ("0", "1001", "x", "-1", "1x", ""):
            fail(d.get(f"/v1/sandboxes?limit={bad}"), 400, "invalid_request", "limit")
    finally:
        for s in made:
            s.delete()


@test("sandboxes: state stays between commands; two of them share nothing")
def test_sandboxes_state_stays_between_commands_two():
    with daemon().sandbox() as a, daemon().sandbox() as b:
        a.sh("echo a > /workspace/f; echo a > /tmp/f; nohup sleep 100 >/dev/null 2>&1 &")
        equal(a.sh("cat /workspace/f /tmp/f")["stdout"], "a\na\n")
        equal(b.sh("ls /workspace /tmp; pgrep -c sleep")["stdout"].split(), ["/tmp:", "/workspace:", "0"])


@test("sandboxes: stats")
def test_sandboxes_stats():
    with daemon().sandbox() as sb:
        path = start(sb, "sleep", "20")
        s = daemon().get(sb.path + "/stats").json
        equal(set(s), {"memory_bytes", "memory_peak_bytes", "cpu_ms", "processes", "oom_kills"})
        check(s["processes"] >= 1 and s["memory_bytes"] > 0, s)


# --- commands

@test("exec: a list that is cut says so; so many may wait to be accepted")
def test_exec_a_list_that_is_cut_says_so_so_many_may_wait():
    with Daemon("--max-exec-list", "2", "--connection-backlog", "7") as d, d.sandbox() as sb:
        for word in ("one", "two"):
            sb.exec("echo", word)
        equal("truncated" in d.get(sb.path + "/execs").json, False, "control: it fits")
        sb.exec("echo", "three")
        a = d.get(sb.path + "/execs").json
        equal(([e["command"][1] for e in a["execs"]], a["truncated"]), (["one", "two"], True))
        p = subprocess.run(["ss", "-Hltn", f"sport = :{d.port}"], capture_output=True, text=True)
        equal(p.stdout.split()[2], "7", p)


@test("exec: stdin, cwd, env over the sandbox's, timeout, list")
def test_exec_stdin_cwd_env_over_the_sandboxs_timeout():
    with daemon().sandbox(env={"A": "sandbox", "B": "kept"}) as sb:
        r = sb.sh("cat; pwd; echo $A $B", stdin="in\n", cwd="/tmp", env={"A": "exec"})
        equal(r["stdout"], "in\n/tmp\nexec kept\n")
        equal(sb.sh("sleep 9", timeout_ms=200)["status"], "timed_out")
        execs = daemon().get(sb.path + "/execs").json["execs"]
        equal([e["status"] for e in execs], ["completed", "timed_out"])
        equal(execs[0]["command"], ["/bin/sh", "-c", "cat; pwd; echo $A $B"])
        for field in ("exec_id", "sandbox_id", "status", "command", "pty", "started_at", "finished_at", "usage"):
            check(field in execs[0], field)
        equal(daemon().get(f"{sb.path}/execs/{execs[0]['exec_id']}").json, execs[0])


@test("exec: write to stdin and close it")
def test_exec_write_to_stdin_and_close():
    with daemon().sandbox() as sb:
        path = start(sb, "cat", open_stdin=True)
        equal(daemon().post(path + "/stdin", b"one\n").status, 200)
        wait_for(lambda: output(path) == "one\n", "it is echoed")
        equal(daemon().post(path + "/stdin?close=1", b"two\n").status, 200)
        equal(ended(path)["exit_code"], 0)
        equal(output(path), "one\ntwo\n")
        fail(daemon().post(path + "/stdin", b"x"), 409, "conflict")
        path = start(sb, "sleep", "5")
        fail(daemon().post(path + "/stdin", b"x"), 409, "conflict")
        path = start(sb, "md5sum", open_stdin=True)
        big = os.urandom(9 * MIB)
        equal(daemon().post(path + "/stdin?close=1", big).status, 200)
        ended(path)
        equal(output(path).split()[0], hashlib.md5(big).hexdigest())


@test("exec: signals by name and number")
def test_exec_signals_by_name_and_number():
    with daemon().sandbox() as sb:
        path = start(sb, "sh", "-c", "trap 'echo usr1' USR1; echo up; while :; do sleep 0.05; done")
        wait_for(lambda: "up" in output(path), "it is up")
        for name in ("USR1", "SIGUSR1", "usr1", 10):
            before = output(path).count("usr1")
            equal(daemon().post(path + "/signal", {"signal": name}).status, 200)
            wait_for(lambda: output(path).count("usr1") > before, f"signal {name} arrived")
        for bad in ("NOPE", 0, 65, -1, None, 1.5, ""):
            fail(daemon().post(path + "/signal", {"signal": bad}), 400, "invalid_request", "signal")
        daemon().post(path + "/signal", {"signal": "KILL"})
        e = ended(path)
        equal((e["exit_code"], e["signal"], e["status"]), (137, 9, "failed"))
        fail(daemon().post(path + "/signal", {"signal": "KILL"}), 409, "conflict")


@test("exec: cancel ends the whole process group")
def test_exec_cancel_ends_the_whole_process_group():
    with daemon().sandbox() as sb:
        path = start(sb, "sh", "-c", "sleep 77 & sleep 77; wait")
        wait_for(lambda: sb.sh("pgrep -c sleep")["stdout"] == "2\n", "both run")
        equal(daemon().post(path + "/cancel").status, 200)
        equal(ended(path)["status"], "canceled")
        wait_for(lambda: sb.sh("pgrep -c sleep")["stdout"] == "0\n", "both gone")


@test("exec: the end of a command is the end of what left its session, and of nothing else")
def test_exec_the_end_of_a_command_is_the_end():
    away = "setsid sh -c 'sleep 78 & setsid sleep 78 & setsid sleep 78' & "
    with daemon().sandbox() as sb:
        neighbour = start(sb, "sh", "-c", "setsid sleep 79 & sleep 79")
        for how in ("cancel", "timeout", "kill"):
            def four(ms):
                path = start(sb, "sh", "-c", away + "sleep 78; wait", **({"timeout_ms": ms} if how == "timeout" else {}))
                seen = []
                wait_for(lambda: seen.append(sb.sh("pgrep -cx -f 'sleep 78'")["stdout"]) or seen[-1] == "4\n" or
                         daemon().get(path).json["status"] != "running", "four run")
                return path, seen[-1]
            path, seen = with_time(four, lambda got: got[1] == "4\n")
            equal(seen, "4\n", "four run")
            if how == "cancel":
                equal(daemon().post(path + "/cancel").status, 200)
            if how == "kill":
                equal(daemon().post(path + "/signal", {"signal": "KILL"}).status, 200)
            ended(path)
            wait_for(lambda: sb.sh("pgrep -cx -f 'sleep 78'")["stdout"] == "0\n", how + ": all gone")
        equal(sb.sh("pgrep -cx -f 'sleep 79'")["stdout"], "2\n", "the neighbour's")
        equal(daemon().get(neighbour).json["status"], "running")


@test("exec: logs, since, follow")
def test_exec_logs_since_follow():
    with daemon().sandbox() as sb:
        path = start(sb, "sh", "-c", "echo a; sleep 0.6; echo b")
        wait_for(lambda: output(path) == "a\n", "first output")
        now = logs(path)
        equal([e["type"] for e in now], ["start", "output"])
        rest = logs(path, f"?since={now[-1]['seq']}&follow=1")
        equal([(e["type"], e.get("data")) for e in rest], [("output", "b\n"), ("exit", None)])
        equal(logs(path), now + rest)


@test("exec: a terminal through attach: echo, resize, exit")
def test_exec_a_terminal_through_attach_echo_resize_exit():
    with daemon().sandbox() as sb:
        path = start(sb, "sh", pty=True, rows=30, cols=100)
        ws = daemon().ws(path + "/attach")
        equal(ws.status, 101)
        frames, seen = ws.messages(), ""
        def until(word):
            nonlocal seen
            while word not in seen:
                m = next(frames)
                if isinstance(m, bytes):
                    equal(m[0], 1)
                    seen += m[1:].decode()
        ws.send(b"stty size; tty; echo mark''er\n")
        until("marker")
        check("30 100" in seen and "/dev/pts/" in seen, seen)
        check("stty size" in seen, "no echo")
        seen = ""
        ws.send(json.dumps({"type": "resize", "rows": 50, "cols": 132}))
        ws.send(b"stty size; echo a''gain\n")
        until("again")
        check("50 132" in seen, seen)
        equal(daemon().post(path + "/resize", {"rows": 11, "cols": 22}).status, 200)
        seen = ""
        ws.send(b"stty size; echo th''ird\n")
        until("third")
        check("11 22" in seen, seen)
        seen = ""
        ws.send(b"sleep 100\n")
        time.sleep(0.3)
        ws.send(b"\x03")
        ws.send(b"echo int''errupted\n")
        until("interrupted")
        ws.send(b"exit 9\n")
        rest = [m for m in frames if isinstance(m, str)]
        last = json.loads(rest[-1])
        equal((last["type"], last["exit_code"], ws.close_code), ("exit", 9, 1000))
        equal(daemon().get(path).json["pty"], True)


@test("attach: pipes keep stdout and stderr apart; stdin_close, signal, errors")
def test_attach_pipes_keep_stdout_and_stderr_apart_stdin():
    with daemon().sandbox() as sb:
        path = start(sb, "sh", "-c", "trap 'echo got; exit 5' USR1; cat; echo e >&2; while :; do sleep 0.05; done", open_stdin=True)
        ws = daemon().ws(path + "/attach")
        frames = ws.messages()
        def binary():
            for m in frames:
                if isinstance(m, bytes):
                    return m
        ws.send(b"in\n")
        equal(binary(), b"\x01in\n")
        ws.send("not json")
        text = next(m for m in frames if isinstance(m, str))
        equal(json.loads(text)["type"], "error")
        ws.send(json.dumps({"type": "resize", "rows": 5, "cols": 5}))
        equal(json.loads(next(m for m in frames if isinstance(m, str)))["code"], "conflict")
        ws.send(json.dumps({"type": "stdin_close"}))
        equal(binary(), b"\x02e\n")
        ws.send(json.dumps({"type": "signal", "signal": "USR1"}))
        got = binary()
        while got[0] == 2:  # the shell's word on its own child, which the signal ended too
            got = binary()
        equal(got, b"\x01got\n")
        equal(json.loads([m for m in frames if isinstance(m, str)][-1])["exit_code"], 5)
        fail(daemon().post(path + "/resize", {"rows": 5, "cols": 5}), 409, "conflict")
        equal(daemon().get(path + "/attach").status, 400)


@test("attach: two terminals on one command, one leaves")
def test_attach_two_terminals_on_one_command_one_leaves():
    with daemon().sandbox() as sb:
        path = start(sb, "sh", "-c", "read x; echo got $x", pty=True)
        a, b = daemon().ws(path + "/attach"), daemon().ws(path + "/attach")
        b.close()
        time.sleep(0.1)
        a.send(b"hello\n")
        out = b"".join(m[1:] for m in a.messages() if isinstance(m, bytes))
        check(b"got hello" in out, out)


@test("processes of a sandbox")
def test_processes_of_a_sandbox():
    with daemon().sandbox() as sb:
        start(sb, "sleep", "55")
        def names():
            return [p.get("command") or p.get("name") for p in daemon().get(sb.path + "/processes").json["processes"]]
        wait_for(lambda: any("sleep" in str(n) for n in names()), "sleep is listed")
        p = next(p for p in daemon().get(sb.path + "/processes").json["processes"] if "sleep" in str(p))
        check(p["pid"] > 1, p)


@test("exec: many at once, and the limit on them")
def test_exec_many_at_once_and_the_limit_on_them():
    with daemon().sandbox() as sb:
        out = [None] * 20
        def run(i):
            out[i] = sb.sh(f"sleep 0.2; echo {i}")["stdout"]
        threads = [threading.Thread(target=run, args=(i,)) for i in range(20)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        equal(out, [f"{i}\n" for i in range(20)])
    with Daemon("--max-execs", "2") as d:
        with d.sandbox() as sb:
            for _ in range(2):
                d.post(sb.path + "/exec", {"command": ["sleep", "9"], "async": True})
            a = d.post(sb.path + "/exec", {"command": ["true"]})
            fail(a, 429, "limit_exceeded", words="max_execs")
            check(a.headers["Retry-After"], a.headers)


@test("max_sandboxes is a limit by name")
def test_max_sandboxes_is_a_limit_by_name():
    with Daemon("--max-sandboxes", "2") as d:
        with d.sandbox(), d.sandbox():
            fail(d.post("/v1/sandboxes", {}), 429, "limit_exceeded", words="max_sandboxes")
        equal(d.run("true")["exit_code"], 0)


# --- files

@test("files: write, read, stat, list, mkdir, move, remove")
def test_files_write_read_stat_list_mkdir_move_remove():
    with daemon().sandbox() as sb:
        d, f = sb.daemon, sb.path + "/files"
        equal(d.post(f + "/mkdir", {"path": "/workspace/a/b", "parents": True}).status, 200)
        equal(d.put(f + "/content?path=/workspace/a/b/f.bin&mode=640", bytes(range(256))).status, 200)
        equal(d.get(f + "/content?path=/workspace/a/b/f.bin").body, bytes(range(256)))
        equal(sb.sh("stat -c '%a %s %U' /workspace/a/b/f.bin")["stdout"], "640 256 sandbox\n")
        s = d.get(f + "/stat?path=/workspace/a/b/f.bin").json
        equal((s["size"], s["name"], s["type"]), (256, "f.bin", "file"), s)
        listing = d.get(f + "?path=/workspace/a").json
        equal([(x["name"], x["type"]) for x in listing["entries"]], [("b", "directory")], listing)
        listing = d.get(f + "?path=/workspace/a&recursive=1").json
        check(any(x["path"].endswith("b/f.bin") for x in listing["entries"]), listing)
        equal(d.put(f + "/content?path=/workspace/a/b/f.bin&append=1", b"more").status, 200)
        equal(d.get(f + "/content?path=/workspace/a/b/f.bin&offset=254").body, b"\xfe\xffmore")
        equal(d.get(f + "/content?path=/workspace/a/b/f.bin&offset=1&length=3").body, b"\1\2\3")
        equal(d.get(f + "/content?path=/workspace/a/b/f.bin&length=2").body, b"\0\1")
        equal(d.get(f + "/content?path=/workspace/a/b/f.bin&offset=9999").body, b"")
        equal(d.post(f + "/move", {"from": "/workspace/a/b/f.bin", "to": "/workspace/g"}).status, 200)
        equal(d.get(f + "/stat?path=/workspace/g").json["size"], 260)
        fail(d.get(f + "/content?path=/workspace/a/b/f.bin"), 404, "not_found")
        equal(d.delete(f + "?path=/workspace/a&recursive=1").status, 200)
        equal(d.delete(f + "?path=/workspace/g").status, 200)
        equal(sb.sh("ls -A /workspace")["stdout"], "")
        equal(d.put(f + "/content?path=/workspace/empty", b"").status, 200)
        equal(d.get(f + "/content?path=/workspace/empty").body, b"")


@test("files: errors say what and which")
def test_files_errors_say():
    with daemon().sandbox() as sb:
        d, f = sb.daemon, sb.path + "/files"
        fail(d.get(f), 400, "invalid_request", "path")
        fail(d.get(f + "/content"), 400, "invalid_request", "path")
        fail(d.get(f + "/content?path=/nope"), 404, "not_found", words="/nope")
        fail(d.get(f + "?path=/nope"), 404, "not_found", words="/nope")
        fail(d.get(f + "/stat?path=/nope"), 404, "not_found", words="/nope")
        fail(d.delete(f + "?path=/nope"), 404, "not_found", words="/nope")
        fail(d.get(f + "/tar?path=/nope"), 404, "not_found", words="/nope")
        fail(d.get(f + "/content?path=/workspace"), 409, "conflict", words="directory")
        check(d.put(f + "/content?path=/etc/x", b"x").status in (403, 400, 507), "wrote to /etc")
        check(d.put(f + "/content?path=/nope/x/", b"x").status >= 400, "no such place")
        d.post(f + "/mkdir", {"path": "/workspace/d"})
        fail(d.post(f + "/mkdir", {"path": "/workspace/d"}), 409, "conflict")
        fail(d.post(f + "/mkdir", {"path": "/workspace/x/y/z"}), 404, "not_found")
        d.put(f + "/content?path=/workspace/d/f", b"x")
        fail(d.delete(f + "?path=/workspace/d"), 409, "conflict")
        fail(d.post(f + "/mkdir", {}), 400, "invalid_request", "path")
        fail(d.post(f + "/move", {"from": "/workspace/d"}), 400, "invalid_request", "to")
        fail(d.post(f + "/move", {"from": "/workspace/nope", "to": "/workspace/x"}), 404, "not_found")
        for bad in ("offset=x", "offset=-1", "length=x", "offset=99999999999999999999999"):
            fail(d.get(f + "/content?path=/etc/passwd&" + bad), 400, "invalid_request", bad.split("=")[0])
        for bad in ("999", "", "77777", "0x1"):
            fail(d.put(f + "/content?path=/workspace/m&mode=" + bad, b"x"), 400, "invalid_request", "mode")
        sb.sh("mkfifo /workspace/p")
        check(d.get(f + "/content?path=/workspace/p").status >= 400, "read a pipe")
        check(d.put(f + "/content?path=/workspace/p", b"x").status >= 400, "wrote a pipe")


@test("files: odd names")
def test_files_odd_names():
    with daemon().sandbox() as sb:
        for name in ("a b", "é", "100%", "a+b", "x&y=z", "q?r", "#h", "new\nline", "-rf", "a" * 255):
            import urllib.parse
            p = "/workspace/" + name
            q = urllib.parse.quote(p)
            equal(sb.daemon.put(f"{sb.path}/files/content?path={q}", name.encode()).status, 200, name)
            equal(sb.daemon.get(f"{sb.path}/files/content?path={q}").body, name.encode())
        equal(len(sb.daemon.get(f"{sb.path}/files?path=/workspace").json["entries"]), 10)
        check(sb.daemon.put(f"{sb.path}/files/content?path=/workspace/{'a' * 256}", b"x").status >= 400, "a name of 256")


@test("files: what cannot be removed is known before anything is touched")
def test_files_what_cannot_be_removed_is_known():
    with daemon().sandbox() as sb:
        d, f = sb.daemon, sb.path + "/files"
        sb.sh("mkdir -p d/e keep locked/in; touch d/e/x keep/y locked/in/z; chmod 555 locked/in; cp -r d copy")
        before = sb.sh("find /workspace /tmp")["stdout"]
        for path, status in ((".", 400), ("./", 400), ("/workspace/.", 400), ("d/..", 400), ("d/e/../..", 400), ("d/.", 400),
                             ("/workspace", 409), ("/workspace/", 409), ("/workspace//", 409), ("/tmp", 403), ("/", 400),
                             ("locked", 403), ("/usr/bin", 403), ("/usr", 403)):
            a = d.delete(f"{f}?path={path}&recursive=true")
            check(a.status == status or (status in (403, 409) and a.status in (403, 409)), (path, a))
            equal(sb.sh("find /workspace /tmp")["stdout"], before, path)
        for query in ("path=.", "path=.&recursive=true", "path=d/.&recursive=true"):
            fail(d.delete(f"{f}?{query}"), 400, "invalid_request", words="does not end in the name")
        fail(d.post(f + "/move", {"from": "d", "to": "d/x"}), 400, "invalid_request", words="cannot be moved into itself")
        for path in ("d/..", ".", "new/", "new/.", "new/x/.."):
            fail(d.put(f"{f}/content?path={path}", b"x"), 400, "invalid_request")
        for body in ({"from": ".", "to": "/tmp/x"}, {"from": "d/..", "to": "x"}, {"from": "d", "to": "."}, {"from": "d", "to": "d/x"}):
            check(d.post(f + "/move", body).status in (400, 403, 409), body)
        equal(sb.sh("find /workspace /tmp")["stdout"], before)
        equal(d.delete(f"{f}?path=copy/&recursive=true").json, {"ok": True})
        sb.sh("chmod 755 locked/in")
        equal(d.delete(f"{f}?path=locked&recursive=true").json, {"ok": True})
        fail(d.get(f"{f}/stat?path=locked"), 404, "not_found")


@test("files: the tool file_system does not empty what it cannot remove")
def test_files_the_tool_file_system_does_not_empty():
    d = daemon()
    equal(d.post("/v1/sandbox/create", {"sandbox_id": "empties"}).status, 200)

    def tool(**args):
        return d.post("/v1/sandbox/execute", {"sandbox_id": "empties", "tool": {"name": "file_system", "args": args},
                                               "policy": {"Workdir": "/workspace"}}).json
    tool(action="write", path="d/x", content="x")
    for path in (".", "./", "/workspace", "d/..", "/workspace/."):
        a = tool(action="delete", path=path, recursive=True)
        check(a["status"] == "error" or not a["result"]["success"], (path, a))
        equal(tool(action="read", path="d/x")["result"]["content"], "x", path)
    d.post("/v1/sandbox/destroy", {"sandbox_id": "empties"})


@test("files: a directory is downloaded whole or not at all, and a listing tells what it could not read")
def test_files_a_directory_is_downloaded_whole():
    with daemon().sandbox() as sb:
        d, f = sb.daemon, sb.path + "/files"
        sb.sh("mkdir -p d/closed; touch d/a d/closed/b d/z; chmod 000 d/z")
        for closed, name in (("chmod 000 d/z", "d/z"), ("chmod 644 d/z; chmod 000 d/closed", "d/closed")):
            sb.sh(closed)
            a = d.get(f"{f}/tar?path=d")
            fail(a, 403, "forbidden", words=name)
        entries = {e["path"]: e for e in d.get(f"{f}?path=d&recursive=true").json["entries"]}
        equal([p for p, e in entries.items() if e.get("unreadable")], ["d/closed"], entries)
        sb.sh("chmod 755 d/closed")
        equal(d.get(f"{f}/tar?path=d").status, 200)


@test("files: long paths, devices and names that are not UTF-8 have their own answers")
def test_files_long_paths_devices_and_names():
    with daemon().sandbox() as sb:
        d, f = sb.daemon, sb.path + "/files"
        for n in (4093, 4094, 4095, 4096, 4097, 9000):
            path = ("/workspace/" + "/".join(["n" * 200] * 50))[:n]
            for method, what in (("GET", ""), ("GET", "/stat"), ("GET", "/content"), ("GET", "/tar"), ("DELETE", "")):
                a = d.request(method, f"{f}{what}?path={path}")
                check(a.status in (400, 404), (n, method, what, a))
        sb.sh("mkdir deep; touch deep/file; cd deep; for i in $(seq 400); do mkdir x; cd x; done")
        for method, what in (("DELETE", "?recursive=true&"), ("GET", "?recursive=true&"), ("GET", "/tar?")):
            fail(d.request(method, f"{f}{what}path=deep"), 400, "invalid_request", words="too long")
        equal(d.get(f"{f}/stat?path=deep/file").status, 200, "nothing was removed")
        for device in ("/dev/tty", "/dev/null", "/dev/ptmx", "/dev/pts/ptmx"):
            fail(d.get(f"{f}/content?path={device}"), 400, "invalid_request")
        for name in ("a%FFb", "%C3", "dir%80/%F0%9F"):
            equal(d.put(f"{f}/content?path=odd/{name}", name.encode()).status, 200, name)
        listed = [e for e in d.get(f"{f}?path=odd&recursive=1").json["entries"] if e["type"] == "file"]
        equal(sorted(e["path_encoded"] for e in listed), sorted(["odd/a%FFb", "odd/%C3", "odd/dir%80/%F0%9F"]), listed)
        for e in listed:
            equal(d.get(f"{f}/content?path={e['path_encoded']}").body, e["path_encoded"][4:].encode(), e)
            equal(d.get(f"{f}/stat?path={e['path_encoded']}").json["path_encoded"], e["path_encoded"])
            equal(d.delete(f"{f}?path={e['path_encoded']}").status, 200)
        check("path_encoded" not in d.get(f"{f}/stat?path=odd").json, "an ordinary name needs none")


@test("files: a length, an ETag, ranges and conditions")
def test_files_a_length_an_etag_ranges_and_conditions():
    with daemon().sandbox() as sb:
        d, path = sb.daemon, sb.path + "/files/content?path=r"
        content = bytes(range(256)) * 1000
        d.put(path, content)
        a = d.get(path)
        etag = a.headers["ETag"]
        equal((a.status, a.body == content, a.headers["Content-Length"], a.headers["Accept-Ranges"]),
              (200, True, str(len(content)), "bytes"))
        check(re.fullmatch(r'"[^"\s]+"', etag), etag)
        size = len(content)
        for spec, first, last in (("0-0", 0, 0), ("5-9", 5, 9), ("100-", 100, size - 1), ("-7", size - 7, size - 1),
                                  (f"0-{size * 9}", 0, size - 1), (f"-{size * 9}", 0, size - 1), (f"{size - 1}-", size - 1, size - 1)):
            a = d.get(path, headers={"Range": "bytes=" + spec})
            equal((a.status, a.headers["Content-Range"], a.headers["Content-Length"], a.body == content[first:last + 1]),
                  (206, f"bytes {first}-{last}/{size}", str(last - first + 1), True), spec)
        for spec in (f"{size}-", f"{size + 5}-{size + 9}", "-0", f"{2**63}-", f"{2**64 - 1}-"):
            a = d.get(path, headers={"Range": "bytes=" + spec})
            equal((a.status, a.headers["Content-Range"], a.json["error"]["code"]), (416, f"bytes */{size}", "invalid_request"), spec)
        for spec in ("bytes=9-5", "bytes=x-", "bytes=-", "bytes=0-1,3-4", "lines=0-1", "bytes=0", "bytes=" + "9" * 90 + "-"):
            equal((d.get(path, headers={"Range": spec}).status, d.get(path, headers={"Range": spec}).body == content), (200, True), spec)
        equal(d.get(path, headers={"Range": "bytes=0-1", "If-Range": etag}).status, 206)
        equal(d.get(path, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status, 200)
        equal([(x.status, x.body) for x in (d.get(path, headers={"If-None-Match": f'"z", {etag}'}),)], [(304, b"")])
        for tags, status in ((etag, 200), ("*", 200), (f'"z", {etag}', 200), ('"other"', 412)):
            equal(d.get(path, headers={"If-Match": tags}).status, status, tags)
        h = d.request("HEAD", path)
        equal((h.status, h.headers["Content-Length"], h.headers["ETag"], h.body), (200, str(size), etag, b""))
        equal(d.request("HEAD", path, headers={"If-Match": '"other"'}).status, 412)
        for name, value in (("If-Match", etag), ("If-Match", '"other"'), ("If-None-Match", "*"),
                            ("If-Unmodified-Since", "Mon, 16 Nov 2020 00:00:00 GMT")):
            for a in (d.put(path, b"lost", headers={name: value}), d.delete(sb.path + "/files?path=r", headers={name: value})):
                equal((a.status, a.json["error"]["code"]), (400, "unsupported"), name)
                check(name in a.json["error"]["message"], a.json)
        equal(d.get(path).body == content, True, "a condition that is not looked at lets nothing through")
        a = d.get(path + "&offset=10&length=5", headers={"Range": "bytes=0-0"})
        equal((a.status, a.body, a.headers["Content-Length"]), (200, content[10:15], "5"))
        equal(d.get(path + f"&offset={size + 5}").body, b"")
        d.put(path, content[1:])
        check(d.get(path).headers["ETag"] != etag, "other content, other ETag")
        d.put(sb.path + "/files/content?path=empty", b"")
        a = d.get(sb.path + "/files/content?path=empty")
        equal((a.status, a.headers["Content-Length"], a.body), (200, "0", b""))
        equal(d.get(sb.path + "/files/content?path=empty", headers={"Range": "bytes=0-"}).status, 416)
        a = d.get(sb.path + "/files/content?path=/proc/self/status")
        check(a.status == 200 and a.body.startswith(b"Name:"), a)


@test("files: 64 MiB up and down without keeping them")
def test_files_64_mib_up_and_down_without_keeping_them():
    with daemon().sandbox(limits={"disk_mb": 200}) as sb:
        d = sb.daemon
        block = os.urandom(MIB)
        want = hashlib.sha256(block * 64).hexdigest()
        def body():
            for _ in range(64):
                yield block
        import http.client
        for chunked in (False, True):
            c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
            headers = {} if chunked else {"Content-Length": str(64 * MIB)}
            c.request("PUT", f"{sb.path}/files/content?path=/workspace/big", body(), headers, encode_chunked=chunked)
            r = c.getresponse()
            equal((r.status, r.read()), (200, b'{"ok":true}'))
            c.close()
            equal(sb.sh("sha256sum < /workspace/big")["stdout"].split()[0], want)
        c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
        c.request("GET", f"{sb.path}/files/content?path=/workspace/big")
        r, digest, n = c.getresponse(), hashlib.sha256(), 0
        while True:
            piece = r.read(MIB)
            if not piece:
                break
            digest.update(piece)
            n += len(piece)
        c.close()
        equal((n, digest.hexdigest()), (64 * MIB, want))
        rss = int(status_of(d.get("/v1/status").json["pid"])["VmHWM"].split()[0])
        allowed = (400 if SANITIZED else 100) * 1024  # a sanitizer keeps what is freed
        check(rss < allowed, f"the control plane used {rss} KiB")


@test("files: an upload that its client leaves is no file that looks whole; over disk is no_space")
def test_files_an_upload_that_its_client_leaves():
    with daemon().sandbox(limits={"disk_mb": 16}) as sb:
        d = sb.daemon
        s = d.connect()
        s.sendall(f"PUT {sb.path}/files/content?path=/workspace/half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n".encode() + b"x" * 1000000)
        time.sleep(0.3)
        s.close()
        wait_for(lambda: sb.sh("ls -A /workspace")["stdout"] == "", "nothing of it is left")
        a = d.put(f"{sb.path}/files/content?path=/workspace/full", b"x" * (28 * MIB))
        fail(a, 507, "no_space")
        equal(sb.sh("ls -A /workspace")["stdout"], "")
        equal(sb.sh("rm -f /workspace/*; echo ok > /workspace/f; cat /workspace/f")["stdout"], "ok\n")
    with Daemon("--max-upload-bytes", "1Mi") as d:
        with d.sandbox() as sb:
            fail(d.put(f"{sb.path}/files/content?path=/workspace/x", b"x" * (MIB + 1)), 413, "too_large", words="max_upload_bytes")
            equal(d.put(f"{sb.path}/files/content?path=/workspace/x", b"x" * MIB).status, 200)


@test("files: tar up and down")
def test_files_tar_up_and_down():
    with daemon().sandbox() as sb:
        d = sb.daemon
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as t:
            for name, data, mode in (("dir/a.txt", b"alpha", 0o644), ("dir/run.sh", b"#!/bin/sh\necho ran\n", 0o755),
                                     ("n" * 90 + "/" + "m" * 120, b"long", 0o600), ("big", b"z" * (3 * MIB), 0o644)):
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), mode
                t.addfile(info, io.BytesIO(data))
            link = tarfile.TarInfo("dir/link")
            link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
            t.addfile(link)
        equal(d.put(f"{sb.path}/files/tar?path=/workspace/in", buffer.getvalue()).status, 200)
        equal(sb.sh("cd /workspace/in; cat dir/a.txt dir/link; dir/run.sh; wc -c < big; ls | wc -l")["stdout"], "alphaalpharan\n3145728\n3\n")
        a = d.get(f"{sb.path}/files/tar?path=/workspace/in")
        equal((a.status, a.headers["Content-Type"]), (200, "application/x-tar"))
        with tarfile.open(fileobj=io.BytesIO(a.body)) as t:
            names = {m.name.lstrip("./"): m for m in t.getmembers()}
            key = next(k for k in names if k.endswith("dir/run.sh"))
            equal((names[key].mode & 0o777, t.extractfile(names[key]).read()), (0o755, b"#!/bin/sh\necho ran\n"))
            check(any(k.endswith("m" * 120) for k in names), list(names))
            equal(next(m for k, m in names.items() if k.endswith("dir/link")).linkname, "a.txt")


@test("files: a tar cannot write outside its directory, and garbage is an error")
def test_files_a_tar_cannot_write_outside_its_directory():
    with daemon().sandbox() as sb:
        d = sb.daemon
        def tar(*members):
            b = io.BytesIO()
            with tarfile.open(fileobj=b, mode="w") as t:
                for name, kind, target in members:
                    i = tarfile.TarInfo(name)
                    i.type, i.linkname = kind, target
                    data = b"bad" if kind == tarfile.REGTYPE else b""
                    i.size = len(data)
                    t.addfile(i, io.BytesIO(data))
            return b.getvalue()
        for evil in (tar(("../escaped", tarfile.REGTYPE, "")), tar(("/tmp/escaped", tarfile.REGTYPE, "")),
                     tar(("l", tarfile.SYMTYPE, "/tmp"), ("l/escaped", tarfile.REGTYPE, "")),
                     tar(("a/../../escaped", tarfile.REGTYPE, ""))):
            d.put(f"{sb.path}/files/tar?path=/workspace/in", evil)
            equal(sb.sh("find / -name escaped -not -path '/proc/*' -not -path '/workspace/in/*' 2>/dev/null; rm -rf /workspace/in")["stdout"], "")
        for bad in (b"garbage" * 200, b"\0" * 100, buffer_cut(tar(("x", tarfile.REGTYPE, "")))):
            a = d.put(f"{sb.path}/files/tar?path=/workspace/in", bad)
            check(a.status in (400, 422), a)


def buffer_cut(data):
    return data[:700]


# --- idempotency

@test("idempotency: the same key and body is the same answer, run once")
def test_idempotency_the_same_key_and_body_is_the_same():
    d = daemon()
    with d.sandbox() as sb:
        pass
    h = {"Idempotency-Key": "k1"}
    one = d.post("/v1/run", {"command": ["sh", "-c", "date +%N; cat /proc/sys/kernel/random/uuid"]}, headers=h)
    two = d.post("/v1/run", {"command": ["sh", "-c", "date +%N; cat /proc/sys/kernel/random/uuid"]}, headers=h)
    equal(two.body, one.body)
    equal((one.headers["Idempotency-Replayed"], two.headers["Idempotency-Replayed"]), (None, "true"))
    fail(d.post("/v1/run", {"command": ["true"]}, headers=h), 409, "conflict")
    a = d.post("/v1/sandboxes", {}, headers=h)
    b = d.post("/v1/sandboxes", {}, headers=h)
    equal((a.status, b.status, b.json["id"]), (201, 201, a.json["id"]), "keys are per route")
    c = d.post("/v1/sandboxes", {}, headers={"Idempotency-Key": "k2"})
    check(c.json["id"] != a.json["id"], "another key is another sandbox")
    d.delete("/v1/sandboxes/" + a.json["id"]), d.delete("/v1/sandboxes/" + c.json["id"])
    x = d.post("/sandboxes", {}, headers={"Idempotency-Key": "k3"})
    equal(d.post("/sandboxes", {}, headers={"Idempotency-Key": "k3"}).json, x.json)
    d.delete("/sandboxes/" + x.json["id"])
    for bad in ("x" * 256, ""):
        fail(d.post("/v1/run", {"command": ["true"]}, headers={"Idempotency-Key": bad}), 400, "invalid_request", words="1 to 255")


@test("idempotency: where no answers are remembered, a key is refused or told")
def test_idempotency_where_no_answers_are_remembered():
    h = {"Idempotency-Key": "twice"}
    with daemon().sandbox() as sb:
        d = sb.daemon
        for _ in range(2):
            fail(d.post(sb.path + "/exec", {"command": ["sh", "-c", "echo x >> n"]}, headers=h), 400, "unsupported", words="Idempotency-Key")
        fail(d.post(sb.path + "/files/mkdir", {"path": "d"}, headers=h), 400, "unsupported", words="Idempotency-Key")
        fail(d.request("PATCH", sb.path + "/network", {"mode": "none"}, headers=h), 400, "unsupported", words="Idempotency-Key")
        fail(d.put(sb.path + "/files/content?path=n&append=1", b"x", headers=h), 400, "unsupported", words="Idempotency-Key")
        equal(d.get(sb.path + "/files?path=.").json["entries"], [])
        equal(d.put(sb.path + "/files/content?path=n", b"x", headers=h).status, 200, "it does the same again")
        equal(d.delete(sb.path + "/files?path=n", headers=h).status, 200)
    a = d.post("/v1/sandbox/execute", {"tool": {"name": "calculator", "args": {"expression": "1"}}}, headers=h)
    equal((a.status, a.headers["X-Mas-Ignored"]), (200, "Idempotency-Key"))


@test("a header that says who asks, or for what, comes once")
def test_a_header_that_says_who_asks_or_for_what_comes():
    d = daemon()
    for name in ("Idempotency-Key", "X-Sandbox-Token", "X-Mas-Approval", "x-mas-approval-id", "X-Mas-Traffic-Token", "Last-Event-ID"):
        answer = d.raw(f"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n{name}: a\r\n{name.upper()}: a\r\nConnection: close\r\n\r\n".encode())
        check(answer.startswith(b"HTTP/1.1 400 ") and name.lower().encode() in answer.lower(), answer)


@test("members that would do nothing beside another one are refused")
def test_members_that_would_do_nothing_beside_another_one():
    d = daemon()
    with d.sandbox() as sb:
        def refused(path, field, **more):
            fail(d.post(path, dict(command=["true"], **more)), 400, "invalid_request", field=field)
        refused(sb.path + "/exec", "stream", **{"async": True, "stream": True})
        refused(sb.path + "/exec", "rows", rows=5)
        refused(sb.path + "/exec", "cols", cols=5, **{"async": True})
        refused("/v1/run", "files[0].content_base64", files=[{"path": "x", "content": "a", "content_base64": "Yg=="}])
        equal(d.post(sb.path + "/exec", {"command": ["true"], "async": True, "stream": False, "rows": None}).status, 200)


@test("a condition is not passed over by any method that changes something")
def test_a_condition_is_not_passed_over_by_any_method():
    h = {"If-Match": '"another"'}
    with daemon().sandbox() as sb:
        d = sb.daemon
        for a in (d.request("PATCH", sb.path + "/network", {"mode": "none"}, headers=h), d.post(sb.path + "/exec", {"command": ["true"]}, headers=h),
                  d.post(sb.path + "/pause", headers=h), d.delete(sb.path, headers=h)):
            fail(a, 400, "unsupported", words="If-Match")
        equal(d.get(sb.path).json["state"], "ready")


@test("idempotency: at once, and when the first client left")
def test_idempotency_at_once_and_when_the_first_client():
    d = daemon()
    before = d.get("/v1/status").json["counts"]["execs_total"]
    body, out = {"command": ["sh", "-c", "sleep 0.5; cat /proc/sys/kernel/random/uuid"]}, []
    threads = [threading.Thread(target=lambda: out.append(d.post("/v1/run", body, headers={"Idempotency-Key": "at-once"}).json["stdout"]))
               for _ in range(5)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    equal((len(out), len(set(out))), (5, 1), out)
    equal(d.get("/v1/status").json["counts"]["execs_total"] - before, 1)
    s, raw = d.connect(), json.dumps({"command": ["sh", "-c", "sleep 0.6; cat /proc/sys/kernel/random/uuid"]}).encode()
    s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: left\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
    time.sleep(0.2)
    s.close()
    a = d.post("/v1/run", raw, headers={"Idempotency-Key": "left"})
    equal((a.status, a.headers["Idempotency-Replayed"]), (200, "true"))
    equal(len(a.json["stdout"]), 37)


# --- the rest

@test("status: versions, pids, counts, runtimes and what they enforce")
def test_status_versions_pids_counts_runtimes():
    s = daemon().get("/v1/status").json
    check(s["pid"] > 1 and s["warden_pid"] > 1 and s["version"] and s["status"] == "ok", s)
    local = next(r for r in s["runtimes"] if r["name"] == "local")
    check(local["available"] and local["enforces"]["memory"] and local["enforces"]["syscalls"], local)
    check("0" not in status_of(s["pid"])["Uid"].split(), "the control plane is root")


@test("tools are listed with their capabilities")
def test_tools_are_listed_with_their_capabilities():
    t = {x["name"]: x["capabilities"] for x in daemon().get("/v1/tools").json["tools"]}
    equal(t, {"calculator": [], "file_system": ["file"], "http_client": ["network"], "fetch": ["network"],
              "web_search": ["network"], "shell": ["unsafe"], "code": ["unsafe"]})


@test("native errors have one shape")
def test_native_errors_have_one_shape():
    d = daemon()
    fail(d.get("/v1/nothing"), 404, "not_found")
    fail(d.put("/v1/run", "{}"), 405, "method_not_allowed")
    fail(d.post("/v1/run", "{"), 400, "invalid_request")
    fail(d.post("/v1/run", {}), 400, "invalid_request", "command")
    fail(d.get("/v1/sandboxes/nope"), 404, "not_found")
    fail(d.post("/v1/run", b"x" * (MIB + 1)), 413, "too_large", words="max_body_bytes")
    fail(d.get("/v1/debug/echo"), 404, "not_found")


@test("Host and Origin: a web page cannot drive the daemon")
def test_host_and_origin_a_web_page_cannot_drive():
    d = daemon()
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        fail(d.get("/v1/status", headers={"Host": host}), 403, "forbidden")
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        fail(d.post("/v1/run", {"command": ["true"]}, headers={"Origin": origin}), 403, "forbidden")
    equal(d.get("/v1/status", headers={"Origin": f"http://127.0.0.1:{d.port}"}).status, 200)
    with d.sandbox() as sb:
        path = start(sb, "sleep", "3")
        equal(d.ws(path + "/attach", {"Origin": "http://evil.example"}).status, 403)


@test("exec: a command that stops reading its input goes on, and so does its sandbox")
def test_exec_a_command_that_stops_reading_its_input_goes():
    d = daemon()
    with d.sandbox() as sb:
        for i in range(60):
            r = sb.sh("head -c 10; exec 0<&-; sleep 0.02", stdin="x" * 900000)
            equal((r["status"], r["stdout"]), ("completed", "x" * 10), f"round {i}")


main()
