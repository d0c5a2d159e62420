#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An attacker at the API: without the token, from a web page, with names that are paths."""
from attempt import *

TOKEN = "a-long-secret-token"
d = Daemon("-auth-token", TOKEN, env={"MAS_TEST": "1"}).start()
d.token = TOKEN
OPEN = {"/", "/healthz", "/v1/sandbox/health"}
ROUTES = [("GET", "/v1/status"), ("GET", "/v1/sandboxes"), ("POST", "/v1/sandboxes"),
          ("POST", "/v1/run"), ("GET", "/sandboxes"), ("POST", "/sandboxes"), ("GET", "/metrics"),
          ("POST", "/v1/sandbox/execute"), ("POST", "/v1/sandbox/create"), ("GET", "/openapi.json"),
          ("DELETE", "/sandboxes/sbx-x"), ("GET", "/v1/tools")]


def without_token(method, path, **headers):
    saved, d.token = d.token, None
    try:
        return d.request(method, path, body="{}" if method == "POST" else None, headers=headers)
    finally:
        d.token = saved


@test("P20 every route but health needs the token")
def test_p20_every_route_but_health_needs_the_token():
    for method, path in ROUTES:
        equal(without_token(method, path).status, 401, f"{method} {path}")
    for path in OPEN:
        equal(without_token("GET", path).status, 200, path)
    equal(d.get("/v1/status").status, 200, "control: with it")


@test("P20 every route of the OpenAPI document needs the token")
def test_p20_every_route_of_the_openapi_document_needs():
    doc = d.get("/openapi.json").json
    for path, methods in doc["paths"].items():
        url = path.replace("{id}", "sbx-none").replace("{exec_id}", "ex-none")
        for method in methods:
            if method in ("get", "post", "put", "delete") and path not in OPEN:
                status = without_token(method.upper(), url).status
                check(status in (401, 404) and (status == 401 or "debug" in path),
                      f"{method} {path}: {status}")


@test("P20 wrong tokens: short, long, prefix, other case, other scheme, twice")
def test_p20_wrong_tokens_short_long_prefix_other_case():
    for value in ("", "Bearer", "Bearer ", "Bearer x", "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x",
                  "Bearer " + TOKEN.upper(), "Basic " + TOKEN, TOKEN, "Bearer " + TOKEN + "\t"):
        status = without_token("GET", "/v1/status", Authorization=value).status
        check(status in (400, 401) or value.strip() == "Bearer " + TOKEN, f"{value!r}: {status}")
    raw = (f"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\nAuthorization: Bearer wrong\r\n"
           f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n")
    check(b" 200 " not in d.raw(raw.encode()).split(b"\r\n")[0], "two Authorization headers")


@test("P20 a WebSocket needs the token too")
def test_p20_a_websocket_needs_the_token_too():
    saved, d.token = d.token, None
    try:
        equal(d.ws("/sandboxes/sbx-x/stream?exec_id=x").status, 401)
    finally:
        d.token = saved


@test("P20 a web page of another origin")
def test_p20_a_web_page_of_another_origin():
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{d.port + 1}",
                   "http://localhost.evil.example", f"http://127.0.0.1:{d.port}.evil.example"):
        a = d.get("/v1/status", headers={"Origin": origin})
        equal(a.status, 403, origin)
        check("Access-Control-Allow-Origin" not in a.headers, origin)
    equal(d.get("/v1/status", headers={"Origin": f"http://127.0.0.1:{d.port}"}).status, 200, "control")
    equal(d.ws("/sandboxes/x/stream?exec_id=x", {"Origin": "http://evil.example"}).status, 403)


def stranger(daemon, data):
    s = socket.create_connection(("127.0.0.1", daemon.port))
    s.sendall(data)
    return s


