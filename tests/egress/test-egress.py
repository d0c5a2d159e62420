#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox with a network by name can reach, and what it cannot.

The test makes a network namespace for the daemon and one for the servers, with addresses of the public
range between them, so that nothing leaves the machine. It counts at the servers' end: every connection
that was accepted, and every TCP SYN, UDP and ICMP packet that came over the wire. Names are in an
/etc/hosts of its own. Needs root; skips without.
"""
import atexit
import base64
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))

HOSTS = """127.0.0.1 localhost
::1 localhost
11.0.0.2 allowed.test www.allowed.test one.wild.test deep.sub.wild.test bad.wild.test wild.test xn--bcher-kva.test far.test
11.0.0.3 denied.test denied-address.wild.test
11.0.0.1 self.test
11.0.0.9 second.test
127.0.0.1 rebind.test
169.254.169.254 meta.test
10.9.9.9 private.test
"""


# --- the servers' end

def serve_one(conn, log, tls):
    try:
        conn.settimeout(20)
        if tls:
            conn = tls.wrap_socket(conn, server_side=True)
        data = b""
        while b"\r\n\r\n" not in data:
            more = conn.recv(65536)
            if not more:
                return
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        want = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                want = int(value)
        while len(body) < want:
            more = conn.recv(65536)
            if not more:
                break
            body += more
        # What else comes within a moment would be a second request.
        conn.settimeout(0.3)
        try:
            body += conn.recv(65536)
        except OSError:
            pass
        log({"request": head.decode("latin1"), "body": len(body), "extra": body[want:].decode("latin1")})
        path = head.split(b" ")[1]
        if path.startswith(b"/to-denied"):
            out = b"HTTP/1.1 302 Found\r\nLocation: http://denied.test/secret\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        elif path.startswith(b"/big"):
            big = b"x" * (8 << 20)
            out = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(big) + big
        else:
            out = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n"
        conn.settimeout(30)
        conn.sendall(out)
    except OSError:
        pass
    finally:
        conn.close()


def sniff(log):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    while True:
        data, where = s.recvfrom(65535)
        if where[2] == 4:  # our own
            continue
        ihl, proto = (data[0] & 15) * 4, data[9]
        if proto == 6 and not data[ihl + 13] & 2:
            continue
        port = struct.unpack("!H", data[ihl + 2:ihl + 4])[0] if proto in (6, 17) else 0
        log({"packet": proto, "to": socket.inet_ntoa(data[16:20]), "port": port})


def server_main(directory):
    sys.stdin.readline()
    subprocess.run("ip link set lo up; ip addr add 11.0.0.2/24 dev veth1; ip addr add 11.0.0.3/24 dev veth1;"
                   "ip link set veth1 up", shell=True, check=True)
    lock, out = threading.Lock(), open(f"{directory}/log", "a")

    def log(event):
        with lock:
            out.write(json.dumps(event) + "\n")
            out.flush()

    def listen(address, port, tls=None):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        s.listen(64)
        while True:
            conn, _ = s.accept()
            log({"accepted": f"{address}:{port}"})
            threading.Thread(target=serve_one, args=(conn, log, tls), daemon=True).start()

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{directory}/cert.pem", f"{directory}/key.pem")
    threading.Thread(target=sniff, args=(log,), daemon=True).start()
    for address, port, kind in (("11.0.0.2", 80, None), ("11.0.0.2", 8080, None), ("11.0.0.2", 443, tls),
                                ("11.0.0.2", 25, None), ("11.0.0.3", 80, None), ("11.0.0.3", 443, tls)):
        threading.Thread(target=listen, args=(address, port, kind), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.readline()


if sys.argv[1:2] == ["--server"]:
    server_main(sys.argv[2])
    sys.exit(0)

# --- namespaces

if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("openssl"):
    print("1..0 # SKIP needs root, ip and openssl")
    sys.exit(77)
if os.environ.get("MAS_EGRESS_INSIDE") != "1":
    os.environ["MAS_EGRESS_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, os.path.abspath(__file__)] + sys.argv[1:])

from guarded import Guarded  # noqa: E402
from masd import Daemon, check, equal, main, test  # noqa: E402

directory = tempfile.mkdtemp(prefix="mas-egress-")
os.chmod(directory, 0o755)
atexit.register(shutil.rmtree, directory, True)
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=allowed.test",
                "-addext", "subjectAltName=DNS:allowed.test,DNS:*.wild.test,DNS:denied.test", "-keyout", f"{directory}/key.pem",
                "-out", f"{directory}/cert.pem"], check=True, stderr=subprocess.DEVNULL)
with open(f"{directory}/hosts", "w") as f:
    f.write(HOSTS)
with open(f"{directory}/resolv.conf", "w") as f:
    f.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
subprocess.run(["mount", "--bind", f"{directory}/hosts", "/etc/hosts"], check=True)
subprocess.run(["mount", "--bind", f"{directory}/resolv.conf", os.path.realpath("/etc/resolv.conf")], check=True)
server = subprocess.Popen(["unshare", "--net", sys.executable, os.path.abspath(__file__), "--server", directory],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
own_net = os.readlink("/proc/self/ns/net")
while os.readlink(f"/proc/{server.pid}/ns/net") == own_net:
    time.sleep(0.01)
subprocess.run("ip link set lo up; ip link add veth0 type veth peer name veth1; ip addr add 11.0.0.1/24 dev veth0; ip addr add 11.0.0.9/24 dev veth0;"
               f"ip link set veth1 netns {server.pid}; ip link set veth0 up; ip route add default via 11.0.0.2",
               shell=True, check=True)
server.stdin.write("go\n")
server.stdin.flush()
server.stdout.readline()
time.sleep(0.3)

ALLOW = [{"host": "allowed.test", "ports": [80, 443, 81]}, {"host": "*.wild.test"}, {"host": "xn--bcher-kva.test", "ports": [80]},
         {"host": "rebind.test"}, {"host": "meta.test"}, {"host": "private.test"}, {"host": "self.test"}, {"host": "127.0.0.1"},
         {"host": "[::1]"}, {"host": "11.0.0.2", "ports": [8080]}, {"host": "far.test", "ports": [80]}, {"host": "missing.test"}, {"host": "second.test"}]
DENY = [{"host": "bad.wild.test"}, {"host": "11.0.0.3"}, {"host": "one.wild.test", "ports": [8080]}]

daemon = Daemon("--debug-endpoints", config='disallowed_hosts: ["far.test"]\n').start()
created = daemon.post("/v1/sandboxes", {"network": {"allow": ALLOW, "deny": DENY}})
assert created.status == 201, created
BOX = created.json["id"]


def log_events():
    with open(f"{directory}/log") as f:
        return [json.loads(line) for line in f]


def run(*argv, box=None, timeout_ms=30000, **more):
    a = daemon.post(f"/v1/sandboxes/{box or BOX}/exec", dict(command=list(argv), timeout_ms=timeout_ms, **more))
    assert a.status == 200, a
    return a.json


def raw(request, box=None):
    """One connection to the proxy: all of its answer as text."""
    code = ("import socket,sys,base64\n"
            "s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(25)\n"
            f"s.sendall(base64.b64decode('{base64.b64encode(request).decode()}'))\n"
            "out=b''\n"
            "while True:\n"
            "    try: more=s.recv(65536)\n"
            "    except ConnectionResetError: break\n"
            "    if not more: break\n"
            "    out+=more\n"
            "sys.stdout.write(out.decode('latin1'))\n")
    a = run("python3", "-c", code, box=box)
    equal(a["exit_code"], 0, a)
    return a["stdout"]


def silent(what, *args, **more):
    """Runs it, and nothing may arrive at the servers' end."""
    before = len(log_events())
    out = what(*args, **more)
    time.sleep(0.2)
    equal(log_events()[before:], [], args)
    return out


