#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The gate cannot be walked around: every way in, from its own table, meets a policy that denies."""
import os
import pty
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from guarded import *
from mcp import *
from routes import *

DENY = "version: 1\ndefault: deny\nunknown: deny\nrules: []\n"
ALLOW = "version: 1\ndefault: allow\nrules:\n  - {id: all, verdict: allow, command: '*'}\n"


_guarded = None


def denied():
    """One daemon that denies everything, with a sandbox in it."""
    global _guarded
    if not _guarded:
        _guarded = Guarded(DENY).start()
        atexit.register(_guarded.__exit__)
        _guarded.box = _guarded.sandbox().id
    return _guarded


# --- HTTP

# What a person approves was decided about when it was asked for, and is again when it runs.
LATER = ("post", "/api/actions/{id}/approve")


@test("every route that executes is refused by a policy that denies, and that is on record")
def test_every_route_that_executes_is_refused_by_a_policy():
    d = denied()
    table = {(r["method"], r["path"]) for r in route_table() if r["executes"]} - {LATER}
    check(len(table) > 15, table)
    for method, path in sorted(table):
        before = d.count("refusal")
        real, body = request_to(method, path, d.box, "ex-none")
        a = d.request(method.upper(), real, body)
        text = a.body.decode()
        if path == "/v1/sandbox/execute":
            equal((a.status, a.json["error"]["code"]), (200, "policy_denied"), path)
        else:
            equal(a.status, 403, f"{method} {path}: {a}")
        check("default" in text, f"{path} names the rule: {text}")
        equal(d.count("refusal"), before + 1, f"{method} {path}: a refusal on record")
        last = d.records(kind="refusal")[-1]
        equal((last["outcome"], last["rule"], last["revision"]), ("deny", "default", d.revision()), path)
    equal(d.count("intent"), 0, "nothing was about to run")
    equal(d.get("/v1/status").json["counts"]["execs_total"], 0, "and nothing ran")


@test("what does not execute says so: no other route starts anything")
def test_what_does_not_execute_says_so_no_other_route():
    d = denied()
    before = d.get("/v1/status").json["counts"]["execs_total"]
    for r in route_table():
        if r["executes"] or r["websocket"] or r["path"].startswith("/v1/debug") or r["method"] == "delete" or "reload" in r["path"]:
            continue
        path = r["path"].replace("{id}", d.box).replace("{exec_id}", "none")
        if "destroy" not in path:
            d.request(r["method"].upper(), path, {"command": ["true"], "tool": {"name": "shell", "args": {"command": "true"}}} if r["method"] != "get" else None)
    equal(d.get("/v1/status").json["counts"]["execs_total"], before)


# --- the other ways in

LINES = {"calculator": {"expression": "1"}, "file_system": {"action": "read", "path": "/etc/hosts"}, "http_client": {"method": "GET", "url": "http://example.com"},
         "fetch": {"url": "http://example.com"}, "web_search": {"query": "x"}, "shell": {"command": "true"}, "code": {"language": "sh", "code": "true"}}