@test("P20 strangers who only wait keep neither TCP callers nor the Unix socket out")
def test_p20_strangers_who_only_wait_keep_neither_tcp():
    trickle = b"POST /sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
    with tempfile.TemporaryDirectory() as place, \
            Daemon("-auth-token", TOKEN, "-listen", f"unix:{place}/s", config="max_connections: 40\n") as one:
        one.token = TOKEN
        held = [stranger(one, (trickle, b"GET / HT", b"")[i % 3]) for i in range(60)]
        time.sleep(0.2)  # the newcomer comes in a later turn of the loop
        equal(one.get("/v1/status").status, 200, "with the token")
        turned_away = 0
        for s in held:
            s.setblocking(False)
            try:
                turned_away += b" 503 " in s.recv(65536)
            except BlockingIOError:
                pass
        check(turned_away > 0, "the longest-waiting ones were told 503")
        u = socket.socket(socket.AF_UNIX)
        u.connect(place + "/s")
        u.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        check(u.recv(100).startswith(b"HTTP/1.1 200"), "over the Unix socket")
        for s in held:
            s.close()


@test("P20 a flood of refusals ends, and callers with the token go on")
def test_p20_a_flood_of_refusals_ends_and_callers():
    ask = b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with Daemon("-auth-token", TOKEN, config="refusals_per_minute: 100\n") as one:
        one.token = TOKEN
        answers = one.raw(ask * 2000)
        statuses = re.findall(rb"HTTP/1.1 (\d+)", answers)
        check(100 <= statuses.count(b"401") < 200, f"{statuses.count(b'401')} refusals")
        equal(statuses[-1], b"429", "then the connection ends")
        one.token = None
        a = one.get("/v1/nothing")
        equal((a.status, a.headers["Retry-After"]), (429, "60"), "on another connection, for a path that is not there")
        check("refusals_per_minute" in a.json["error"]["message"], a)
        one.token = TOKEN
        equal(one.get("/v1/status").status, 200)


@test("P20 a key has its share of connections")
def test_p20_a_key_has_its_share_of_connections():
    with Daemon("-auth-token", TOKEN, config="max_connections: 20\nkey_connections_percent: 25\n") as one:
        one.token = TOKEN
        secret = one.post("/v1/keys", {"name": "many", "roles": ["agent"]}).json["secret"]
        ask = f"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n\r\n".encode()
        held = [stranger(one, ask) for _ in range(7)]
        statuses = [int(s.recv(12)[9:]) for s in held]
        equal(statuses, [200] * 5 + [429] * 2)
        equal(one.get("/v1/status").status, 200, "others")
        for s in held:
            s.close()


@test("P20 a name that was rebound to this address: Host")
def test_p20_a_name_that_was_rebound_to_this_address_host():
    for host in ("evil.example", f"evil.example:{d.port}", "localhost.evil.example",
                 "127.0.0.1.evil.example", ""):
        out = d.raw(f"GET /v1/status HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
                    "Connection: close\r\n\r\n".encode())
        check(out.split(b" ")[1:2] in ([b"403"], [b"400"]), f"{host}: {out[:100]}")


