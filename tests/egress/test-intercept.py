#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets that go into requests on their way: where they arrive, where they never do, and that no sandbox ever has one."""
import contextlib
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w
import cases
import images
from masd import *

if os.environ.get("MAS_EGRESS_USER"):
    w.skip("the secrets of this script are root's")
SECRET, OWN = "sk-intercepted-0123456789abcdef", "own-intercepted-fedcba9876543210"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
TELL = """
    set $with "without"; set $own "without";
    if ($http_authorization = "Bearer %s") { set $with "with"; }
    if ($http_x_own = "%s") { set $own "with"; }
    location = /tell { add_header X-Protocol $server_protocol; return 200 "$with the secret, $own its own, method $request_method\\n"; }
    location = /echo { return 200 "$http_authorization\\n"; }
    location = /to-other { return 302 https://www.allowed.test/tell; }
    location = /to-plain { return 302 http://allowed.test/tell; }
    location = /redirects-to-self { return 302 https://allowed.test/tell; }
""" % (SECRET, OWN)
NETWORK = {"allow": [{"host": h} for h in ("allowed.test", "www.allowed.test", "wrong.tricks.test", "far.test", "denied.test", "*.wild.test")],
           "inject": ["api"], "intercept": True}


def flags(secret_file):
    return ["-secrets", f"api=file:{secret_file} allowed.test,wrong.tricks.test,*.wild.test Authorization: Bearer {{}}",
            "-secrets", f"elsewhere=file:{secret_file} far.test Authorization: Bearer {{}}",
            "-secrets", f"again=file:{secret_file} allowed.test authorization: Bearer {{}}",
            "-secret-hosts", "allowed.test,far.test"]


def start():
    world = w.World(tricks={"wrong.tricks.test": [[w.ALLOWED]]}, locations=TELL)
    with open(AUTHORITIES) as f, open(world.ca) as own:
        world._cover(AUTHORITIES, f.read() + own.read())
    secret = os.path.join(world.dir, "secret")
    with open(secret, "w") as f:
        f.write(SECRET + "\n")
    os.chmod(secret, 0o600)
    return cases.use(cases.Net(world, NETWORK, *flags(secret)))


if cases.RUNTIME.split("-")[0] not in ("local", "crun", "runc", "gvisor", "microvm", "podman", "docker") or cases.RUNTIME.endswith("kata"):
    @test("a runtime whose programs have trust stores of their own refuses to intercept, by name")
    def test_other_runtimes_refuse_to_intercept():
        w.ip("link set lo up")
        with Daemon() as d:
            a = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "allowed.test"}], "intercept": True}})
            check(a.status == 400 and "intercept" in a.body.decode() and cases.RUNTIME in a.body.decode(), a)
    main()
    sys.exit()

net = start()


def curl(*args, box=None, **more):
    return net.run("curl", "-sS", "--max-time", "20", *args, box=box, **more)


def tell(url, *args, box=None):
    a = curl(*args, url, box=box)
    equal(a["exit_code"], 0, a)
    return a["stdout"]


WITH, WITHOUT = "with the secret, without its own, method GET\n", "without the secret, without its own, method GET\n"


def interceptors():
    """Pids by sandbox: the process says nothing of itself, but its parent is the warden."""
    return named("mas-intercept", below(net.daemon.process.pid))


def memory_of(pids):
    return sum(map(resident_kib, pids))


def refused(status, words, **spec):
    a = net.daemon.post("/v1/sandboxes", spec)
    equal(a.status, status, a)
    check(words in a.body.decode(), a)


if cases.RUNTIME == "microvm":
    # The rest is the same process as for other runtimes; what is a machine's own is how its programs come to trust it.
    @test("in a machine that is a copy, too, python gets the header, the guest has no secret, and the machine is not kept")
    def test_machines():
        ask = "import urllib.request; print(urllib.request.urlopen('https://allowed.test/tell',timeout=60).read().decode(), end='')"
        for box in (net.box, net.sandbox(NETWORK)):
            a = net.python(ask, box=box)
            equal((a["exit_code"], a["stdout"]), (0, WITH), a)
            equal(box.created["effective"]["network"], {"by": "gateway", "mode": "names", "intercept": True})
            a = net.run("sh", "-c", f"env; cat /etc/ssl/certs/ca-certificates.crt; echo x >> /etc/ssl/certs/ca-certificates.crt; grep -r {SECRET[:12]} /etc /tmp /workspace", box=box)
            check(SECRET not in a["stdout"] and "BEGIN CERTIFICATE" in a["stdout"] and "ca-certificates.crt: Permission denied" in a["stderr"], a["stderr"])
        equal(box.created["effective"]["machine"], "restored")
        a = net.daemon.post(box.path + "/snapshot", {"name": "x"})
        check(a.status == 400 and "interceptor" in a.json["error"]["message"], a)
        plain = net.sandbox({"allow": [{"host": "allowed.test"}]})
        check("CERTIFICATE_VERIFY_FAILED" in net.python(ask, box=plain)["stderr"], "and another machine does not trust it")

    @test("an image of a machine keeps its own authorities and trusts the interceptor, booted and as a copy; one without any is refused by name")
    def test_images_of_machines():
        def upload(name, fill, text=None):
            """As a tar: a machine's image is a disk, which the daemon makes of it."""
            with tempfile.TemporaryDirectory() as top:
                root = os.path.join(top, "root")
                os.mkdir(root, 0o755)
                fill(root)
                if text:
                    images.write(root, AUTHORITIES[1:], text)
                subprocess.run(["tar", "-C", root, "--owner=0", "--group=0", "-cf", root + ".tar", "."], check=True)
                with open(root + ".tar", "rb") as f:
                    a = net.daemon.request("PUT", f"/v1/images/tar?name={name}", f.read(), timeout=300)
            check(a.status in (200, 201), a)

        ask = "import urllib.request; print(urllib.request.urlopen('https://allowed.test/tell',timeout=60).read().decode(), end='')"
        own = "# of the image\n"
        upload("trusting", images.host_like, own)
        for origin in ("booted", "restored"):
            with net.sandbox(NETWORK, image="trusting") as box:
                equal(box.created["effective"]["machine"], origin)
                text = net.run("cat", AUTHORITIES, box=box)["stdout"]
                check(text.startswith(own) and text.count("BEGIN CERTIFICATE") == 1, text)
                equal(net.run("sh", "-c", "cat $SSL_CERT_FILE", box=box)["stdout"], text)
                a = net.python(ask, box=box)
                equal((a["exit_code"], a["stdout"]), (0, WITH), a)
                a = net.run("sh", "-c", f"env; grep -r {SECRET[:12]} /etc /tmp /workspace; echo x >> {AUTHORITIES}", box=box)
                check(SECRET not in a["stdout"] and "Permission denied" in a["stderr"], a)
        with net.sandbox({"allow": [{"host": "allowed.test"}]}, image="trusting") as box:
            equal(net.run("cat", AUTHORITIES, box=box)["stdout"], own, "of a machine without an interceptor")
        upload("bare", images.small)
        a = net.daemon.post("/v1/sandboxes", {"image": "bare", "network": NETWORK})
        check(a.status >= 400 and "certificate authorities" in a.json["error"]["message"], a)
    main()
    sys.exit()