@test("every tool, over HTTP and over lines")
def test_every_tool_over_http_and_over_lines():
    d = denied()
    names = [t["name"] for t in d.get("/v1/tools").json["tools"]]
    equal(sorted(names), sorted(LINES), "arguments for each of them")
    lines = ""
    for name in names:
        before = d.count("refusal")
        a = d.post("/v1/sandbox/execute", {"tool": {"name": name, "args": LINES[name]}, "policy": {"Network": {"Enabled": True}}}).json
        equal(a["error"]["code"], "policy_denied", name)
        equal(d.count("refusal"), before + 1, name)
        lines += json.dumps({"id": name, "tool": name, "args": LINES[name], "policy": {"Network": {"Enabled": True}}}) + "\n"
    p = subprocess.run([SANDBOXD, "--policy-file", d.policy], input=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
    answers = {a["id"]: a for a in map(json.loads, p.stdout.splitlines())}
    for name in names:
        check("denied by rule '" in answers[name]["error"], answers[name])
        check("result" not in answers[name], answers[name])


MCP_EXECUTES = {"run_command": {"command": "true"}, "run_code": {"language": "python", "code": "1"}, "start_command": {"command": "true"},
                "read_file": {"path": "x"}, "write_file": {"path": "x", "content": "y"}, "edit_file": {"path": "x", "old_text": "a", "new_text": "b"},
                "list_files": {}, "search_files": {"pattern": "x"}, "upload_file": {"path": "x", "content_base64": "eA=="}, "download_file": {"path": "x"}}
MCP_OTHER = {"create_sandbox", "list_sandboxes", "destroy_sandbox", "list_runtimes", "read_output", "send_input", "stop_command"}


@test("every MCP tool that executes")
def test_every_mcp_tool_that_executes():
    d = denied()
    c = Client(d)
    tools = {t["name"]: t for t in c.ask("tools/list")["result"]["tools"]}
    equal(sorted(tools), sorted(set(MCP_EXECUTES) | MCP_OTHER), "each tool is known to this test")
    for name, arguments in MCP_EXECUTES.items():
        arguments = dict(arguments)
        if "sandbox_id" in tools[name]["inputSchema"]["properties"]:
            arguments["sandbox_id"] = d.box
        before = d.count("refusal")
        a = c.ask("tools/call", {"name": name, "arguments": arguments})
        check("result" in a and a["result"].get("isError"), f"{name}: {a}")
        check("denied by rule '" in json.dumps(a["result"]["content"]), f"{name}: {a}")
        equal(d.count("refusal"), before + 1, f"{name}: a refusal on record")
    equal(d.count("intent"), 0)


CLI_EXECUTES = {"run": ["--", "true"], "exec": ["-id", "ID", "-sync", "--", "true"], "cp": ["/etc/hostname", "ID:x"], "ls": ["ID:/"],
                "create": ["-cmd", "true"], "shell": ["-id", "ID", "--", "true"]}
CLI_OTHER = {"logs", "pause", "port-forward", "resume", "status", "delete", "exec-status", "exec-cancel", "fork", "restore", "snapshot", "validate", "keys", "policy", "audit", "mcp", "hook", "approvals", "completion", "doctor", "events", "setup", "upgrade", "version", "help", "image", "net"}


@test("every CLI verb that executes")
def test_every_cli_verb_that_executes():
    d = denied()
    p = subprocess.run([SBX, "--help"], stdout=subprocess.PIPE, text=True)
    verbs = {line.split()[0] for line in p.stdout.splitlines() if line.startswith("  ")}
    equal(sorted(verbs), sorted(set(CLI_EXECUTES) | CLI_OTHER), "each verb is known to this test")
    for verb, argv in CLI_EXECUTES.items():
        before = d.count("refusal")
        argv = [a.replace("ID", d.box) for a in argv]
        outer, inner = pty.openpty()
        p = subprocess.run([SBX, verb, "-addr", f"http://127.0.0.1:{d.port}", *argv], stdin=inner, stdout=inner if verb == "shell" else subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(outer)
        os.close(inner)
        check(p.returncode in (122, 123), f"{verb}: {p}")
        check("denied by rule 'default'" in p.stderr, f"{verb}: {p.stderr}")
        check(d.count("refusal") > before, verb)


# --- the policy file itself

@test("a bad file refuses the start and says where")
def test_a_bad_file_refuses_the_start_and_says():
    d = Guarded("version: 1\ndefault: perhaps\n")
    try:
        d.start()
        check(False, "it started")
    except RuntimeError as e:
        check("policy.yaml:2" in str(e), str(e)[-300:])
    p = subprocess.run([SANDBOXD, "--check-config", "--policy-file", d.policy], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(p.returncode != 0 and "policy.yaml:2" in p.stdout, p.stdout)


@test("hot reload: by change, by signal, by request; a bad file keeps the old one and says so")
def test_hot_reload_by_change_by_signal_by_request_a_bad():
    with Guarded(ALLOW) as d:
        equal(d.run("echo", "a")["stdout"], "a\n")
        write(d.policy, DENY)
        wait_for(lambda: d.post("/v1/run", {"command": ["true"]}).status == 403, "the changed file is noticed")
        good = d.revision()
        write(d.policy, "version: 1\ndefault: [nonsense\n")
        wait_for(lambda: "error" in d.get("/v1/status").json["policy"], "the bad file is noticed")
        equal(d.revision(), good, "and is not the policy")
        equal(d.post("/v1/run", {"command": ["true"]}).status, 403)
        a = d.post("/v1/policy/reload")
        check(a.status >= 400 and "policy.yaml" in a.json["error"]["message"], a)
        pid = d.get("/v1/status").json["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: d.get("/v1/status").json["pid"] != pid, "the next control plane")
        equal(d.revision(), good, "a restart while the file is bad keeps the last good one")
        write(d.policy, ALLOW)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: d.revision() != good, "SIGHUP")
        equal(d.run("echo", "b")["stdout"], "b\n")
        equal(d.post("/v1/policy/reload").json["changed"], False)
        outcomes = [r["outcome"] for r in d.records(kind="policy_change")]
        check("refused" in outcomes and outcomes.count("loaded") >= 3, outcomes)
        os.unlink(d.policy)
        time.sleep(1.5)
        equal(d.run("echo", "c")["stdout"], "c\n", "a file that is gone changes nothing")


@test("a file of root's own that the control plane could not read")
def test_a_file_of_root_own_that_the_control_plane_could():
    if os.geteuid() != 0:
        raise Skip("needs root")
    d = Guarded(ALLOW)
    os.chmod(d.place, 0o700)
    os.chmod(d.policy, 0o600)
    with d:
        equal(d.run("echo", "a")["stdout"], "a\n")
        d.replace(DENY)
        equal(d.post("/v1/run", {"command": ["true"]}).status, 403)


@test("obligations: limits are capped, a weaker runtime is refused, the network is taken away")
def test_obligations_limits_are_capped_a_weaker_runtime():
    policy = ALLOW + """  - id: small
    require: {limits: {memory_mb: 64, timeout_s: 2}}
    tool: exec
  - id: offline
    require: {no_network: true}
    capability: network
"""
    with Guarded(policy) as d:
        r = d.run("python3", "-c", "bytearray(300 << 20)", limits={"memory_mb": 512})
        equal(r["status"], "oom_killed", r)
        r = d.run("sleep", "9")
        equal(r["status"], "timed_out", r)
        box = d.sandbox(limits={"memory_mb": 512})
        a = d.post(box.path + "/exec", {"command": ["true"]})
        check(a.status == 403 and "memory" in a.json["error"]["message"], a)
        a = d.post("/v1/sandbox/execute", {"tool": {"name": "fetch", "args": {"url": "http://example.com"}}, "policy": {"Network": {"Enabled": True}}}).json
        equal(a["error"]["code"], "policy_denied", a)
        check("network" in a["error"]["message"], a)


@test("obligations: a runtime is as strong as the daemon says it is, whatever it is called")
def test_obligations_a_runtime_is_as_strong_as_the_daemon():
    with Guarded(ALLOW + "  - {id: wall, require: {runtime: landlock}, tool: exec}\n") as d:
        equal(d.run("echo", "in")["stdout"], "in\n")
        runtimes = {r["name"]: r for r in d.get("/v1/status").json["runtimes"]}
        if not runtimes["landlock"]["available"]:
            return
        box = d.sandbox(runtime="landlock")
        for least, status in (("process", 200), ("landlock", 200), ("local", 403), ("docker-kata", 403)):
            d.replace(ALLOW + f"  - {{id: wall, require: {{runtime: {least}}}, tool: exec}}\n")
            a = d.post(box.path + "/exec", {"command": ["true"]})
            equal(a.status, status, f"{least}: {a}")


@test("obligations: every limit that a rule can name is enforced in a one-shot and refused in a sandbox that has more")
def test_obligations_every_limit_that_a_rule_can_name():
    few = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    fill = "dd if=/dev/zero of=big bs=1M count=40 2>&1 | tail -n 1; wc -c < big"
    forks = "for i in $(seq 60); do sleep 5 & done 2>&1; wait"
    cases = {
        "memory_mb: 64": (["python3", "-c", "bytearray(300 << 20)"], lambda r: r["status"] == "oom_killed"),
        "disk_mb: 8": (["sh", "-c", fill], lambda r: int(r["stdout"].split()[-1]) <= 8 << 20),
        "io_mb_per_s: 1": (["true"], lambda r: "io" in json.dumps(r)),
        "cpu_cores: 0.5": (["true"], lambda r: r["status"] == "completed"),
        "max_processes: 20": (["bash", "-c", forks], lambda r: "fork" in r["stdout"] + r["stderr"]),
        "open_files: 40": (["python3", "-c", few], lambda r: r["stdout"] == "40\n"),
        "timeout_s: 1": (["sleep", "60"], lambda r: r["status"] == "timed_out"),
    }
    for limit, (command, holds) in cases.items():
        with Guarded(ALLOW + "  - {id: small, tool: exec, require: {limits: {%s}}}\n" % limit) as d:
            a = d.post("/v1/run", {"command": command})
            check(a.status in (200, 422) and holds(a.json), (limit, a.json))
            if limit.startswith("timeout_s"):
                continue
            a = d.post(d.sandbox().path + "/exec", {"command": ["true"]})
            equal((a.status, a.json["error"]["code"]), (403, "policy_denied"), limit)
            check(limit.split(":")[0] in a.json["error"]["message"], a)


@test("a policy file that cannot be read is told of when it is asked for, and once by the looks at it")
def test_a_policy_file_that_cannot_be_read():
    with Guarded(ALLOW) as d:
        told = lambda: d.log_text().count("policy is not changed: " + d.policy)
        os.rename(d.policy, d.policy + ".away")
        wait_for(lambda: told() == 1, "the look finds no file")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: told() == 2, "and so does a signal")
        os.mkdir(d.policy)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "it is not a regular file" in d.log_text(), "a directory is none")
        equal(d.run("true")["exit_code"], 0, "the policy that was there holds")
        os.rmdir(d.policy)
        os.rename(d.policy + ".away", d.policy)
        wait_for(lambda: d.post("/v1/policy/reload").status == 200, "it is there again")
        before = told()
        os.rename(d.policy, d.policy + ".away")
        wait_for(lambda: told() == before + 1, "one that goes again is told of again")


@test("a policy file that is being written is not a policy, and one whose own tests fail is none")
def test_a_policy_file_that_is_being_written():
    whole = ALLOW + "  - {id: secret, verdict: deny, command: \"cat *\"}\n"
    with Guarded(whole) as d:
        denied = lambda: d.post("/v1/run", {"command": ["cat", "/dev/null"]}).status
        equal(denied(), 403, "control")
        # An editor that truncates, then writes piece by piece: no look may take what is there in between.
        end = time.monotonic() + 4
        while time.monotonic() < end:
            for cut in (ALLOW, ALLOW + "# more", whole):
                with open(d.policy, "w") as f:
                    f.write(cut)
                time.sleep(0.3)
                equal(denied(), 403, cut)
        # Nor may a control plane that is started meanwhile.
        done = threading.Event()

        def write_on():
            for n in range(1000):
                with open(d.policy, "w") as f:
                    f.write(ALLOW + f"# {n}\n")
                if done.wait(0.3):
                    return
        writer = threading.Thread(target=write_on)
        writer.start()
        d.kill_control()
        status = denied()
        done.set()
        writer.join()
        write(d.policy, whole)
        equal(status, 403, "after a restart")
        broken = ALLOW + "tests:\n  - {command: ls, expect: deny}\n"
        write(d.policy, broken)
        wait_for(lambda: "error" in d.get("/v1/status").json["policy"], "tests that fail are told")
        view = d.get("/v1/status").json["policy"]
        check("1 of its 1 tests fail" in view["error"] and "'ls' is allow" in view["error"], view)
        a = d.post("/v1/policy/reload")
        check(a.status >= 400 and "tests fail" in a.json["error"]["message"], a)
        equal(denied(), 403)


@test("paths are decided on as they resolve: a link is no way around a rule")
def test_paths_are_decided_on_as_they_resolve_a_link():
    policy = ALLOW + """  - {id: secrets, verdict: deny, path: "/workspace/secret/**"}
  - {id: asked, verdict: ask, write: "/workspace/asked/**"}
"""
    with Guarded(ALLOW) as d:
        box = d.sandbox()
        box.sh("mkdir secret asked open; echo s > secret/s; echo o > open/o; ln -s secret alias; ln -s ../secret/s open/link; ln -s ../asked open/a;"
               "ln -s /workspace/secret/new open/dangling; ln -s open open2")
        d.replace(policy)
        f = box.path + "/files"
        get = lambda p: d.get(f"{f}/content?path={p}").status
        equal((get("/workspace/open/o"), get("/workspace/open2/o"), get("open/o")), (200, 200, 200), "control: links as such are fine")
        for path in ("/workspace/secret/s", "/workspace/alias/s", "/workspace/open/link", "/workspace/open/../alias/s", "alias/s", "/workspace//open/./link", "/proc/self/cwd/alias/s"):
            equal(get(path), 403, path)
        equal(d.get(f"{f}?path=/workspace/alias").status, 403)
        equal(d.put(f"{f}/content?path=/workspace/open/dangling", b"x").status, 403, "what would be made through a link")
        equal(d.put(f"{f}/content?path=/workspace/alias/new", b"x").status, 403)
        equal(d.put(f"{f}/content?path=/workspace/open/a/x", b"x").status, 202)
        equal(d.delete(f"{f}?path=/workspace/open/link").status, 200, "removing a link is not about what it leads to")
        equal(d.post(f + "/move", {"from": "/workspace/open/o", "to": "/workspace/alias/o"}).status, 403)
        equal(d.post(f + "/move", {"from": "/workspace/open/o", "to": "/workspace/open/p"}).status, 200)
        equal(d.put(f"{f}/content?path=/workspace/open/deep/er/n", b"x").status, 200)
        equal(d.get(f"{f}/stat?path=/workspace/alias").status, 200)
        with_file = lambda p: d.post(box.path + "/exec", {"command": ["true"], "files": [{"path": "/workspace/open/one", "content": "1"}, {"path": p, "content": "x"}]}).status
        equal((with_file("open/deep/two"), with_file("/workspace/alias/new"), with_file("open/dangling"), with_file("open/a/x")), (200, 403, 403, 202), "files that come with a command")
        a = d.post("/v1/sandbox/execute", {"sandbox_id": box.id, "tool": {"name": "file_system", "args": {"action": "read", "path": "/workspace/alias/s"}},
                                           "policy": {"AllowedPaths": ["/workspace"]}}).json
        equal(a["error"]["code"], "policy_denied", a)
        # a link that changes all the time never leads to the secret
        d.post(box.path + "/exec", {"command": ["python3", "-c", "import os\nwhile 1:\n for t in ('open', 'secret'):\n  os.symlink(t, 'flip.new'); os.rename('flip.new', 'flip')\n os.unlink('flip')"], "async": True})
        box.exec("cp", "open/p", "open/s")
        seen = set()
        for _ in range(200):
            a = d.get(f"{f}/content?path=/workspace/flip/s")
            check(a.body != b"s\n", a)
            seen.add(a.status)
        check(200 in seen or 403 in seen, seen)


@test("the order of a call's records, and a call that could not start")
def test_the_order_of_a_call_records_and_a_call():
    with Guarded(ALLOW) as d:
        d.run("sh", "-c", "echo out; exit 3")
        d.post("/v1/run", {"command": ["/nope"]})
        calls = {}
        for r in d.records():
            if "call" in r:
                calls.setdefault(r["call"], []).append(r)
        kinds = [[r["kind"] for r in c] for c in calls.values()]
        equal(kinds, [["intent", "started", "exited"], ["intent", "exited"]])
        first = list(calls.values())[0]
        equal(first[2]["details"]["exit_code"], 3)
        check(first[2]["details"]["stdout_digest"].startswith("sha256:"), first)
        equal(first[1]["details"]["isolation"]["network"], "namespace")
        equal((first[0]["rule"], first[0]["revision"]), ("all", d.revision()))


main()