def get(url, *more):
    host = url.split("/")[2]
    return raw(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (url.encode(), host.encode()), *more)


def connect(authority, *more):
    return raw(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (authority.encode(), authority.encode()), *more)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def status(text):
    return int(text.split(" ")[1]) if text.startswith("HTTP/1.1 ") else text


# --- what is allowed

@test("effective says by whom, and the environment where")
def test_effective_says_by_whom_and_the_environment():
    equal(created.json["effective"]["network"], {"by": "gateway", "mode": "names"})
    out = run("sh", "-c", "echo $HTTP_PROXY $https_proxy $NO_PROXY")["stdout"]
    equal(out, "http://127.0.0.1:3128 http://127.0.0.1:3128 localhost,127.0.0.1,::1\n")
    equal(run("sh", "-c", "echo $HTTP_PROXY", env={"HTTP_PROXY": "mine"})["stdout"], "mine\n")


@test("allowed names answer, however they are written")
def test_allowed_names_answer_however_they_are_written():
    for url in ("http://allowed.test/", "http://ALLOWED.test/", "http://allowed.test./", "http://allowed.test:80/a?b=c",
                "http://one.wild.test/", "http://deep.sub.wild.test/", "http://xn--bcher-kva.test/", "http://11.0.0.2:8080/"):
        out = get(url)
        check(out.startswith("HTTP/1.1 200 OK") and out.endswith("hello\n"), (url, out))