if cases.RUNTIME.split("-")[0] in ("podman", "docker"):
    # As with machines: what is an engine's own is how programs in its containers come to trust the interceptor.
    @test("in an engine's container, too, curl and python get the header, also after the whole daemon was killed, and no other container trusts it")
    def test_engines():
        ask = "import urllib.request; print(urllib.request.urlopen('https://allowed.test/tell',timeout=60).read().decode(), end='')"
        equal(net.box.created["effective"]["network"], {"by": "gateway", "mode": "names", "intercept": True})

        def check_header():
            equal(tell("https://allowed.test/tell"), WITH)
            a = net.python(ask)
            equal((a["exit_code"], a["stdout"]), (0, WITH), a)
        check_header()
        a = net.run("sh", "-c", f"env; echo x >> {AUTHORITIES}; rm {AUTHORITIES}; grep -r {SECRET[:12]} /etc /tmp /workspace; cat {AUTHORITIES}")
        check(SECRET not in a["stdout"] and "BEGIN CERTIFICATE" in a["stdout"] and a["stderr"].count("ca-certificates.crt") == 2, a["stderr"])
        plain = net.sandbox({"allow": [{"host": "allowed.test"}]})
        bundles = [box.sh(f"cat {AUTHORITIES}")["stdout"].count("BEGIN CERTIFICATE") for box in (plain, net.box)]
        equal(bundles[1], bundles[0] + 1, "certificates")
        digest = images.put_image(net.daemon, images.small, change=lambda root: images.write(root, AUTHORITIES[1:], "# of the image\n"))
        with net.sandbox(NETWORK, image="sha256:" + digest) as box:
            text = box.sh(f"cat {AUTHORITIES} $SSL_CERT_FILE")["stdout"]
            equal((text.count("# of the image"), text.count("BEGIN CERTIFICATE")), (2, 2), text)
        net.daemon.process.kill()
        net.daemon.process.wait()
        net.daemon.start()
        wait_for(lambda: curl("https://allowed.test/tell")["stdout"] == WITH, "a container that a new daemon took up")
        check_header()
        equal(net.box.delete().status, 200)
        wait_for(lambda: not interceptors(), "the interceptor ends with its sandbox")
    main()
    sys.exit()


@test("curl, python and node get the header, whatever they send in its place")
def test_curl_python_and_node_get_the_header_whatever():
    equal(tell("https://allowed.test/tell"), WITH)
    equal(tell("https://allowed.test/tell", "-H", "Authorization: Bearer mine", "-H", "AUTHORIZATION: other"), WITH, "their own is left out")
    equal(tell("https://one.wild.test/tell"), WITH, "a name below *.")
    a = net.python("import urllib.request; print(urllib.request.urlopen('https://allowed.test/tell').read().decode(), end='')")
    equal((a["exit_code"], a["stdout"]), (0, WITH), a)
    if net.run("node", "--version")["exit_code"] == 0:
        a = net.run("node", "-e", """const http=require('http'),tls=require('tls');
const p=http.request({host:'127.0.0.1',port:3128,method:'CONNECT',path:'allowed.test:443',headers:{Host:'allowed.test:443'}});
p.on('connect',(r,s)=>{const t=tls.connect({socket:s,servername:'allowed.test'},()=>{
t.write('GET /tell HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n');});let d='';t.on('data',c=>d+=c);
t.on('end',()=>process.stdout.write(d.split('\\r\\n\\r\\n')[1]));t.on('error',e=>{console.log(e);process.exit(3)});});p.end();""")
        equal((a["exit_code"], a["stdout"]), (0, WITH), a)
    equal(net.box.created["effective"]["network"], {"by": "gateway", "mode": "names", "intercept": True})


