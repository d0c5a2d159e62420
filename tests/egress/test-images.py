#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images are fetched by the same rules as everything else: through the gateway, from listed hosts, never from closed addresses.

A real registry and one that sends its clients elsewhere are on the outer side; what leaves is looked at on the wire.
"""
import atexit
import base64
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../image"))
import capture  # noqa: E402
import masd  # noqa: E402
from cases import ASK, RUNTIME, allowed, denied, main, make_daemon, use  # noqa: E402
from masd import check, equal, test, wait_for  # noqa: E402
from registry import Layout, tar  # noqa: E402

for program in ("docker-registry", "skopeo"):
    if not shutil.which(program):
        w.skip(f"needs {program}")
if RUNTIME != "local":
    w.skip("no sandbox is made here: the runtime says nothing about it")

REAL, ELSEWHERE, PRIVATE, META = "allowed.test:5000", "wild.test:5001", "private.test:5000", "meta.test:5000"
LISTED = [REAL, ELSEWHERE, META, "denied.test:5000"]
CONFIG = f"images_registries: {json.dumps(LISTED)}\nimages_insecure_registries: {json.dumps(LISTED)}\ndisallowed_hosts: [denied.test]\n" \
    "images_hosts: [169.254.169.254, '10.9.9.0/24', 11.0.0.1]\n"


class Redirects(http.server.BaseHTTPRequestHandler):
    """A registry that has everything, at a place that the name of the image says."""

    def do_GET(self):
        parts = self.path.split("/", 3)  # "", "v2", name, rest
        host = {"meta": "169.254.169.254", "private": "10.9.9.9:5000", "host": "11.0.0.1:22", "other": "denied.test", "loopback": "127.0.0.1:22",
                "good": REAL}.get(parts[2])
        place = host and f"http://{host}/v2/tools/{parts[3]}"
        self.send_response(307 if place else 200)
        if place:
            self.send_header("Location", place)
        self.send_header("Content-Length", "2")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args):
        pass


def serve_redirects(world, place):
    server = world.in_outer(lambda: http.server.ThreadingHTTPServer(place, Redirects))
    threading.Thread(target=server.serve_forever, daemon=True).start()


def start_registry(world):
    """Debian's own, on the outer side, with one image."""
    config = {"version": "0.1", "log": {"level": "error"}, "http": {"addr": "0.0.0.0:5000"},
              "storage": {"filesystem": {"rootdirectory": world.dir + "/registry"}}}
    with open(world.dir + "/registry.yml", "w") as f:
        json.dump(config, f)
    outer = ["nsenter", "-t", str(world.outer.pid), "-n"]
    process = subprocess.Popen([*outer, "docker-registry", "serve", world.dir + "/registry.yml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.kill)
    layout = Layout(tar({"hello": b"from outside"}))
    atexit.register(shutil.rmtree, layout.dir, True)

    def push():
        return subprocess.run([*outer, "skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{layout.dir}:latest",
                               "docker://11.0.0.2:5000/tools:1"], capture_output=True).returncode == 0
    wait_for(push, "the registry serves")


class Wire:
    """What cases are given in place of a Net: there is no sandbox here."""

    def __init__(self, world):
        self.world, self.late, self.controls = world, None, set()
        self.capture = capture.Capture(world)
        self.daemon = make_daemon(config=CONFIG).start()

    def begin(self):
        self.capture.mark()
        self.late = None

    def check_silence(self, but=()):
        equal([line for line in self.capture.mark() if line not in but], [], "came over the wire")

    def pull(self, image, daemon=None):
        return (daemon or self.daemon).post("/v1/images/pull", {"image": image, "policy": "always"}, timeout=120)


world = w.World()
start_registry(world)
serve_redirects(world, ("11.0.0.2", 5001))
net = use(Wire(world))


def refused(a, *words):
    check(a.status in (403, 502, 503, 504) and "cannot fetch" in a.json["error"]["message"], a)
    for word in words:
        check(word in a.json["error"]["message"], a)


@allowed("pull", "an image of a listed registry is fetched through the gateway")
def test_pull(n):
    a = n.pull(f"{REAL}/tools:1")
    equal(a.status, 200, a)
    lines = n.capture.seen()
    check("dns allowed.test" in lines and "tcp 11.0.0.2 5000" in lines, lines)
    check("sandbox=images" in n.daemon.log_text() and "host=allowed.test" in n.daemon.log_text(), "the gateway has connected")


@test("what fetches has no network but loopback, and no process of it has the host's")
def test_namespace():
    pids = [p for p in masd.below(net.daemon.process.pid) if masd.proc_text(p, "comm").strip() == "mas-images"]
    check(pids, "the keeper runs")
    for pid in pids:
        check(masd.proc_link(pid, "ns/net") != masd.proc_link("self", "ns/net"), "a network of its own")
        links = [line.split(":")[0].strip() for line in masd.proc_text(pid, "net/dev").splitlines()[2:]]
        equal(links, ["lo"])


@denied("pull", "a listed name that leads to a metadata address is refused before anything is dialled", lookups=["meta.test"])
def test_closed(n):
    refused(n.pull(f"{META}/tools:1"), "gateway_allow_private")


@denied("pull", "so is what the operator denies to all")
def test_denied(n):
    refused(n.pull("denied.test:5000/tools:1"))


@denied("pull", "a listed domain, or a star, does not open private addresses", lookups=["private.test"])
def test_wide(n):
    with make_daemon(config=f"images_registries: ['*']\nimages_insecure_registries: [{PRIVATE}]\nimages_hosts: ['*.test', '10.9.9.0/24']\n") as d:
        refused(n.pull(f"{PRIVATE}/tools:1", d), "gateway_allow_private")


@denied("pull", "a registry that is not listed is not asked")
def test_not_listed(n):
    a = n.pull("www.allowed.test:5000/tools:1")
    check(a.status >= 400 and "images_registries" in a.json["error"]["message"], a)


@denied("pull", "a registry cannot send the fetch to closed addresses, to this host, or to hosts that are not listed", lookups=["wild.test"], reaches=["tcp 11.0.0.2 5001"])
def test_redirects(n):
    for name in ("meta", "private", "host", "other", "loopback"):
        a = n.pull(f"{ELSEWHERE}/{name}:1")
        check(a.status >= 400 and "cannot fetch" in a.json["error"]["message"], (name, a))


@allowed("pull", "a registry can send it to a host that is listed")
def test_good_redirect(n):
    equal(n.pull(f"{ELSEWHERE}/good:1").status, 200)
    check("tcp 11.0.0.2 5000" in n.capture.seen(), "it went there")


@allowed("pull", "an address that the operator opened to all is open to fetches, too; further hosts are named by images_hosts")
def test_opened(n):
    with make_daemon(config=f"images_registries: ['*']\nimages_insecure_registries: [{PRIVATE}]\ngateway_allow_private: ['10.9.9.9:5000']\n"
                     "images_hosts: ['*.test']\n") as d:
        equal(n.pull(f"{PRIVATE}/tools:1", d).status, 200)
        check("tcp 10.9.9.9 5000" in n.capture.seen(), "it was dialled")


@allowed("pull", "a private registry that is listed by its name is open to fetches at its port, and not to sandboxes")
def test_private(n):
    with make_daemon(config=f"images_registries: [{PRIVATE}]\nimages_insecure_registries: [{PRIVATE}]\n") as d:
        equal(n.pull(f"{PRIVATE}/tools:1", d).status, 200)
        check("tcp 10.9.9.9 5000" in n.capture.seen(), "it was dialled")
        n.capture.mark()
        box = d.sandbox(network={"allow": [{"host": "private.test"}, {"host": "10.9.9.9"}]})
        for place in (PRIVATE, "10.9.9.9:5000"):
            a = box.exec("/usr/bin/python3", "-c", ASK, stdin=json.dumps([base64.b64encode(f"GET http://{place}/v2/ HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()).decode()]),
                         timeout_ms=60000)
            check("address_not_allowed" in a["stdout"], a)
        equal([line for line in n.capture.seen() if line.startswith("tcp")], [], "nothing was dialled for the sandbox")
        equal(n.pull(f"{PRIVATE}/tools:1", d).status, 200)


@allowed("pull", "a registry on a loopback port below 1024 is reached, and one without a port at 443 or 80")
def test_low_ports(n):
    places = [("127.0.0.1", 999), ("127.0.0.1", 80), ("127.0.0.2", 80)]
    servers = [http.server.ThreadingHTTPServer(place, Redirects) for place in places]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    listed = json.dumps(["127.0.0.1:999", "localhost", "127.0.0.2"])
    with make_daemon(config=f"images_registries: {listed}\nimages_insecure_registries: {json.dumps(['127.0.0.1:999', 'localhost', '127.0.0.2', REAL])}\nimages_hosts: [{REAL}]\n") as d:
        for name in ("127.0.0.1:999", "localhost", "127.0.0.2"):
            a = n.pull(f"{name}/good:1", d)
            equal(a.status, 200, a)
    for server in servers:
        server.shutdown()
        server.server_close()


@allowed("pull", "a gateway that was killed comes back, and so do fetches")
def test_gateway_dies(n):
    for pid in [p for p in masd.below(n.daemon.process.pid) if masd.proc_text(p, "comm").strip() == "mas-gateway"]:
        os.kill(pid, 9)
    wait_for(lambda: n.pull(f"{REAL}/tools:1").status == 200, "a fetch")


main()