@test("programs: curl, wget, git and python reach what is allowed")
def test_programs_curl_wget_git_and_python_reach():
    with open(f"{directory}/cert.pem") as f:
        ca = f.read()
    run("sh", "-c", "cat > /tmp/ca.pem", stdin=ca)
    cases = [["curl", "-sS", "-m", "20", "http://allowed.test/"], ["wget", "-q", "-O-", "-T", "20", "http://allowed.test/"],
             ["curl", "-sS", "-m", "20", "--cacert", "/tmp/ca.pem", "https://allowed.test/"],
             ["wget", "-q", "-O-", "-T", "20", "--ca-certificate=/tmp/ca.pem", "https://allowed.test/"],
             ["python3", "-c", "import urllib.request as u;print(u.urlopen('http://allowed.test/').read().decode(),end='')"],
             ["python3", "-c", "import ssl,urllib.request as u;print(u.urlopen('https://allowed.test/',"
              "context=ssl.create_default_context(cafile='/tmp/ca.pem')).read().decode(),end='')"]]
    for argv in cases:
        if shutil.which(argv[0]):
            a = run(*argv)
            equal((a["exit_code"], a["stdout"]), (0, "hello\n"), (argv, a))
    if shutil.which("git"):
        before = len(log_events())
        a = run("git", "ls-remote", "http://allowed.test/x.git")
        check(any("/x.git/info/refs" in e.get("request", "") for e in log_events()[before:]), a)


@test("programs: a denied host fails clearly, and nothing leaves")
def test_programs_a_denied_host_fails_clearly_and_nothing():
    a = silent(run, "curl", "-sS", "-m", "20", "http://denied.test/")
    check("host_not_allowed" in a["stdout"], a)
    a = silent(run, "curl", "-sS", "-m", "20", "https://denied.test/")
    check(a["exit_code"] == 56 and "403" in a["stderr"], a)
    a = silent(run, "wget", "-O-", "-T", "20", "-t", "1", "http://denied.test/")
    check(a["exit_code"] == 8 and "403" in a["stderr"], a)
    a = silent(run, "git", "ls-remote", "https://denied.test/x.git")
    check(a["exit_code"] == 128 and "403" in a["stderr"], a)
    a = silent(run, "python3", "-c", "import urllib.request as u\ntry: u.urlopen('https://denied.test/')\nexcept OSError as e: print(e)")
    check("403" in a["stdout"], a)


@test("a large answer and a large body come whole")
def test_a_large_answer_and_a_large_body_come_whole():
    if shutil.which("curl"):
        a = run("sh", "-c", "curl -sS http://allowed.test/big | wc -c")
        equal(a["stdout"].strip(), str(8 << 20), a)
        before = len(log_events())
        a = run("sh", "-c", "head -c 3000000 /dev/zero | curl -sS -H 'Expect:' --data-binary @- http://allowed.test/up")
        equal(a["stdout"], "hello\n", a)
        equal([e["body"] for e in log_events()[before:] if "body" in e], [3000000])