@test("a whole https:// URL is fetched for a client that leaves TLS to the proxy, from a server that proves its name")
def test_a_whole_https_url_is_fetched():
    def ask(url, more=b"", method=b"GET"):
        host = url.split(b"/")[2]
        return net.ask(b"%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (method, url, host, more))[0]

    got = ask(b"https://www.allowed.test/tell")
    check(got.startswith("HTTP/1.1 200") and got.endswith(WITHOUT), got)
    got = ask(b"https://www.allowed.test:443/tell", b"Content-Length: 3\r\n\r\nabc", b"POST")
    check("200" in got.split("\r\n")[0] and "method POST" in got, got)
    got = ask(b"https://wrong.tricks.test/tell")
    check(got.startswith("HTTP/1.1 501") and "CONNECT" in got, got)  # a secret's host: the interceptor's alone
    plain = net.sandbox({"allow": [{"host": h} for h in ("allowed.test", "wrong.tricks.test")], "deny": [{"host": "denied.test"}]})
    answers = net.get("https://allowed.test/tell", "https://wrong.tricks.test/tell", "https://denied.test/tell", "https://allowed.test:80/tell", box=plain)
    check(answers[0].startswith("HTTP/1.1 200") and answers[0].endswith(WITHOUT), answers)
    check(answers[1].startswith("HTTP/1.1 502") and "mismatch" in answers[1].lower(), answers[1])
    check(answers[2].startswith("HTTP/1.1 403"), answers[2])
    check(answers[3].startswith("HTTP/1.1 502"), answers[3])
    plain.delete()


# Sends a request for a whole https:// URL, whose body is as long as it says and is sent while the answer is read. Prints
# how many bytes of the body of the answer came, and how they ended.
WHOLE = """import socket,sys,threading
url,size=sys.argv[1],int(sys.argv[2])
s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(40)
s.sendall(b'POST %s HTTP/1.1\\r\\nHost: %s\\r\\nContent-Length: %d\\r\\n\\r\\n'%(url.encode(),url.split('/')[2].encode(),size))
def send():
    try: s.sendall(b'x'*size)
    except OSError: pass
threading.Thread(target=send,daemon=True).start()
got,end=b'','ended'
try:
    while True:
        more=s.recv(65536)
        if not more: break
        got+=more
        if got.endswith(b'enough'): break
except OSError as e: end=type(e).__name__
print(got[9:12].decode(),len(got.partition(b'\\r\\n\\r\\n')[2]),end)
"""


CUT = "ConnectionResetError"


class TlsServer:
    """A server of TLS at port 8443 that reads a request's head and then does what a case says with the connection, of
    whose body so many bytes have come."""

    def __init__(self, act):
        self.act = act
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(f"{net.world.dir}/cert.pem", f"{net.world.dir}/key.pem")
        self.listener = net.world.in_outer(lambda: socket.create_server((w.ALLOWED, 8443)))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                conn = self.listener.accept()[0]
                with contextlib.suppress(OSError), self.context.wrap_socket(conn, server_side=True) as tls:
                    got = b""
                    while b"\r\n\r\n" not in got:
                        got += tls.recv(65536)
                    self.act(tls, len(got.partition(b"\r\n\r\n")[2]))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which holds it
        self.listener.close()


def ask_whole(act, size=0):
    plain = net.sandbox({"allow": [{"host": "allowed.test", "ports": [8443]}]})
    with contextlib.closing(TlsServer(act)):
        a = net.python(WHOLE, "https://allowed.test:8443/", str(size), box=plain)
    plain.delete()
    equal((a["exit_code"], a["stderr"]), (0, ""), a)
    return a["stdout"].strip()


@test("an answer that its server did not end is an error to a client that leaves TLS to the proxy, and no shorter answer")
def test_an_answer_that_was_cut_is_an_error():
    body, endless = b"b" * 300000, b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n"

    def ends(data):
        def act(tls, come):
            tls.sendall(data)
            tls.unwrap()  # which says that it ends
        return act

    def cuts(data):
        def act(tls, come):
            tls.sendall(data)
            tls.shutdown(socket.SHUT_RDWR)
        return act

    equal(ask_whole(ends(endless + body)), "200 300000 ended", "ended by its server")
    equal(ask_whole(cuts(endless + body)), f"200 300000 {CUT}", "cut on its way")
    with_length = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    equal(ask_whole(cuts(with_length % len(body) + body)), "200 300000 ended", "it says how long it is, and is")
    equal(ask_whole(cuts(with_length % (len(body) + 1) + body)), "200 300000 ended", "its client sees that one byte is missing")
    equal(ask_whole(cuts(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")), "200 13 ended")
    equal(ask_whole(cuts(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n")).split()[2], "ended", "an answer without a body")
    equal(ask_whole(cuts(b"HTTP/1.1 200 OK\r\nContent-Length: 3")).split()[2], CUT, "in the middle of its head")
    equal(ask_whole(cuts(b"")).split()[0], "502", "nothing at all")


@test("a server that answers before it has read the request is heard by a client that leaves TLS to the proxy")
def test_a_server_that_answers_early_is_heard():
    over = threading.Event()

    def answer_only(tls, come):
        tls.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 6\r\n\r\nenough")
        over.wait(60)  # and reads nothing of sixteen megabytes

    def talk(tls, come):
        tls.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(4 << 20))  # before the next byte is read
        left = (16 << 20) - come
        while left > 0:
            left -= len(tls.recv(65536))
        tls.sendall(b"enough")
        over.wait(60)

    try:
        equal(ask_whole(answer_only, 16 << 20), "413 6 ended")
        equal(ask_whole(talk, 16 << 20), f"200 {(4 << 20) + 6} ended")
    finally:
        over.set()


@test("a plain connection that its server or the daemon broke is an error to its client")
def test_a_plain_connection_that_broke_is_an_error():
    def serve(listener):
        with contextlib.suppress(OSError):
            conn = listener.accept()[0]
            conn.recv(65536)
            conn.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf")
            time.sleep(0.5)
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.close()

    plain = net.sandbox({"allow": [{"host": "allowed.test", "ports": [8443]}]})
    with contextlib.closing(net.world.in_outer(lambda: socket.create_server((w.ALLOWED, 8443)))) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        a = net.python(WHOLE, "http://allowed.test:8443/", "0", box=plain)
    equal(a["stdout"].strip(), f"200 4 {CUT}", a)
    plain.delete()


def gateway_threads():
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in net.processes("mas-gateway"))


@test("a server that sends its handshake a byte at a time holds neither its client nor a thread of the gateway")
def test_a_slow_handshake_holds_nobody():
    def trickle(listener):
        with contextlib.suppress(OSError):
            conn = listener.accept()[0]
            conn.sendall(b"\x16\x03\x03\x3f\xff")  # a record of 16 KiB, of which little comes
            while True:
                time.sleep(0.5)
                conn.sendall(b"\x02")

    def ask_in_background(box):
        with contextlib.suppress(Exception):  # its sandbox is deleted on the way
            net.get("https://allowed.test:8443/tell", box=box)

    with contextlib.closing(net.world.in_outer(lambda: socket.create_server((w.ALLOWED, 8443)))) as listener:
        for _ in range(2):
            threading.Thread(target=trickle, args=(listener,), daemon=True).start()
        plain = net.sandbox({"allow": [{"host": "allowed.test", "ports": [8443]}]})
        net.get("http://www.allowed.test/tell")  # the gateway's threads that resolve names are there from now on
        before = gateway_threads()
        check(before, "the gateway is there")
        began = time.monotonic()
        got = net.get("https://allowed.test:8443/tell", box=plain)[0]
        check(got.startswith("HTTP/1.1 502") and time.monotonic() - began < 20, (got, time.monotonic() - began))
        threading.Thread(target=ask_in_background, args=(plain,), daemon=True).start()
        wait_for(lambda: gateway_threads() > before, "the handshake has begun")
        plain.delete()
        wait_for(lambda: gateway_threads() <= before, "its thread ends with its sandbox", 5)


@test("no other host, scheme, port or redirect gets it")
def test_no_other_host_scheme_port_or_redirect_gets():
    equal(tell("https://www.allowed.test/tell"), WITHOUT, "another name of the same server")
    equal(tell("http://allowed.test/tell"), WITHOUT, "plain http")
    equal(tell("http://allowed.test:443/tell", "-H", "Host: allowed.test:443")[:6], "<html>", "plain http to the port of https: nginx's own 400")
    equal(tell("https://wild.test/tell", "-k", box=net.sandbox({"allow": [{"host": "wild.test"}], "inject": ["api"], "intercept": True})), WITHOUT,
          "the domain itself is not below it")
    equal(tell("https://allowed.test/to-other", "-L"), WITHOUT, "after a redirect to another host")
    equal(tell("https://allowed.test/to-plain", "-L"), WITHOUT, "after a redirect to http")
    equal(tell("https://allowed.test/redirects-to-self", "-L"), WITH, "the same host again is not elsewhere")
    equal(tell("https://denied.test/tell", "-k"), WITHOUT)
    plain = net.sandbox({"allow": [{"host": "allowed.test"}]})
    equal(tell("https://allowed.test/tell", box=plain), WITHOUT, "a sandbox that names no secret")
    equal("intercept" in plain.created["effective"]["network"], False)


@test("what cannot be meant is refused by name")
def test_what_cannot_be_meant_is_refused_by_name():
    allow = [{"host": "allowed.test"}]
    refused(400, "intercept", network={"allow": allow, "inject": ["api"]})
    refused(400, "no secret 'nothing'", network={"allow": allow, "inject": ["nothing"], "intercept": True})
    refused(400, "twice", network={"allow": allow, "inject": ["api", "api"], "intercept": True})
    refused(400, "two secrets are for the header", network={"allow": allow, "inject": ["api", "again"], "intercept": True})
    refused(400, "inject", network={"allow": allow, "inject": "api", "intercept": True})
    refused(400, "inject", network={"allow": allow, "inject": [{"name": "api", "hosts": ["evil.test"]}], "intercept": True})
    refused(400, "intercept", network={"allow": allow, "inject": ["api"], "intercept": "yes"})
    refused(400, "'process'", network={"allow": allow, "intercept": True}, runtime="process")
    refused(400, "hosts", network={"allow": allow, "inject": ["api"], "intercept": True, "hosts": ["evil.test"]})
    for change in ({"inject": ["elsewhere"]}, {"intercept": False}, {"intercept": True, "inject": []}):
        a = net.daemon.request("PATCH", f"/v1/sandboxes/{net.box.id}/network", json.dumps(change), headers={"Content-Type": "application/json"})
        check(a.status == 400 and list(change)[0] in a.body.decode(), a)


@test("more hosts than an interceptor can be started with are refused when the sandbox is made, and many paths of one host are one")
def test_hosts_that_an_interceptor_has_no_room_for():
    def network(hosts):
        return {"allow": [{"host": h, "ports": [443], "paths": [f"/{i}/*"]} for i, h in enumerate(hosts)], "intercept": True}
    refused(400, "128 hosts", network=network([f"h{i}.test" for i in range(129)]))
    long = ["x" * 60 + "." + "y" * 60 + "." + "z" * 60 + f".h{i}.test" for i in range(60)]
    refused(400, "8192 bytes", network=network(long))
    refused(400, "one certificate", network=network(long[:40]))
    for hosts in (long[:12], ["allowed.test"] * 200):
        a = net.daemon.post("/v1/sandboxes", {"network": network(hosts)})
        equal(a.status, 201, a)
        with Sandbox(net.daemon, a.json) as box:
            if hosts[0] == "allowed.test":
                a = curl("-o", "/dev/null", "-w", "%{http_code} ", "https://allowed.test/199/x", "https://allowed.test/200/x", "-o", "/dev/null", box=box)
                equal(a["stdout"], "404 403 ", a)


@test("an image's programs trust its own authorities and the interceptor, wherever it has them; one without any is refused by name")
def test_images():
    pki = "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"
    ask = "import urllib.request; print(urllib.request.urlopen('https://allowed.test/tell',timeout=60).read().decode(), end='')"
    own = "# of the image\n"

    def debian(root):
        images.write(root, AUTHORITIES[1:], own)

    def fedora(root):
        images.write(root, pki, own)
        os.makedirs(os.path.join(root, "etc/pki/tls/certs"))
        os.symlink("/" + pki, os.path.join(root, "etc/pki/tls/certs/ca-bundle.crt"))
        os.makedirs(os.path.join(root, "etc/ssl"))
        os.symlink("../pki/tls/certs", os.path.join(root, "etc/ssl/certs"))

    def outside(root):
        os.makedirs(os.path.join(root, "etc/ssl/certs"))
        os.symlink("../" * 20 + net.daemon.log_path[1:], os.path.join(root, AUTHORITIES[1:]))

    def sandbox(number, change, fill=images.small, network=NETWORK):
        digest = images.put_image(net.daemon, fill, number, change=change)
        return net.daemon.post("/v1/sandboxes", {"image": "sha256:" + digest, "network": network})

    for number, change, fill, path in ((1, debian, images.host_like, AUTHORITIES), (2, fedora, images.small, "/etc/pki/tls/certs/ca-bundle.crt")):
        a = sandbox(number, change, fill)
        equal(a.status, 201, a)
        with Sandbox(net.daemon, a.json) as box:
            text = net.run("cat", path, box=box)["stdout"]
            check(text.startswith(own) and text.count("BEGIN CERTIFICATE") == 1, text)
            equal(net.run("sh", "-c", "cat $SSL_CERT_FILE", box=box)["stdout"], text)
            if fill == images.host_like:
                a = net.python(ask, box=box)
                equal((a["exit_code"], a["stdout"]), (0, WITH), a)
    for number, change in ((3, None), (4, outside)):
        a = sandbox(number, change)
        check(a.status >= 400 and "certificate authorities" in a.json["error"]["message"], a)
    a = sandbox(5, debian, network={"allow": [{"host": "allowed.test"}]})
    with Sandbox(net.daemon, a.json) as box:
        equal(net.run("cat", AUTHORITIES, box=box)["stdout"], own, "of a sandbox without an interceptor")


@test("a server that cannot prove its name gets nothing, and the client is told why")
def test_a_server_that_cannot_prove_its_name_gets():
    before = len(net.world.requests())
    a = curl("-i", "https://wrong.tricks.test/tell")
    check(a["exit_code"] == 0 and "502" in a["stdout"] and "certificate of wrong.tricks.test is not valid" in a["stdout"], a)
    equal(len(net.world.requests()), before, "no request reached it")


@test("the secret is nowhere in the sandbox: memory, environment, files, mounts, answers")
def test_the_secret_is_nowhere_in_the_sandbox_memory():
    a = net.run("sh", "-c", "curl -sS -o /tmp/got https://allowed.test/tell; sleep 300 & "
                "python3 -c 'import urllib.request,time; r=urllib.request.urlopen(\"https://allowed.test/tell\"); d=r.read(); print(r.headers); time.sleep(300)' "
                ">/tmp/python.out 2>&1 & sleep 2; echo ready")
    check("ready" in a["stdout"], a)
    code = """
import os,sys,re
want=[bytes.fromhex(x) for x in sys.argv[1:]]
bad=[]
for pid in [p for p in os.listdir('/proc') if p.isdigit() and int(p)!=os.getpid()]:
    for name in ('environ','cmdline'):
        try: data=open(f'/proc/{pid}/{name}','rb').read()
        except OSError: continue
        bad+=[f'{pid} {name}' for s in want if s in data]
    try: maps=open(f'/proc/{pid}/maps').read().splitlines(); mem=open(f'/proc/{pid}/mem','rb')
    except OSError: continue
    for line in maps:
        lo,hi=[int(x,16) for x in line.split()[0].split('-')]
        try: mem.seek(lo); data=mem.read(hi-lo)
        except (OSError,ValueError,OverflowError): continue
        bad+=[f'{pid} {line}' for s in want if s in data]
for root,dirs,files in os.walk('/'):
    dirs[:]=[d for d in dirs if os.path.join(root,d) not in ('/proc','/usr','/sys','/dev')]
    for f in files:
        p=os.path.join(root,f)
        try:
            if os.path.isfile(p): data=open(p,'rb').read()
            else: continue
        except OSError: continue
        bad+=[p for s in want if s in data]
print(bad)
"""
    a = net.python(code, SECRET.encode().hex())
    equal((a["exit_code"], a["stdout"].strip()), (0, "[]"), a)
    a = net.python(code, b"without its own".hex())
    check("/tmp/got" in a["stdout"], f"the search finds what is there: {a}")
    equal(net.run("sh", "-c", "env; cat /proc/self/environ; set")["stdout"].count(SECRET), 0)


@test("a host that echoes headers shows the secret, as the manual says")
def test_a_host_that_echoes_headers_shows_the_secret():
    equal(tell("https://allowed.test/echo"), f"Bearer {SECRET}\n")


@test("the interceptor is one process per sandbox, of its own user, without a network, files or descriptors of others")
def test_the_interceptor_is_one_process_per_sandbox_of():
    other = net.sandbox({"allow": [{"host": "far.test"}], "inject": ["elsewhere"], "intercept": True})
    pids = interceptors()
    check(len(pids) >= 2, pids)
    for pid in pids:
        status = status_of(pid)
        equal((status["Uid"].split(), status["NoNewPrivs"], status["Seccomp"], status["CapEff"]), (["64222"] * 4, "1", "2", "0" * 16), pid)
        with open(f"/proc/{pid}/net/dev") as f:
            equal([line.split(":")[0].strip() for line in f.read().splitlines()[2:]], ["lo"], pid)
        with open(f"/proc/{pid}/environ", "rb") as f:
            equal(f.read(), b"", pid)
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            equal(f.read(), b"mas-intercept\0", pid)
    equal(tell("https://far.test/tell", box=other), WITH)
    bundles = {box.sh(f"cat {AUTHORITIES}")["stdout"].rstrip().rsplit("-----BEGIN", 1)[1] for box in (net.box, other)}
    equal(len(bundles), 2, "each has an authority of its own")
    a = curl("https://allowed.test/tell", box=other)
    check(a["exit_code"] != 0, "the network of the other does not have this host")
    count = len(interceptors())
    other.delete()
    wait_for(lambda: len(interceptors()) == count - 1, "the interceptor ends with its sandbox")


@test("the authority signs nothing but its hosts' names, and outlives its process and the control plane")
def test_the_authority_signs_nothing_but_its_hosts_names():
    pem = net.box.sh(f"cat {AUTHORITIES}")["stdout"].rstrip().rsplit("-----BEGIN", 1)[1]
    with open(os.path.join(net.world.dir, "authority.pem"), "w") as f:
        f.write("-----BEGIN" + pem + "\n")
    text = subprocess.run(["openssl", "x509", "-noout", "-text", "-in", f.name], stdout=subprocess.PIPE, text=True, check=True).stdout
    check(re.search(r"Name Constraints: critical\s+Permitted:\s+DNS:allowed.test\s+DNS:wrong.tricks.test\s+DNS:wild.test\s+Excluded:\s+IP:0.0.0.0/0.0.0.0", text), text)
    old = interceptors()
    for pid in old:
        os.kill(pid, signal.SIGKILL)

    def works():
        return curl("https://allowed.test/tell")["stdout"] == WITH
    wait_for(works, "it comes back by itself, with the same authority")
    check(not set(old) & set(interceptors()), "as another process")
    net.daemon.kill_control()
    wait_for(works, "and so it is after kill -9 of the control plane")
    equal(net.box.sh(f"cat {AUTHORITIES}")["stdout"].rstrip().rsplit("-----BEGIN", 1)[1], pem)


@test("requests are HTTP/1.1 as it is written, one per connection; everything else is refused by name")
def test_requests_are_http_1_1_as_it_is():
    code = """
import base64,json,socket,ssl,sys
out=[]
for item in json.load(sys.stdin):
    got=b''
    try:
        s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(20)
        s.sendall(b'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n')
        head=b''
        while b'\\r\\n\\r\\n' not in head: head+=s.recv(1)
        c=ssl.create_default_context()
        if 'alpn' in item: c.set_alpn_protocols(item['alpn'])
        t=c.wrap_socket(s,server_hostname=item.get('sni','allowed.test'))
        t.sendall(base64.b64decode(item['data']))
        while True:
            more=t.recv(65536)
            if not more: break
            got+=more
    except OSError as e:
        got+=('error: %s'%e).encode()
    out.append(got.decode('latin1'))
json.dump(out,sys.stdout)
"""
    get = b"GET /tell HTTP/1.1\r\nHost: allowed.test\r\n"
    rows = [(get + b"\r\n", "HTTP/1.1 200"),
            (b"GET /tell HTTP/1.1\r\nHost: Allowed.Test:443\r\n\r\n", "HTTP/1.1 200"),
            (get + b"\r\nGET /second HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "HTTP/1.1 200"),
            (b"GET /tell HTTP/1.0\r\nHost: allowed.test\r\n\r\n", "HTTP/1.1 505"),
            (b"GET /tell HTTP/1.1\r\n\r\n", "HTTP/1.1 400"),
            (b"GET /tell HTTP/1.1\r\nHost: www.allowed.test\r\n\r\n", "HTTP/1.1 421"),
            (b"GET /tell HTTP/1.1\r\nHost: allowed.test:8443\r\n\r\n", "HTTP/1.1 421"),
            (get + b"Host: allowed.test\r\n\r\n", "HTTP/1.1 400"),
            (b"GET https://www.allowed.test/tell HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "HTTP/1.1 400"),
            (b"CONNECT www.allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "HTTP/1.1 405"),
            (get + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400"),
            (get + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", "HTTP/1.1 400"),
            (get + b"Content-Length: +4\r\n\r\nabcd", "HTTP/1.1 400"),
            (get + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 501"),
            (get + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"),
            (get + b"X: a\r\n b\r\n\r\n", "HTTP/1.1 400"), (get + b"X : a\r\n\r\n", "HTTP/1.1 400"),
            (get + b"X: a\nY: b\r\n\r\n", "HTTP/1.1 400"), (get + b"X: a\rb\r\n\r\n", "HTTP/1.1 400"),
            (get + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "HTTP/1.1 501"),
            (b"POST /tell HTTP/1.1\r\nHost: allowed.test\r\nContent-Type: application/grpc+proto\r\nContent-Length: 0\r\n\r\n", "gRPC"),
            (get + b"X: " + b"a" * 17000 + b"\r\n\r\n", "HTTP/1.1 431")]
    items = [{"data": base64.b64encode(data).decode()} for data, _ in rows]
    items += [{"data": "", "alpn": ["h2"]}, {"data": items[0]["data"], "alpn": ["h2", "http/1.1"]}, {"data": "", "sni": "www.allowed.test"}]
    before = len(net.world.requests())
    a = net.python(code, stdin=json.dumps(items))
    equal(a["exit_code"], 0, a)
    answers = json.loads(a["stdout"])
    for (data, want), got in zip(rows, answers):
        check(want in got.split("\r\n\r\n")[0] or want == "gRPC" and "gRPC" in got and "501" in got, f"{data!r}: want {want}, got {got!r}")
        check(got.lower().count("connection: close") == 1, got)
        check(SECRET not in got, got)
    check("error" in answers[-3], f"a client that speaks HTTP/2 alone: {answers[-3]}")
    check(answers[-2].startswith("HTTP/1.1 200"), answers[-2])
    check("error" in answers[-1], f"another name in TLS: {answers[-1]}")
    lines = [r["line"] for r in net.world.requests()[before:]]
    equal(lines, ["GET /tell HTTP/1.1"] * 4, "what reached the server")


@test("bodies go up and down as they are, with a length and in chunks")
def test_bodies_go_up_and_down_as_they_are():
    a = net.run("sh", "-c", "head -c 3000000 /dev/urandom >/tmp/body && curl -sS --max-time 30 --data-binary @/tmp/body https://allowed.test/up && "
                "curl -sS --max-time 30 -H 'Expect: 100-continue' --data-binary @/tmp/body https://allowed.test/up && "
                "curl -sS --max-time 30 -o /dev/null -w '%{size_upload} %{http_code}\\n' -H 'Transfer-Encoding: chunked' --data-binary @/tmp/body https://allowed.test/tell")
    equal(a["stdout"].splitlines()[:2], ["3000000", "3000000"], a)
    check(a["stdout"].splitlines()[2].endswith((" 200", " 405")), a)
    equal(tell("https://allowed.test/tell", "-X", "POST", "-d", "x"), WITH.replace("GET", "POST"))


# Holds as many connections as it is given, of which every second has begun to speak TLS, and tells how many it was given and
# how many it was refused. A connection is sent one beginning only: two make no message of TLS, and end it.
HOLD = """
import os,socket,time
held,refused=[],0
for i in range(40):
    s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(20)
    s.sendall(b'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n')
    got=s.recv(4096)
    if b' 200 ' in got:
        held.append(s)
        if i % 2: s.sendall(b'\\x16\\x03\\x01\\x40\\x00')
    elif b' 503 ' in got and b'this sandbox has too many connections' in got: refused+=1
with open('/tmp/held.new','w') as f: f.write('%d held, %d refused'%(len(held),refused))
os.rename('/tmp/held.new','/tmp/held')
while not os.path.exists('/tmp/over'): time.sleep(0.1)
"""


def sockets_of(pid):
    """Open sockets of a process: of an interceptor one, and two per connection."""
    found = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")
    return found


@test("slow and many clients stay within the limits, and others are served meanwhile")
def test_slow_and_many_clients_stay_within_the_limits():
    before = set(interceptors())
    box = net.sandbox(NETWORK)
    equal(tell("https://allowed.test/tell", box=box), WITH)
    own = set(interceptors()) - before
    equal(len(own), 1, "its interceptor")
    own = own.pop()
    wait_for(lambda: sockets_of(own) == 1, "the interceptor has no connections")
    holder = threading.Thread(target=net.python, args=(HOLD,), kwargs={"box": box, "timeout_ms": 200000}, daemon=True)
    holder.start()
    most, told = 0, ""
    while not told:
        most = max(most, sockets_of(own))
        told = net.run("sh", "-c", "cat /tmp/held 2>/dev/null", box=box)["stdout"]
        check(told or holder.is_alive(), "the one that holds them")
    equal(told, "32 held, 8 refused")
    wait_for(lambda: sockets_of(own) >= 65, "the interceptor has taken the connections, two sockets each")
    equal(max(most, sockets_of(own)), 65, "and no more than those")
    equal(tell("https://allowed.test/tell"), WITH, "another sandbox is served meanwhile")
    net.run("touch", "/tmp/over", box=box)
    holder.join(60)
    wait_for(lambda: curl("https://allowed.test/tell", box=box)["stdout"] == WITH, "the same sandbox is served again")
    wait_for(lambda: sockets_of(own) == 1, "they were given back")
    box.delete()
    before = memory_of(interceptors())
    a = net.python("""
import socket
told={}
for i in range(2000):
    s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(20)
    s.sendall(b'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n')
    status=s.recv(4096).split(b' ')[1].decode()
    told[status]=told.get(status,0)+1
    s.close()
print(sorted(told))
""")
    check(a["stdout"].strip() in ("['200']", "['200', '503']"), a)
    wait_for(lambda: curl("https://allowed.test/tell")["stdout"] == WITH, "and again")
    check(memory_of(interceptors()) < before + 16 * 1024, f"its memory is flat: {before} KiB before, {memory_of(interceptors())} KiB after")


RULES = {"allow": [{"host": "allowed.test", "ports": [80, 443], "methods": ["GET", "HEAD"], "paths": ["/tell", "/v1/*"], "name": "reads"},
                   {"host": "allowed.test", "ports": [443], "methods": ["POST"], "paths": ["/up"]},
                   {"host": "*.wild.test", "ports": [443], "protocol": "http"}, {"host": "www.allowed.test"}],
         "deny": [{"host": "allowed.test", "ports": [443], "paths": ["/v1/admin*"], "name": "no-admin"},
                  {"host": "*.wild.test", "ports": [443], "methods": ["DELETE"]}], "intercept": True}


@test("rules about methods and paths hold inside https: what fits goes on, the rest is a 403 that no server has seen")
def test_methods_and_paths_of_https():
    box = net.sandbox(RULES)

    def code(url, *args):
        a = curl("--path-as-is", "-w", "%{http_code}", "-o", "/tmp/answer", *args, url, box=box)
        equal(a["exit_code"], 0, a)
        return int(a["stdout"])

    def seen():
        return len(net.world.requests())

    equal(code("https://allowed.test/tell"), 200)
    equal(code("https://allowed.test/tell?a=/v1/admin"), 200, "a query is no path")
    equal(code("https://allowed.test/%74ell"), 200, "the same path")
    equal(code("https://allowed.test/v1/x"), 404, "allowed, and not there")
    equal(code("https://allowed.test/up", "--data-binary", "x" * 1000), 200)
    equal(code("https://one.wild.test/tell", "-X", "PUT"), 200)
    equal(code("https://www.allowed.test/anything", "-k"), 404, "not intercepted: no rule looks into it")
    before = seen()
    for url, args in (("/", ()), ("/tell", ("-X", "POST")), ("/tell", ("-X", "get")), ("/tellme", ()), ("/TELL", ()), ("/up", ()), ("/v1/admin", ()),
                      ("/v1/admin/users?x", ()), ("/v1/%61dmin", ()), ("/v1/%2561dmin", ()), ("/v1/x/../admin", ()), ("/v1//admin", ()),
                      ("/v1/./admin", ()), ("/v1/x%2f..%2fadmin", ()), ("/v1/..%2fadmin", ()), ("/v1/x;/admin", ()), ("/v1/x/..;/admin", ()),
                      ("/v1/\\admin", ()), ("//v1/admin", ()), ("/v1/%zz", ()), ("/v1/%00", ()), ("/v1/%2e%2e/admin", ())):
        equal(code("https://allowed.test" + url, *args), 403, url)
    check("interceptor: host_not_allowed" in net.run("cat", "/tmp/answer", box=box)["stdout"], "the answer says why")
    equal(code("https://one.wild.test/tell", "-X", "DELETE"), 403)
    for header in ("X-HTTP-Method-Override: POST", "X-HTTP-METHOD: POST", "X-Method-Override: POST", "X-Original-URL: /v1/admin", "x_rewrite_url: /v1/admin"):
        equal(code("https://allowed.test/tell", "-H", header), 403, header)
    check("a header that names another method" in net.run("cat", "/tmp/answer", box=box)["stdout"], "the answer says why")
    equal(code("https://one.wild.test/tell", "-H", "X-HTTP-Method-Override: DELETE"), 403, "by a rule that denies")
    equal(code("https://allowed.test/up", "-T", "/etc/passwd"), 403, "PUT")
    equal(seen(), before, "requests that reached the server")
    # A second request behind the first is none, and what is no HTTP is not carried.
    a = net.python("""import socket,ssl
s=socket.create_connection(('127.0.0.1',3128),20); s.sendall(b'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n'); s.recv(4096)
t=ssl.create_default_context().wrap_socket(s,server_hostname='allowed.test'); t.settimeout(20)
t.sendall(b'GET /tell HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\nGET /v1/admin HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n')
got=b''
while True:
    more=t.recv(65536)
    if not more: break
    got+=more
print(got.count(b'HTTP/1.1 '))""", box=box)
    equal(a["stdout"].strip(), "1", a)
    equal(seen(), before + 1)
    # Plain http has the same rules, by the gateway.
    equal(code("http://allowed.test/tell"), 200)
    equal(code("http://allowed.test/tell", "-X", "POST"), 403)
    check(net.get("https://allowed.test/tell", box=box)[0].startswith("HTTP/1.1 501"), "a whole URL goes by CONNECT")

    def denied():
        log = [json.loads(x) for x in net.daemon.get(f"/v1/sandboxes/{box.id}/network/log?limit=1000").body.splitlines()]
        return [(e["data"]["host"], e["data"]["port"], e["data"].get("rule")) for e in log if e["type"] == "network.denied"]

    wait_for(lambda: ("allowed.test", 443, "no-admin") in denied(), "a record with its rule")
    check(("allowed.test", 443, None) in denied() and any(d[0] == "one.wild.test" and "DELETE" in (d[2] or "") for d in denied()), denied())
    box.delete()


@test("a host may have as many rules about its paths as a sandbox may have rules")
def test_many_rules_about_one_host():
    for n, size in ((120, 100), (1000, 60)):
        paths = [f"/{i}/{'x' * size}" for i in range(n)] + ["/tell"]
        box = net.sandbox({"allow": [{"host": "allowed.test", "ports": [443], "paths": [p]} for p in paths],
                           "deny": [{"host": "allowed.test", "ports": [443], "methods": ["PUT"]}], "intercept": True})
        code = lambda path, *args: curl("-o", "/dev/null", "-w", "%{http_code}", *args, "https://allowed.test" + path, box=box)["stdout"]
        equal(code("/tell"), "200")
        equal(code(paths[n // 2]), "404", "allowed, and not there")
        before = len(net.world.requests())
        equal(code("/telling"), "403")
        equal(code("/tell", "-X", "PUT"), "403")
        equal(len(net.world.requests()), before, "requests that reached the server")
        box.delete()


@test("rules about methods and paths of https are refused by name where nothing would hold them; one that asks asks")
def test_methods_and_paths_of_https_that_cannot_be():
    rule = {"host": "allowed.test", "ports": [443], "methods": ["GET"]}
    refused(400, "intercept", network={"allow": [rule]})
    for bad in ({"host": "*"}, {"host": w.ALLOWED}, {"cidr": "11.0.0.0/8"}):
        for key in ("allow", "deny"):
            item = {"ports": [443], "methods": ["GET"], **bad}
            refused(400, "are not intercepted", network={"allow": [{"host": "far.test"}, *([item] if key == "allow" else [])],
                                                         "deny": [item] if key == "deny" else [], "intercept": True})
    box = net.sandbox({"allow": [{"host": "allowed.test"}, {"host": "far.test", "ports": [443], "paths": ["/tell"], "ask": True}], "intercept": True})
    a = net.daemon.request("PATCH", f"/v1/sandboxes/{box.id}/network", {"deny": [rule]})
    check(a.status == 400 and "not read in this sandbox" in a.body.decode(), a)
    a = net.daemon.request("PATCH", f"/v1/sandboxes/{box.id}/network", {"deny": [{"host": "far.test", "ports": [443], "paths": ["/secret"]}]})
    equal(a.status, 200, a)
    got = curl("-i", "https://far.test/tell", box=box)["stdout"]
    check(" 403 " in got and "approval_needed" in got, got)
    wait_for(lambda: net.daemon.get("/v1/approvals?status=pending").json["approvals"], "a person is asked")
    question = net.daemon.get("/v1/approvals?status=pending").json["approvals"][0]["id"]
    equal(net.daemon.get(f"/v1/approvals/{question}").json["subject"]["network"]["host"], "far.test")
    equal(net.daemon.post(f"/v1/approvals/{question}/approve", {}).status, 200)
    wait_for(lambda: curl("https://far.test/tell", box=box)["stdout"] == WITHOUT, "the yes holds")
    check(" 403 " in curl("-i", "https://far.test/secret", box=box)["stdout"], "denied")
    box.delete()


@test("a key's own secret is used, replaced while a sandbox runs, and gone when it is deleted")
def test_a_key_s_own_secret_is_used_replaced():
    put = lambda **body: net.daemon.put("/v1/secrets/mine", json.dumps(body), headers={"Content-Type": "application/json"})
    equal(put(value="first-value", hosts=["allowed.test"], header="X-Own: {}").status, 200)
    box = net.sandbox({"allow": [{"host": "allowed.test"}, {"host": "far.test"}], "inject": ["mine", "elsewhere"], "intercept": True})
    equal(tell("https://allowed.test/tell", box=box), WITHOUT, "another value is not what nginx waits for")
    equal(put(value=OWN, hosts=["allowed.test"], header="X-Own: {}").status, 200)
    wait_for(lambda: curl("https://allowed.test/tell", box=box)["stdout"] == "without the secret, with its own, method GET\n", "the new value")
    equal(tell("https://far.test/tell", box=box), WITH)
    equal(net.daemon.delete("/v1/secrets/mine").status, 200)

    def is_refused():
        return "503" in curl("https://allowed.test/tell", box=box)["stderr"]
    wait_for(is_refused, "a host of a secret that is gone is refused")
    for _ in range(5):  # and stays so, whatever is started in the old one's place
        time.sleep(0.3)
        check(is_refused(), "a host of a secret that is gone is reached without it")
    box.delete()


if __name__ == "__main__":
    main()