@test("P20 ids that are paths")
def test_p20_ids_that_are_paths():
    for name in ("../../etc/passwd", "..%2f..%2fetc", "%2e%2e", "sbx-..", "sbx-x%00", ".", "%2f",
                 "sbx-%0d%0aX: y", "x" * 300):
        for path in (f"/v1/sandboxes/{name}", f"/sandboxes/{name}", f"/v1/sandboxes/{name}/files"):
            status = int(d.raw(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{d.port}\r\nAuthorization: "
                               f"Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode()).split()[1])
            check(status in (400, 404, 405), f"{path}: {status}")
    for name in ("../x", "/etc", "a/b", "..", "A B", "x\n"):
        a = d.post("/sandboxes", {"id": name})
        equal(a.status, 400, f"create with id {name!r}")


@test("P20 files: names that climb end inside the sandbox")
def test_p20_files_names_that_climb_end_inside():
    with d.sandbox() as sb:
        host = os.path.join(d.dir, "host-file")
        with open(host, "w") as f:
            f.write("host")
        for path in (host, "/workspace/../../../.." + host, "/proc/1/root" + host,
                     "/proc/self/root/.." + host):
            a = d.get(f"{sb.path}/files/content?path={path}")
            check(a.status in (400, 403, 404) and b"host" != a.body, f"{path}: {a}")
        for path in ("/usr/bin/x", "/etc/passwd", "/.mas/x", "/proc/sys/kernel/core_pattern"):
            a = d.put(f"{sb.path}/files/content?path={path}", b"x")
            check(a.status in (400, 403, 404, 409, 422, 507), f"{path}: {a}")


@test("P20 tar upload: entries that climb, links, devices and owners")
def test_p20_tar_upload_entries_that_climb_links_devices():
    import io
    import tarfile

    def tar(*entries):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            for name, kind, link, data in entries:
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.size = kind, link, len(data)
                info.mode, info.uid, info.gid = 0o6777, 0, 0
                info.devmajor, info.devminor = 1, 1
                t.addfile(info, io.BytesIO(data))
        return out.getvalue()
    R, S, H, C = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE
    with d.sandbox() as sb:
        sb.sh("mkdir /workspace/in; echo old > /tmp/target")
        for entries in ([("../../tmp/target", R, "", b"new")], [("/tmp/target", R, "", b"new")],
                        [("l", S, "/tmp", b""), ("l/target", R, "", b"new")],
                        [("l", S, "../../tmp", b""), ("l/target", R, "", b"new")],
                        [("h", H, "/tmp/target", b""), ("h", R, "", b"new")],
                        [("mem", C, "", b"")], [("suid", R, "", b"x")]):
            d.put(f"{sb.path}/files/tar?path=/workspace/in", tar(*entries))
            equal(sb.sh("cat /tmp/target")["stdout"], "old\n", f"{entries}")
        r = sb.sh("find /workspace/in -type c -o -type b; find /workspace/in -perm /6000 -user 0")
        equal(r["stdout"], "", "devices, or set-user-ID files of root")


@test("P20 no runtime without walls unless the operator enabled it")
def test_p20_no_runtime_without_walls_unless_the_operator():
    for body in ({"runtime": "process"}, {"runtime": "process", "accept_weaker": ["filesystem"]},
                 {"runtime": "none"}, {"runtime": "../local"}):
        a = d.post("/v1/sandboxes", body)
        check(400 <= a.status < 500 or a.status == 503, f"{body}: {a}")
        a = d.post("/v1/run", dict(body, command=["id"]))
        check(400 <= a.status < 500 or a.status == 503, f"run {body}: {a}")


@test("P20 environment and arguments cannot be smuggled")
def test_p20_environment_and_arguments_cannot_be_smuggled():
    for env in ({"A=B": "x"}, {"": "x"}, {"A": "x\0y"}, {"A\nB": "x"}, {"A": 1}):
        a = d.post("/v1/run", {"command": ["env"], "env": env})
        check(a.status == 400 or (a.status == 200 and env == {"A\nB": "x"}), f"{env}: {a}")
    r = d.run("/bin/sh", "-c", "echo $LD_PRELOAD; id -u", env={"LD_PRELOAD": "/nonexistent.so"})
    check("1000" in r["stdout"], r)


@test("P20 a token is not shown by logs, status, metrics or processes in a sandbox")
def test_p20_a_token_is_not_shown_by_logs_status_metrics():
    with d.sandbox() as sb:
        text = sb.sh("cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '")["stdout"]
        check(TOKEN not in text, "processes")
    for path in ("/v1/status", "/metrics", "/openapi.json"):
        check(TOKEN.encode() not in d.get(path).body, path)
    with open(d.log_path) as f:
        check(TOKEN not in f.read(), "log")


@test("P20 no listening beyond loopback without a token")
def test_p20_no_listening_beyond_loopback_without_a_token():
    for address in ("0.0.0.0:0", "[::]:0"):  # a bare :PORT is loopback: tests/api/test-daemon.py
        p = subprocess.run([SANDBOXD, "-listen", address, "--state-dir", d.dir + "/other"],
                           stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
        check(p.returncode != 0 and (b"token" in p.stderr or b"insecure" in p.stderr), p)


@test("P20 the line protocol has the same walls")
def test_p20_the_line_protocol_has_the_same_walls():
    lines = [{"id": "1", "tool": "shell", "args": {"command": "cat /etc/shadow; id -u"}},
             {"id": "2", "tool": "file_system", "args": {"action": "read", "path": "/etc/shadow"},
              "policy": {"AllowedPaths": ["/etc"]}},
             {"id": "3", "tool": "fetch", "args": {"url": f"http://127.0.0.1:{d.port}/healthz"},
              "policy": {"Network": {"Enabled": True}}}]
    p = subprocess.run([SANDBOXD], input="\n".join(map(json.dumps, lines)).encode() + b"\n",
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    out = p.stdout.decode()
    check("root:$" not in out and "root:*" not in out and "root:!" not in out, out)
    answers = [json.loads(line) for line in out.splitlines()]
    equal(len(answers), 3)
    check("1000" in json.dumps(answers[0]), answers[0])
    check(answers[2]["exit_code"] != 0 or not answers[2]["result"].get("success"), answers[2])


@test("P20 a live stream holds what the command wrote, and nothing of the daemon's memory")
def test_p20_a_live_stream_holds_what_the_command_wrote():
    script = ("for i in $(seq 150); do printf 'out %d\\n' $i; printf 'err %d\\n' $i >&2;"
              " [ $((i % 10)) = 0 ] && sleep 0.01; done; true")
    want = {"stdout": "".join(f"out {i}\n" for i in range(1, 151)),
            "stderr": "".join(f"err {i}\n" for i in range(1, 151))}
    with d.sandbox() as sb:
        for _ in range(3):
            a = d.post(sb.path + "/exec", {"command": ["/bin/sh", "-c", script], "async": True}).json
            live = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={a['exec_id']}").events()
            later = [json.loads(line) for line in
                     d.get(f"{sb.path}/execs/{a['exec_id']}/logs").body.decode().splitlines()]
            for what, events in (("live", live), ("later", later)):
                for stream, text in want.items():
                    got = "".join(e["data"] for e in events if e.get("stream") == stream)
                    equal(got, text, f"{what} {stream}")


# --- P17: what the gateway does not do

def fetch(url, **policy):
    return d.post("/v1/sandbox/execute", {"tool": {"name": "fetch", "args": {"url": url}},
                                          "policy": {"Network": dict(Enabled=True, **policy)}}).json


def add_key(name, *roles):
    a = d.post("/v1/keys", {"name": name, "roles": list(roles)})
    equal(a.status, 201, a)
    return {"Authorization": "Bearer " + a.json["secret"]}, a.json


@test("P23 an agent's key cannot make itself more than it is")
def test_p23_an_agent_key_cannot_make_itself_more():
    k, row = add_key("climber", "agent")
    for method, path, body in (("POST", "/v1/keys", {"name": "x", "roles": ["admin"]}), ("GET", "/v1/keys", None),
                               ("DELETE", "/v1/keys/" + row["id"], None), ("POST", f"/v1/keys/{row['id']}/rotate", {})):
        equal(d.request(method, path, body, headers=k).status, 403, path)
    for forged in ({"X-Sandbox-Token": TOKEN[:-1]}, {"X-Roles": "admin"}, {"X-Forwarded-User": "token"}, {"X-Sandbox-Token": row["id"]}):
        equal(d.get("/v1/keys", headers=dict(k, **forged)).status, 403, forged)
    for guess in (row["id"], "token", row["name"], ""):
        equal(without_token("GET", "/v1/identity", Authorization="Bearer " + guess).status, 401, guess)
    equal(d.get("/v1/identity", headers=k).json["roles"], ["agent"])
    check(row["secret"] not in d.log_text() and row["id"] in d.log_text(), "the log has the id only")


@test("P23 an agent's key does not reach another's sandbox, by any name")
def test_p23_an_agent_key_does_not_reach_another_sandbox():
    mine, _ = add_key("owner", "agent")
    other, row = add_key("intruder", "agent")
    sb = d.post("/v1/sandboxes", {"id": "private"}, headers=mine).json["id"]
    for name in (sb, "private", "SBX-private", sb + "%00", sb + "/", "%0a" + sb, "/" + sb, "*", "..%2f" + sb, row["id"] + "%0a" + sb):
        for path in (f"/v1/sandboxes/{name}", f"/sandboxes/{name}", f"/v1/sandboxes/{name}/execs", f"/v1/sandboxes/{name}/files/content?path=/etc/passwd"):
            status = d.get(path, headers=other).status
            check(status in (400, 404), f"{path}: {status}")
    equal(d.get(f"/v1/sandboxes/{sb}", headers=mine).status, 200, "control: the owner does")
    equal(d.delete(f"/v1/sandboxes/{sb}", headers=mine).status, 200)


@test("P25 nobody approves their own action, and a grant is nobody else's")
def test_p25_nobody_approves_their_own_action_and_a_grant():
    asker, _ = add_key("asker", "agent,approver")
    thief, _ = add_key("thief", "agent")
    person, _ = add_key("person", "approver")
    body = {"action_type": "file_operation", "parameters": {"operation": "write", "path": "x.txt", "content": "x"}}
    id = d.post("/api/actions", body, headers=asker).json["action_id"]
    for headers in (asker, dict(asker, **{"X-User-Id": "person"})):
        equal(d.post(f"/api/actions/{id}/approve", {"approved": True, "user_id": "person"}, headers=headers).status, 403)
    equal(d.post(f"/api/actions/{id}/approve", {"approved": True}, headers=thief).status, 403)
    equal(d.post(f"/v1/approvals/{id}/approve", {}).status, 403, "the token is no approver")
    equal(d.get("/v1/approvals/" + id, headers=thief).status, 404)
    equal(d.post("/v1/run", {"command": ["true"]}, headers=dict(thief, **{"X-Mas-Approval-Id": id})).status, 404)
    equal(d.get("/v1/approvals/" + id, headers=person).json["status"], "pending", "and it is still only asked")
    equal(d.post(f"/api/actions/{id}/approve", {"approved": True}, headers=person).status, 200, "control: another person may")


@test("P24 the skill filesystem does not leave its root")
def test_p24_the_skill_filesystem_does_not_leave_its_root():
    sb = d.post("/v1/sandboxes", {}).json["id"]
    d.post(f"/v1/sandboxes/{sb}/exec", {"command": ["sh", "-c", "cd /workspace && ln -s /etc/passwd l.txt && ln -s / r && ln -s /tmp t"
                                                    " && echo in > in.txt && ln -s in.txt in-link.txt"]})
    def read(path, operation="read"):
        a = d.post("/api/actions", {"action_type": "file_operation", "parameters": {"operation": operation, "path": path, "sandbox_id": sb}})
        if a.status != 200:
            return a.status, a.json["detail"]
        def ended():
            return d.get("/api/actions/" + a.json["action_id"]).json
        wait_for(lambda: ended()["status"] in ("completed", "failed"), path)
        return ended()["status"], ended()["result"]
    equal(read("in.txt")[1]["content"], "in\n", "control: a file of the root")
    for path in ("l.txt", "r/etc/passwd", "r/etc/hostname", "/etc/passwd", "../etc/passwd", "t/../../etc/passwd", "in-link.txt",
                 "/proc/self/root/etc/passwd", "r/proc/1/environ", "in.txt/../../etc/passwd", "./../etc/passwd", "%2e%2e/etc/passwd"):
        status, result = read(path)
        check(status in ("failed", 400), f"{path}: {status} {result}")
    for path in ("r", "t", "/", ".."):
        check(read(path, "list")[0] in ("failed", 400), path)
    d.delete("/v1/sandboxes/" + sb)


@test("P17 URL tools do not reach loopback, private, link-local or metadata addresses")
def test_p17_url_tools_do_not_reach_loopback_private_link():
    for url in (f"http://127.0.0.1:{d.port}/healthz", f"http://localhost:{d.port}/healthz",
                f"http://[::1]:{d.port}/", f"http://[::ffff:127.0.0.1]:{d.port}/healthz",
                f"http://0.0.0.0:{d.port}/healthz", f"http://2130706433:{d.port}/healthz",
                f"http://0x7f.1:{d.port}/healthz", "http://169.254.169.254/latest/meta-data/",
                "http://10.0.0.1/", "http://192.168.0.1/", "http://[fd00::1]/"):
        r = fetch(url)
        check(r["status"] == "error" and "ok" != r.get("result", {}).get("content"), f"{url}: {r}")


@test("P17 URL tools take only http and https")
def test_p17_url_tools_take_only_http_and_https():
    for url in ("file:///etc/passwd", "gopher://127.0.0.1/", "dict://127.0.0.1:1/", "ftp://x/",
                "unix:///x", "http:///x"):
        r = fetch(url)
        check(r["status"] == "error" and "root:x" not in json.dumps(r), f"{url}: {r}")


@test("P17 a policy without network has none")
def test_p17_a_policy_without_network_has_none():
    r = d.post("/v1/sandbox/execute", {"tool": {"name": "fetch", "args": {"url": "http://x.example/"}},
                                       "policy": {"Network": {"Enabled": False}}}).json
    equal((r["status"], r["error"]["code"]), ("error", "policy_denied"))


REACH = r"""
import socket, sys
try:
    s = socket.create_connection(("127.0.0.1", 3128), 20)
except OSError as e:
    sys.exit(f"no proxy: {e.strerror}")
s.settimeout(30)
s.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\r\nHost: {sys.argv[1]}\r\n\r\n".encode())
print(s.recv(100).split()[1].decode())
"""


@test("P29 a sandbox that may reach every name reaches neither the daemon nor what is inside, and one without a network no proxy")
def test_p29_a_sandbox_that_may_reach_every_name_reaches():
    with Daemon() as d:
        a = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "*", "ports": [d.port]}]}})
        equal((a.status, a.json["effective"]["network"]["mode"]), (201, "names"), a)
        run = lambda target: d.post(f"/v1/sandboxes/{a.json['id']}/exec", {"command": ["python3", "-c", REACH, target]}).json
        for host in ("127.0.0.1", "localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1",
                     "169.254.169.254", "[fe80::1]", "10.0.0.1"):
            r = run(f"{host}:{d.port}")
            check(r["exit_code"] == 0 and r["stdout"].strip() in ("400", "403"), (host, r))
        r = d.post("/v1/run", {"command": ["python3", "-c", REACH, f"localhost:{d.port}"]}).json
        check(r["exit_code"] == 1 and "no proxy" in r["stderr"], r)


