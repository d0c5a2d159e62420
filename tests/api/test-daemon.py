#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Life of the daemon: options, process tree, what the processes are left with, restarts, signals."""
import contextlib
import fcntl
import http.server
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from masd import *  # noqa: E402

ROOT = os.geteuid() == 0


def daemon(*argv, env=None, stdin=b"", timeout=30):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SANDBOX_")}
    return subprocess.run([SANDBOXD, *argv], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout, env=dict(clean, **(env or {})))


def children(pid):
    """comm → pid of the processes below pid that are ours by name."""
    return {name_of(p): p for p in children_of(pid) if lives(p)}


def control_pid(d):
    return children(d.process.pid).get("mas-control")


# --- options

@test("the runner names the option that it refuses, with what it takes")
def test_the_runner_names_what_it_refuses():
    for args, words in ((["--proxy-port", "70000"], "--proxy-port: '70000' is not a number from 0 to 65535"),
                        (["--pid1", "--uid", "-1"], "--uid: '-1' is not a number from 0 to 4294967294"),
                        (["--workdir", "/", "--gid"], "'--gid' needs a value"),
                        (["--nonsense"], "there is no option '--nonsense', or it takes no value"),
                        (["--pid1=1"], "there is no option '--pid1=1', or it takes no value"),
                        (["--shared-uid", "stray"], "unexpected argument 'stray'"),
                        (["--filter-file", "/nowhere"], "--filter-file: open '/nowhere': No such file or directory"),
                        (["--pid1"], "--pid1 needs --uid and --gid of a user that is not root, or --shared-uid")):
        p = subprocess.run([os.path.join(BUILD, "mas-toolrunner"), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
        equal((p.returncode, p.stdout, p.stderr.splitlines()[0]), (2, "", f"mas-toolrunner: {words}"), args)


@test("--help names every flag, --version the version")
def test_help_names_every_flag_version_the_version():
    p = daemon("--help")
    equal(p.returncode, 0)
    for flag in ("--listen", "--auth-token", "--idle-ttl", "--check-config", "--mounts-allow"):
        check(flag.encode() in p.stdout, flag)
    check(re.fullmatch(rb"mas-sandboxd \S+\n", daemon("-version").stdout), "version")


@test("--check-config says ok, or every error with its place")
def test_check_config_says_ok_or_every_error():
    p = daemon("--check-config", "-listen", ":8080", "-runtime=local")
    equal((p.returncode, p.stdout), (0, b"ok\n"))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("idle_ttl: 5m\nidle_tll: 5m\nlog_level: loud\n")
        f.flush()
        p = daemon("--check-config", env={"SANDBOX_CONFIG": f.name, "SANDBOX_MAX_EXECS": "x"})
        equal((p.returncode, p.stdout), (2, b""))
        text = p.stderr.decode()
        check(f"{f.name}:2: unknown key 'idle_tll'; did you mean 'idle_ttl'?" in text, text)
        check(f"{f.name}:3: log_level: 'loud'" in text, text)
        check("SANDBOX_MAX_EXECS: 'x' is not a number" in text, text)


@test("an entry of images_registries that is no registry, and one of images_hosts that is no host, is refused by name")
def test_check_registries():
    for key, value in (("images_registries", "docker.io/library"), ("images_registries", "https://docker.io"), ("images_hosts", "a b")):
        p = daemon("--check-config", env={f"SANDBOX_{key.upper()}": f"registry.example.com:5000,{value}"})
        check(p.returncode != 0 and f"{key}: '{value}' is not" in p.stderr.decode(), (p.stdout, p.stderr))
    equal(daemon("--check-config", env={"SANDBOX_IMAGES_REGISTRIES": "*,docker.io,[::1]:5000,localhost:5000,10.0.0.1"}).returncode, 0)


@test("more denied networks than rules can be made of are refused where networks by address are on, also by the machines' file alone")
def test_denied_networks():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"vmm": "qemu", "kernel_image": "/k", "rootfs": "/r", "vsock": {"cid": 3, "uds_path": "/u-{id}"},
                   "network": {"enabled": True, "tap_device": "tap-{id}", "allowed_cidrs": ["192.0.2.0/24"]}}, file)
        file.flush()
        for flags in (("-runtime=local", "--network-cidrs", "192.0.2.0/24"), ("-runtime=microvm", "--runtime-config", file.name)):
            for n, status in ((64, 0), (65, 2)):
                p = daemon("--check-config", *flags, env={"SANDBOX_DISALLOWED_HOSTS": ",".join(f"192.0.2.{i}" for i in range(n))})
                equal(p.returncode, status, (flags, n, p))
                check(not status or b"64 entries each" in p.stderr, p)