# --- what is not

@test("denied by name, port or address: 403, and no packet")
def test_denied_by_name_port_or_address_403_and_no_packet():
    for url, why in (("http://denied.test/", "is not an allowed host"), ("http://wild.test/", "not an allowed host"),
                     ("http://www.allowed.test/", "not an allowed host"), ("http://allowed.test:25/", "not an allowed host"),
                     ("http://bad.wild.test/", "is denied in this sandbox"), ("http://BAD.wild.test./", "is denied in this sandbox"),
                     ("http://one.wild.test:8080/", "is denied in this sandbox"),
                     ("http://denied-address.wild.test/", "is denied"), ("http://11.0.0.2/", "not an allowed host"),
                     ("http://11.0.0.3/", "is denied in this sandbox"), ("http://far.test/", "of this daemon"),
                     ("http://allowed.test.evil.test/", "not an allowed host"), ("http://xwild.test/", "not an allowed host")):
        out = silent(get, url)
        equal((status(out), why in out), (403, True), (url, out))
    for authority in ("denied.test:443", "bad.wild.test:443", "denied-address.wild.test:443", "allowed.test:22", "11.0.0.3:443"):
        equal(status(silent(connect, authority)), 403, authority)


@test("names and addresses that lead inside are closed, also when they are allowed")
def test_names_and_addresses_that_lead_inside_are_closed():
    port = daemon.port
    for authority, why in ((f"127.0.0.1:{port}", "loopback"), (f"[::1]:{port}", "loopback"), (f"rebind.test:{port}", "loopback"),
                           ("meta.test:80", "metadata"), ("private.test:80", "private"), (f"self.test:{port}", "own"), (f"second.test:{port}", "own")):
        out = silent(connect, authority)
        equal((status(out), why in out), (403, True), (authority, out))
    for url in (f"http://rebind.test:{port}/healthz", f"http://127.0.0.1:{port}/healthz", f"http://self.test:{port}/healthz"):
        equal(status(silent(get, url)), 403, url)