@test("P31 a secret is paired with no other host, by its owner, another key or a sandbox, and is in no file of the state")
def test_p31_a_secret_is_paired_with_no_other_host():
    value = "sk-abused-0123456789"
    with Daemon("-secret-hosts", "good.example", "-secrets", "operators=env:MAS_ABUSED {0} X-Key: {{}}".format("only.example"),
                env={"MAS_ABUSED": value + "-operators"}) as d:
        put = lambda name, **body: d.put(f"/v1/secrets/{name}", json.dumps(dict({"value": value}, **body)), headers={"Content-Type": "application/json"})
        equal(put("mine", hosts=["good.example"]).status, 200)
        for hosts in (["evil.example"], ["good.example", "evil.example"], ["*.good.example"], ["good.example:8443"], ["good.example.evil.example"]):
            equal(put("mine", hosts=hosts).status, 403, hosts)
        equal(put("operators", hosts=["good.example"]).status, 409)
        listed = d.get("/v1/secrets").body
        check(value.encode() not in listed and b"evil" not in listed, listed)
        for wish in ({"inject": ["mine"]}, {"inject": ["mine"], "intercept": False}, {"inject": ["unknown"], "intercept": True},
                     {"inject": [{"name": "mine", "hosts": ["evil.example"]}], "intercept": True}, {"inject": ["mine@evil.example"], "intercept": True}):
            a = d.post("/v1/sandboxes", {"network": dict({"allow": [{"host": "evil.example"}]}, **wish)})
            equal(a.status, 400, (wish, a))
        for root, _, files in os.walk(d.state):
            for name in files:
                with open(os.path.join(root, name), "rb") as f:
                    check(value.encode() not in f.read(), f"the secret is in {name}")


@test("P32 a network by address is what the operator named, and no more; without one there is no interface")
def test_p32_a_network_by_address_is_what_the_operator_named():
    with Daemon() as d:
        for cidrs in (["0.0.0.0/0"], ["127.0.0.1"], ["169.254.169.254"], [f"127.0.0.1:{d.port}"]):
            a = d.post("/v1/sandboxes", {"network": {"cidrs": cidrs}})
            check(a.status == 403 and "network_cidrs" in a.json["error"]["message"], a)
        r = d.post("/v1/run", {"command": ["cat", "/proc/net/dev"]}).json
        equal([line.split(":")[0].strip() for line in r["stdout"].splitlines()[2:]], ["lo"])


try:
    main()
finally:
    d.__exit__()