@test("as many directories may be mounted as the warden takes, and one more is refused by --check-config")
def test_as_many_directories_may_be_mounted_as_the_warden():
    with tempfile.TemporaryDirectory() as dir:
        paths = [os.path.join(dir, str(i)) for i in range(65)]
        for path in paths:
            os.mkdir(path)
        p = daemon("--check-config", env={"SANDBOX_MOUNTS_ALLOW": ",".join(paths)})
        check(p.returncode == 2 and b"mounts.allow: more than 64 directories" in p.stderr, p)
        with Daemon(env={"SANDBOX_MOUNTS_ALLOW": ",".join(paths[:64])}) as d:
            equal(d.get("/healthz").status, 200)


@test("a daemon that is started without standard streams serves as any other")
def test_a_daemon_that_is_started_without_standard():
    with Daemon(command=["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', SANDBOXD]) as d, d.sandbox() as sb:
        equal(sb.sh("echo here")["stdout"], "here\n")


@test("--print-config shows what is in effect, without the token")
def test_print_config_shows_what_is_in_effect_without():
    p = daemon("--print-config", "-auth-token", "hush", "--idle-ttl", "7m",
               env={"SANDBOX_IDLE_TTL": "6m", "SANDBOX_STREAM_BUFFER": "9"})
    equal(p.returncode, 0)
    lines = p.stdout.decode().splitlines()
    check("idle_ttl: 7m0s" in lines and "stream_buffer: 9" in lines, lines)
    check(b"hush" not in p.stdout + p.stderr, "token")


@test("what this build cannot do is refused by name")
def test_what_this_build_cannot_do_is_refused_by_name():
    for flags, word in ((["-runtime", "kube"], "kube"),
                        (["-image", "ubuntu:22.04", "-images=false"], "image"),
                        (["-stream-mode", "sidecar"], "stream_mode")):
        p = daemon(*flags)
        equal((p.returncode, p.stdout), (2, b""), str(flags))
        check(word in p.stderr.decode(), p.stderr)


def heard(d, *addresses):
    """Of addresses with the port that a daemon chose for ':0', those where it answers."""
    listening = re.findall(r"listening address=(\S+):(\d+)", d.log_text())
    port = [int(p) for a, p in listening if int(p) != d.port][0]
    out = []
    for host in addresses:
        try:
            socket.create_connection((host, port), timeout=10).close()
            out.append(host)
        except OSError:
            pass
    return out


@test(":PORT is loopback of both kinds without a token or keys, and says so; every address with one")
def test_port_is_loopback_of_both_kinds_without_a_token():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        both = ["127.0.0.1", "::1"]
    except OSError:
        both = ["127.0.0.1"]
    # 127.0.0.2 is this machine too, and not an address that loopback listening has
    with Daemon("-listen", ":0") as d:
        wait_for(lambda: "control plane ready" in d.log_text(), "the log")
        equal(heard(d, *both, "127.0.0.2"), both, d.log_text())
        said = [line for line in d.log_text().splitlines() if "loopback only" in line]
        equal(len(said), 1, d.log_text())
        check("auth_token" in said[0] and "require_keys" in said[0] and "':0'" in said[0], said)
    for flag in ("--auth-token=t", "--require-keys", "--insecure"):
        with Daemon("-listen", ":0", flag) as d:
            wait_for(lambda: "control plane ready" in d.log_text(), "the log")
            equal(heard(d, *both, "127.0.0.2"), [*both, "127.0.0.2"], flag)
            check("loopback only" not in d.log_text(), flag)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        p = daemon("-listen", f":{taken.getsockname()[1]}")
        check(p.returncode == 1 and b"in use" in p.stderr, p.stderr)


@test("beyond loopback needs a token or --insecure")
def test_beyond_loopback_needs_a_token_or_insecure():
    p = daemon("-listen", "0.0.0.0:0")
    equal(p.returncode, 1)
    check(b"auth_token" in p.stderr and b"--insecure" in p.stderr, p.stderr)
    with Daemon("-listen", "0.0.0.0:0", "-insecure") as d:
        equal(d.get("/healthz").status, 200)
    with Daemon("-listen", "0.0.0.0:0", "--auth-token=t") as d:
        equal(d.get("/sandboxes").status, 401)
        equal(d.get("/sandboxes", headers={"Authorization": "bearer t"}).status, 200)


@test("a port or state directory in use is an error that says so")
def test_a_port_or_state_directory_in_use_is_an_error():
    with Daemon() as d:
        p = daemon("-listen", f"127.0.0.1:{d.port}")
        equal(p.returncode, 1)
        check(b"Address already in use" in p.stderr, p.stderr)
        p = daemon("-listen", "127.0.0.1:0", "-state-dir", d.state)
        equal(p.returncode, 1)
        check(f"in use by process {d.process.pid}".encode() in p.stderr, p.stderr)
        equal(d.get("/healthz").status, 200)


@test("what a killed daemon left holds its lock a little longer; the next one waits for it")
def test_what_a_killed_daemon_left_holds_its_lock():
    d = Daemon()
    try:
        os.mkdir(d.dir + "/state", 0o755)
        lock = os.open(d.dir + "/state/lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        dead = subprocess.Popen(["true"])
        dead.wait()
        os.write(lock, b"%d\n" % dead.pid)
        begin = time.time()
        child = subprocess.Popen(["sleep", "0.7"], pass_fds=[lock])  # as a sandbox that was being made
        os.close(lock)
        d.start()
        check(time.time() - begin > 0.6, "control: the lock was held")
        equal(d.run("echo", "up")["stdout"], "up\n")
        child.wait()
    finally:
        d.__exit__()


@test("a daemon that was killed while it made sandboxes is followed by the next at once")
def test_a_daemon_that_was_killed_while_it_made_sandboxes():
    d = Daemon("--blanks", "64").start()
    try:
        for i in range(4):
            d.run("true", limits={"memory_mb": 300})
            time.sleep(0.02 + 0.01 * i)
            d.process.kill()
            d.process.wait()
            d.start()
        equal(d.run("echo", "up")["stdout"], "up\n")
    finally:
        d.__exit__()


@test("a daemon that is killed at any moment of its start leaves no process")
def test_a_daemon_that_is_killed_at_any_moment():
    with tempfile.TemporaryDirectory(prefix="mas-test-") as work:
        os.chmod(work, 0o755)
        for i in range(25):
            p = subprocess.Popen([SANDBOXD, "-listen", "127.0.0.1:0", "--blanks", "2", "--state-dir", work + "/state"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.006 * i)
            p.kill()
            p.wait()
        wait_for(lambda: not processes(work), "all are gone")


# --- process tree and rights

@test("control plane and gateway are left with next to nothing")
def test_control_plane_and_gateway_are_left_with_next():
    with Daemon() as d:
        kids = children(d.process.pid)
        control, gateway = status_of(kids["mas-control"]), status_of(kids["mas-gateway"])
        for s in (control, gateway):
            equal((int(s["CapEff"], 16), int(s["CapPrm"], 16), s["NoNewPrivs"], s["Seccomp"]),
                  (0, 0, "1", "2"), s["Name"])
        answer = d.get("/v1/status").json
        equal((answer["pid"], answer["warden_pid"]), (kids["mas-control"], d.process.pid))
        if not ROOT:
            return
        check("0" not in control["Uid"].split() + gateway["Uid"].split(), "not root")
        check(control["Uid"] != gateway["Uid"], "a uid each")
        equal(control["Groups"].strip(), "", "groups")
        root = f"/proc/{kids['mas-control']}/root"
        equal(sorted(os.listdir(root)), ["dev", "etc", "state", "usr"])
        check(not os.path.exists(root + "/etc/passwd") and not os.path.exists(root + "/usr/bin"),
              "no host files")


@test("a token on the command line does not stay there")
def test_a_token_on_the_command_line_does_not_stay_there():
    with Daemon("-auth-token", "very-secret") as d:
        for pid in [d.process.pid, *children(d.process.pid).values()]:
            check("very-secret" not in command_of(pid), pid)


@test("everything dies with the warden")
def test_everything_dies_with_the_warden():
    with Daemon() as d:
        sandbox = d.sandbox()
        d.post(sandbox.path + "/exec", {"command": ["sleep", "1000"], "async": True})
        pids = list(children(d.process.pid).values())
        check(len(pids) >= 3, pids)
        d.process.kill()
        d.process.wait()
        wait_for(lambda: not any(map(lives, pids)), "the children are gone")


@test("the operator's lists of hosts reach the gateway")
def test_the_operator_lists_of_hosts_reach_the_gateway():
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://localhost:{server.server_port}/"
    call = json.dumps({"id": "1", "tool": "http_client", "args": {"method": "GET", "url": url},
                       "policy": {"Network": {"Enabled": True}}}).encode() + b"\n"
    private = ["-gateway-allow-private", "localhost"]
    for flags, reached in (([], False), (private, True),
                           (private + ["-disallowed-hosts", "localhost"], False),
                           (private + ["-allowed-hosts", "example.com"], False),
                           (private + ["-allowed-hosts", "example.com,localhost"], True)):
        answer = json.loads(daemon(*flags, stdin=call).stdout)
        if reached:
            equal(answer["result"]["status_code"], 501, flags)
        else:
            equal(answer.get("error"), "host not allowed", flags)
    server.shutdown()


# --- restarts

@test("a crashed control plane is started again; callers only wait")
def test_a_crashed_control_plane_is_started_again_callers():
    with Daemon() as d:
        first = control_pid(d)
        for _ in range(3):
            old = control_pid(d)
            os.kill(old, signal.SIGSEGV)
            wait_for(lambda: not lives(old), "the old one is gone")
            equal(d.get("/healthz").status, 200)
            wait_for(lambda: control_pid(d) not in (None, old), "another one")
        check(control_pid(d) != first, "another process")
        equal(d.run("echo", "hi")["stdout"], "hi\n")
        equal(d.process.poll(), None, "the warden never ended")


@test("a control plane that keeps crashing ends the daemon")
def test_a_control_plane_that_keeps_crashing_ends():
    with Daemon("--control-restarts", "2") as d:
        for _ in range(3):
            wait_for(lambda: control_pid(d), "a control plane")
            old = control_pid(d)
            os.kill(old, signal.SIGKILL)
            wait_for(lambda: not lives(old), "gone")
        equal(d.process.wait(60), 1)
        check("not started again" in d.log_text(), d.log_text())


@test("a killed gateway is started again")
def test_a_killed_gateway_is_started_again():
    with Daemon() as d:
        old = children(d.process.pid)["mas-gateway"]
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: children(d.process.pid).get("mas-gateway", old) != old, "a new gateway")
        equal(d.get("/healthz").status, 200)


# --- signals

def run_in_background(d, *argv):
    result = {}
    thread = threading.Thread(target=lambda: result.update(answer=d.post("/v1/run", {"command": list(argv)})))
    thread.start()
    wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] == 1, "it runs")
    return thread, result


@test("SIGTERM drains: the running request is answered, new ones are refused")
def test_sigterm_drains_the_running_request_is_answered():
    with Daemon() as d:
        thread, result = run_in_background(d, "sh", "-c", "sleep 1; echo done")
        d.process.terminate()
        thread.join()
        equal(result["answer"].json["stdout"], "done\n")
        equal(d.process.wait(60), 0)


@test("a second SIGTERM stops at once")
def test_a_second_sigterm_stops_at_once():
    with Daemon() as d:
        thread, _ = run_in_background(d, "sleep", "100")
        began = time.time()
        d.process.terminate()
        time.sleep(0.3)
        equal(d.process.poll(), None, "still draining")
        d.process.terminate()
        d.process.wait(60)
        check(time.time() - began < 25, "it waited for the grace")
        thread.join()


@test("a drain ends with its grace")
def test_a_drain_ends_with_its_grace():
    with Daemon("--shutdown-grace", "500ms") as d:
        thread, _ = run_in_background(d, "sleep", "100")
        began = time.time()
        d.process.terminate()
        d.process.wait(60)
        check(0.3 < time.time() - began < 60, time.time() - began)
        thread.join()


@test("SIGHUP is ignored, SIGINT stops like SIGTERM")
def test_sighup_is_ignored_sigint_stops_like_sigterm():
    with Daemon() as d:
        d.process.send_signal(signal.SIGHUP)
        equal(d.get("/healthz").status, 200)
        d.process.send_signal(signal.SIGINT)
        equal(d.process.wait(60), 0)


@test("SIGHUP while it starts waits until somebody reads it")
def test_sighup_while_it_starts_waits_until_somebody():
    with tempfile.TemporaryDirectory() as dir:
        os.mkfifo(dir + "/token")  # it waits for this, early
        p = subprocess.Popen([SANDBOXD, "-auth-token-file", dir + "/token", "--state-dir", dir + "/state", "-listen", f"unix:{dir}/s"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            fifo = os.open(dir + "/token", os.O_WRONLY)  # and is there when this returns
            p.send_signal(signal.SIGHUP)
            os.write(fifo, b"a-token-of-the-operator\n")
            os.close(fifo)
            wait_for(lambda: p.poll() is not None or os.path.exists(dir + "/s"), "it listens")
            equal(p.poll(), None, "still there")
        finally:
            p.terminate()
            out = p.communicate(timeout=60)[0]
        equal(p.returncode, 0, out)


# --- sockets and files

@test("a unix socket is ours alone and goes away; others' files stay")
def test_a_unix_socket_is_ours_alone_and_goes_away_others():
    with tempfile.TemporaryDirectory() as dir:
        path = dir + "/s"
        with Daemon("-listen", "unix:" + path) as d:
            equal(os.stat(path).st_mode & 0o777, 0o600)
            s = socket.socket(socket.AF_UNIX)
            s.connect(path)
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            check(s.recv(100).startswith(b"HTTP/1.1 200"), "served")
            d.stop()
        check(not os.path.exists(path), "removed")
        with open(path, "w"):
            pass
        equal(daemon("-listen", "unix:" + path).returncode, 1)
        check(os.path.exists(path), "a plain file is not replaced")


@contextlib.contextmanager
def tls_daemon(dir):
    """The port of a daemon that speaks TLS over TCP, with dir/cert, and plain HTTP over dir/s."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-keyout", dir + "/key", "-out", dir + "/cert", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    with open(dir + "/log", "wb") as log:
        p = subprocess.Popen([SANDBOXD, "-listen", f"127.0.0.1:0,unix:{dir}/s", "--tls-cert", dir + "/cert", "--tls-key", dir + "/key",
                              "--state-dir", dir + "/state"], stdin=subprocess.DEVNULL, stderr=log)

    def find_port():
        with open(dir + "/log") as f:
            return re.search(r"127\.0\.0\.1:([1-9][0-9]*)", f.read())

    try:
        wait_for(lambda: p.poll() is not None or find_port(), "it listens")
        yield int(find_port().group(1))
    finally:
        p.terminate()
        equal(p.wait(60), 0)


@test("with a certificate, TCP speaks TLS and the unix socket does not: sbx uses both")
def test_with_a_certificate_tcp_speaks_tls_and_the_unix_socket_does_not():
    def answers(*where):
        return subprocess.run([SBX, "version", *where], capture_output=True, timeout=60).returncode == 0

    with tempfile.TemporaryDirectory() as dir, tls_daemon(dir) as port:
        wait_for(lambda: answers("-addr", f"https://localhost:{port}", "-ca-file", dir + "/cert"), "TLS over TCP")
        check(answers("-addr", f"unix:{dir}/s"), "plain HTTP over the unix socket")
        check(not answers("-addr", f"http://127.0.0.1:{port}"), "no plain HTTP over TCP")


@test("a TLS connection that stays keeps no memory for a large answer")
def test_a_tls_connection_that_stays_keeps_no_memory():
    if SANITIZED:
        raise Skip("a sanitizer gives memory back when it likes")
    with tempfile.TemporaryDirectory() as dir, tls_daemon(dir) as port:
        c = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=ssl.create_default_context(cafile=dir + "/cert"))

        def ask(*request):
            c.request(*request)
            a = c.getresponse()
            body = a.read()
            equal(a.status, 200, body[:300])
            return json.loads(body)

        # Each of these bytes is six in JSON.
        pid, size = ask("GET", "/v1/status")["pid"], 16 << 20
        before = resident_kib(pid)
        first = c.sock
        a = ask("POST", "/v1/run", json.dumps({"command": ["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' '\\1'"]}))
        equal(len(a["stdout"]), size)
        wait_for(lambda: ask("GET", "/v1/status") and resident_kib(pid) < before + 3 * size // 1024, lambda: f"{before} KiB, now {resident_kib(pid)}")
        check(c.sock is first, "it is the same connection")


@test("sockets and readiness of a service manager")
def test_sockets_and_readiness_of_a_service_manager():
    with tempfile.TemporaryDirectory() as dir:
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(dir + "/n")
        notify.settimeout(60)
        listener = socket.create_server(("127.0.0.1", 0))
        script = 'exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"'
        p = subprocess.Popen(["/bin/sh", "-c", script, SANDBOXD, "-state-dir", dir + "/state"],
                             stdin=listener, stderr=subprocess.DEVNULL,
                             env=dict(os.environ, NOTIFY_SOCKET=dir + "/n"))
        equal(notify.recv(100), b"READY=1")
        s = socket.create_connection(listener.getsockname())
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        check(s.recv(100).startswith(b"HTTP/1.1 200"), "served")
        p.terminate()
        equal(notify.recv(100), b"STOPPING=1")
        equal(p.wait(60), 0)


@test("line mode: stdout is protocol only, ends with the input, leaves nothing")
def test_line_mode_stdout_is_protocol_only_ends():
    call = b'{"id":"a","tool":"calculator","args":{"expression":"1+1"}}\n'
    with tempfile.TemporaryDirectory() as dir:
        p = daemon("--log-level", "debug", stdin=call, env={"TMPDIR": dir})
        equal(p.returncode, 0)
        equal([json.loads(line)["id"] for line in p.stdout.splitlines()], ["a"])
        equal(os.listdir(dir), [], "temporary state")
        p = daemon(stdin=b"", env={"TMPDIR": dir})
        equal((p.returncode, p.stdout), (0, b""))
        p = daemon("-state-dir", dir + "/kept", stdin=call)
        check("lock" in os.listdir(dir + "/kept"), "a named state directory stays")


@test("line mode: a crash is an error, not silence")
def test_line_mode_a_crash_is_an_error_not_silence():
    with tempfile.TemporaryDirectory() as dir:
        p = subprocess.Popen([SANDBOXD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=dir))
        wait_for(lambda: children(p.pid).get("mas-control"), "a control plane")
        os.kill(children(p.pid)["mas-control"], signal.SIGKILL)
        equal(p.stdout.read(), b"")
        equal(p.wait(60), 1)
        equal(os.listdir(dir), [], "temporary state")


@test("a killed daemon's temporary state is swept by the next")
def test_a_killed_daemon_temporary_state_is_swept():
    with tempfile.TemporaryDirectory() as dir:
        env = dict(os.environ, TMPDIR=dir)
        p = subprocess.Popen([SANDBOXD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, env=env)
        wait_for(lambda: children(p.pid).get("mas-control"), "a control plane")
        left = os.path.join(dir, os.listdir(dir)[0])
        daemon(stdin=b"", env={"TMPDIR": dir})
        check(os.path.exists(left), "not while it lives")
        p.kill()
        p.wait()
        os.utime(left, (0, 0))
        daemon(stdin=b"", env={"TMPDIR": dir})
        equal(os.listdir(dir), [])


@test("the most that a request may ask for; of the process runtime, which limits nothing, no limit is held to it")
def test_the_most_that_a_request_may_ask():
    with Daemon("--enable-process", "--max-memory-mb", "512") as d:
        a = d.post("/v1/sandboxes", {"limits": {"memory_mb": 1024}, "accept_weaker": ["memory"]})
        equal((a.status, a.json["error"]["code"]), (403, "policy_denied"), a)
        check("ceiling" in a.json["error"]["message"], a)
        spec = {"runtime": "process", "limits": {"memory_mb": 1024}}
        equal(d.post("/v1/sandboxes", spec).json["error"]["code"], "unenforceable")
        a = d.post("/v1/sandboxes", dict(spec, accept_weaker=["memory"]))
        equal((a.status, a.json["effective"]["memory"]), (201, None), a)


@test("as an ordinary user")
def test_as_an_ordinary_user():
    if not ROOT:
        raise Skip("this is one already")
    with tempfile.TemporaryDirectory() as dir:
        os.chmod(dir, 0o755)
        subprocess.run(["cp", *(os.path.join(os.path.dirname(SANDBOXD), p) for p in ("mas-sandboxd", "mas-warden", "mas-toolrunner")), dir],
                       check=True)
        os.mkdir(dir + "/home")
        os.chown(dir + "/home", 12399, 12399)
        p = subprocess.run(["setpriv", "--reuid=12399", "--regid=12399", "--clear-groups",
                            dir + "/mas-sandboxd"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           input=b'{"id":"u","tool":"shell","args":{"command":"echo hi"}}\n',
                           env={"HOME": dir + "/home", "TMPDIR": dir + "/home", "PATH": os.environ["PATH"]},
                           timeout=60)
        equal(p.returncode, 0, p.stderr)
        equal([json.loads(line)["exit_code"] for line in p.stdout.splitlines()], [0], p.stdout)


main()