@test("other spellings of an address are that address, or none")
def test_other_spellings_of_an_address_are_that_address():
    for host in ("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "017700000001", "127.0.0.01"):
        check(status(silent(connect, f"{host}:80")) in (400, 403), host)
    for host in ("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:11.0.0.3]", "[64:ff9b::7f00:1]", "[::]", "0.0.0.0", "255.255.255.255",
                 "224.0.0.1", "localhost"):
        check(status(silent(connect, f"{host}:80")) == 403, host)
    for host in ("b\xfccher.test", "allowed.test%00.evil", "allowed.test\x00", "allowed.test@denied.test", "[::1%eth0]", "..", "", "a b"):
        check(status(silent(raw, b"CONNECT %s:80 HTTP/1.1\r\nHost: x\r\n\r\n" % host.encode("latin1"))) in (400, 403, 505), host)


@test("a redirect elsewhere is another request, and denied")
def test_a_redirect_elsewhere_is_another_request():
    out = run("curl", "-sSL", "-m", "20", "http://allowed.test/to-denied")
    check("host_not_allowed" in out["stdout"], out)
    check(not any("11.0.0.3" in str(e) for e in log_events()), "a packet for the denied server")


@test("what cannot be reached says so")
def test_what_cannot_be_reached_says():
    equal(status(connect("allowed.test:81")), 502)
    out = connect("missing.test:80")
    check(status(out) in (502, 504), out)


@test("requests that two readers could read differently are refused")
def test_requests_that_two_readers_could_read_differently():
    good = b"GET http://allowed.test/ HTTP/1.1\r\n"
    for request, want in ((good + b"Host: denied.test\r\n\r\n", 400), (good + b"\r\n", 400),
                          (good + b"Host: allowed.test\r\nHost: allowed.test\r\n\r\n", 400),
                          (good + b"Host: allowed.test:8080\r\n\r\n", 400),
                          (good + b"Host: allowed.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
                          (good + b"Host: allowed.test\r\nContent-Length: +1\r\n\r\n", 400),
                          (good + b"Host: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
                          (good + b"Host: allowed.test\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
                          (good + b"Host: allowed.test\r\n folded: x\r\n\r\n", 400),
                          (good + b"Host: allowed.test\r\nX: a\nY: b\r\n\r\n", 400),
                          (good + b"Host: allowed.test\r\nX: a\rY: b\r\n\r\n", 400),
                          (good + b"Host: allowed.test\r\nX: a\0b\r\n\r\n", 400),
                          (b"GET http://allowed.test/ HTTP/2.0\r\nHost: allowed.test\r\n\r\n", 505),
                          (b"GET  http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (b"GET http://user:pw@allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (b"GET http://denied.test@allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (b"GET http://allowed.test\\@denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (b"GET http://allowed.test/#x HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (b"GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 501),
                          (b"GET ftp://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 501),
                          (b"CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n", 400),
                          (b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\nContent-Length: 5\r\n\r\nhello", 400),
                          (b"CONNECT allowed.test:0 HTTP/1.1\r\nHost: allowed.test:0\r\n\r\n", 400),
                          (b"CONNECT allowed.test:65536 HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (b"CONNECT allowed.test:0443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n", 400),
                          (good + b"Host: allowed.test\r\n" + b"X: y\r\n" * 101 + b"\r\n", 431),
                          (good + b"Host: allowed.test\r\nX: " + b"y" * 20000 + b"\r\n\r\n", 431)):
        equal(status(silent(raw, request)), want, request[:120])


@test("one request a connection; what hides behind it is dropped, and so are headers of the connection")
def test_one_request_a_connection_what_hides_behind():
    before = len(log_events())
    out = raw(b"POST http://allowed.test/one HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 3\r\nConnection: keep-alive, X-Hop\r\n"
              b"X-Hop: 1\r\nProxy-Authorization: secret\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nX-Kept: 2\r\n\r\n"
              b"abcGET /two HTTP/1.1\r\nHost: denied.test\r\n\r\n")
    check(out.startswith("HTTP/1.1 200"), out)
    requests = [e for e in log_events()[before:] if "request" in e]
    equal(len(requests), 1, requests)
    equal((requests[0]["body"], requests[0]["extra"]), (3, ""), requests)
    lines = requests[0]["request"].split("\r\n")
    equal(lines[0], "POST /one HTTP/1.1")
    equal(sorted(lines[1:]), ["Connection: close", "Content-Length: 3", "Host: allowed.test", "X-Kept: 2"])


@test("without the proxy nothing goes anywhere, and at once")
def test_without_the_proxy_nothing_goes_anywhere():
    code = ("import socket,errno\n"
            "def t(kind,proto,to):\n"
            "    try:\n"
            "        s=socket.socket(socket.AF_INET,kind,proto); s.settimeout(10)\n"
            "        s.connect(to); s.send(b'x'); print('sent')\n"
            "    except OSError as e: print(errno.errorcode.get(e.errno,e))\n"
            "t(socket.SOCK_STREAM,0,('11.0.0.2',80))\n"
            "t(socket.SOCK_DGRAM,0,('11.0.0.2',53))\n"
            "t(socket.SOCK_RAW,1,('11.0.0.2',0))\n"
            "t(socket.SOCK_DGRAM,1,('11.0.0.2',0))\n"
            "try: print(socket.getaddrinfo('allowed.test',80))\n"
            "except OSError as e: print('no name')\n")
    a = silent(run, "env", "-u", "HTTP_PROXY", "python3", "-c", code)
    lines = a["stdout"].split()
    check(lines[:2] in (["ENETUNREACH"] * 2, ["EHOSTUNREACH"] * 2), a)  # the latter is gVisor's
    check("sent" not in a["stdout"] and a["stdout"].endswith("no name\n"), a)


@test("a sandbox without a network has no proxy")
def test_a_sandbox_without_a_network_has_no_proxy():
    for network in (None, "none", False, {"mode": "none"}, {"allow": []}, {"deny": [{"host": "a.test"}]}):
        body = {"command": ["sh", "-c", "echo \"[$HTTP_PROXY]\"; python3 -c \"import socket;socket.create_connection(('127.0.0.1',3128),5)\""]}
        if network is not None:
            body["network"] = network
        a = daemon.post("/v1/run", body)
        check(a.json["stdout"] == "[]\n" and "refused" in a.json["stderr"], (network, a))


@test("two sandboxes have two lists, and a one-shot has its own")
def test_two_sandboxes_have_two_lists_and_a_one_shot():
    a = daemon.post("/v1/run", {"command": ["curl", "-sS", "http://denied.test/"], "network": {"allow": [{"host": "denied.test"}]}})
    equal(a.json["stdout"], "hello\n", a)
    a = daemon.post("/v1/run", {"command": ["curl", "-sS", "http://allowed.test/"], "network": {"allow": [{"host": "denied.test"}]}})
    check("host_not_allowed" in a.json["stdout"], a)


@test("what this version does not do is refused by name")
def test_what_this_version_does_not_do_is_refused_by_name():
    host = {"host": "a.test"}
    for network, word in (({"allow": [host], "inject": ["x"]}, "inject"),
                          ({"allow": [host], "intercept": True}, "intercept"), ({"mode": "full"}, "network"), (True, "network")):
        a = daemon.post("/v1/sandboxes", {"network": network})
        equal((a.status, a.json["error"]["code"], word in str(a.json)), (400, "unsupported", True), (network, a))
    for network in ({"allow": [{"host": "a.test:80"}]}, {"allow": [{}]}, {"allow": [{"host": "a b"}]}, {"allow": [{"host": "127.1"}]}, {"allow": [{"host": "11.0.0.0/8"}]},
                    {"allow": [dict(host, ports=[])]}, {"allow": [dict(host, ports=[0])]}, {"allow": [dict(host, ports=["80"])]},
                    {"allow": ["a.test"]}, {"allow": [host], "mode": "none"}, {"allow": [host] * 129}, {"mode": "names"}):
        a = daemon.post("/v1/sandboxes", {"network": network})
        equal(a.status, 400, (network, a))
    for runtime in ("process", "landlock", "kata"):  # the host's loopback, or never tried
        a = daemon.post("/v1/sandboxes", {"runtime": runtime, "network": {"allow": [host]}})
        equal((a.status, a.json["error"]["code"]), (400, "unsupported"), (runtime, a))


@test("the policy decides on every host that a network names, also by a pattern")
def test_the_policy_decides_on_every_host_that_a_network():
    policy = """version: 1
default: allow
rules:
  - id: no-mail
    verdict: deny
    host: ["mail.test", "x.test:25"]
  - id: person
    verdict: ask
    host: ["asked.test"]
  - id: offline
    require: {no_network: true}
    tool: network
    host: ["offline.test"]
"""
    with Guarded(policy) as d:
        for host, rule in (({"host": "mail.test"}, "no-mail"), ({"host": "*.test"}, "no-mail"), ({"host": "*"}, "no-mail"),
                           ({"host": "MAIL.test."}, "no-mail"), ({"host": "x.test"}, "no-mail"), ({"host": "asked.test"}, "person"),
                           ({"host": "offline.test"}, "offline")):
            for path, body in (("/v1/sandboxes", {}), ("/v1/run", {"command": ["true"]})):
                a = d.post(path, dict(body, network={"allow": [{"host": "fine.test"}, host]}))
                equal((a.status, rule in str(a.json)), (403, True), (host, path, a))
        a = d.post("/sandboxes", {"allowed_hosts": ["mail.test"]})
        equal(a.status, 403, a)
        check(len([r for r in d.records(kind="refusal") if r.get("tool") == "network"]) >= 15, d.records(kind="refusal")[-1])
        for host in ({"host": "fine.test"}, {"host": "x.test", "ports": [443]}):
            a = d.post("/v1/run", {"command": ["true"], "network": {"allow": [host]}})
            equal(a.status, 200, (host, a))
    only = """version: 1
default: deny
rules:
  - id: commands
    verdict: allow
    command: "*"
  - id: net
    verdict: allow
    tool: network
    host: ["*.fine.test"]
"""
    with Guarded(only) as d:
        for host, want in (("a.fine.test", 200), ("*.b.fine.test", 200), ("fine.test", 403), ("*.test", 403), ("*", 403)):
            a = d.post("/v1/run", {"command": ["true"], "network": {"allow": [{"host": host}]}})
            equal(a.status, want, (host, a))


@test("the sbx API's lists are the same rules; the MAS API cannot narrow them per call")
def test_the_sbx_api_lists_are_the_same_rules_the_mas_api():
    a = daemon.post("/sandboxes", {"allowed_hosts": ["allowed.test", "*.wild.test"], "disallowed_hosts": ["bad.wild.test"]})
    box = a.json["id"]
    equal(status(get("http://allowed.test/", box)), 200)
    equal(status(get("http://one.wild.test/", box)), 200)
    equal(status(silent(get, "http://bad.wild.test/", box)), 403)
    equal(status(silent(get, "http://denied.test/", box)), 403)
    check("SBX_ALLOWED_HOSTS=allowed.test,*.wild.test" in run("env", box=box)["stdout"], "env")


@test("after the death of the control plane and of the gateway the network is there again")
def test_after_the_death_of_the_control_plane():
    equal(status(get("http://allowed.test/")), 200)
    for name in ("mas-gateway", "mas-control"):
        pids = [p for p in os.listdir("/proc") if p.isdigit() and comm(p) == name and os.readlink(f"/proc/{p}/ns/net") == own_net]
        check(pids, f"there is a {name}")
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
        end = time.monotonic() + 60
        while True:
            try:
                if status(get("http://allowed.test/")) == 200:
                    break
            except (OSError, AssertionError, http.client.HTTPException, ValueError):
                pass
            check(time.monotonic() < end, f"no network after the death of {name} ({pids})")
            time.sleep(0.2)
        equal(status(silent(get, "http://denied.test/")), 403)


@test("too many connections are refused and do not hang; they are given back")
def test_too_many_connections_are_refused_and_do_not_hang():
    code = ("import socket\n"
            "all=[]\n"
            "for i in range(60):\n"
            "    s=socket.create_connection(('127.0.0.1',3128),10); s.settimeout(20)\n"
            "    s.sendall(b'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n'); all.append(s)\n"
            "got=[]\n"
            "for s in all:\n"
            "    try: got.append(s.recv(100).split(b' ')[1].decode())\n"
            "    except (OSError, IndexError): got.append('end')\n"
            "print(got.count('200'), got.count('503')+got.count('end'))\n")
    a = run("python3", "-c", code)
    good, refused = map(int, a["stdout"].split())
    check(20 <= good <= 32 and good + refused == 60, a)
    for _ in range(100):
        if status(get("http://allowed.test/")) == 200:
            return
        time.sleep(0.3)
    check(False, "the connections were not given back")


@test("decisions are in the audit, with the target and without the path")
def test_decisions_are_in_the_audit_with_the_target():
    box = daemon.post("/v1/sandboxes", {"network": {"allow": [{"host": "allowed.test"}]}}).json["id"]
    get("http://allowed.test/secret-path?token=1", box)
    get("http://denied.test/secret-path", box)
    for _ in range(25):
        get("http://denied.test/", box)
    daemon.request("DELETE", f"/v1/sandboxes/{box}")
    time.sleep(1)
    records = daemon.get("/v1/audit?kind=network&limit=1000").body.decode()
    text = records
    check("CONNECT allowed.test 80" in text and "OK 11.0.0.2" in text and "ERR host_not_allowed denied.test port 80" in text, text[:2000])
    check("secret-path" not in text, "a path in the audit")
    mine = [r for r in map(json.loads, records.splitlines()) if r.get("sandbox") == box]
    equal([r["outcome"] for r in mine].count("summary"), 1, mine[-3:])
    equal((len(mine), mine[-1]["details"]), (21, {"connected": 0, "refused": 7}), mine[-3:])


main()
