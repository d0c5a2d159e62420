#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images from a real registry: pulled by tag and digest through the daemon, pinned, refused when
tampered with, never half there, whatever is killed or full in the middle."""
import atexit
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from masd import Daemon, below, check, equal, main, proc_text, processes, test, wait_for, words_of
from registry import Layout, Proxy, Registry, default_tar, tar

NDJSON = {"Accept": "application/x-ndjson"}
SLOW = 1000000

work = tempfile.mkdtemp(prefix="mas-images-")
atexit.register(shutil.rmtree, work, True)
BASE = default_tar(work)
registry = Registry()
atexit.register(registry.close)
base = Layout(BASE, env=["PATH=/usr/bin:/bin", "GREETING=hello"], workdir="/srv")
big = Layout(BASE, tar({"opt/noise": os.urandom(6 << 20)}))
BASE_REF = registry.push(base, "base:1")
BIG_REF = registry.push(big, "big:1")
atexit.register(lambda: [shutil.rmtree(x.dir, True) for x in (base, big)])


class Images(Daemon):
    """A daemon that may use the registry, and proxies to it."""

    def __init__(self, *flags, hosts=(), **kw):
        hosts = ",".join([registry.host, *hosts])
        super().__init__("-images-registries", hosts, "-images-insecure-registries", hosts, "-gateway-allow-private", hosts, *flags, **kw)

    def pull(self, image, **kw):
        return self.post("/v1/images/pull", {"image": image}, timeout=120, **kw)

    def names(self):
        return sorted(n for i in self.get("/v1/images").json["images"] for n in i["names"])

    def tmp(self):
        return os.listdir(self.state + "/images/tmp")

    def children(self, flag):
        """Processes below the daemon whose command line has the flag."""
        return [p for p in below(self.process.pid) if flag in words_of(p)]


def in_image(d, image, script):
    r = d.run("/bin/sh", "-c", script, image=image)
    return r["stdout"]


def pull_slowly(d, proxy):
    """Begins a pull and returns once the layers are on their way."""
    import threading
    result = {}

    def go():
        try:
            result["answer"] = d.pull(f"{proxy.host}/big:1")
        except Exception as e:
            result["answer"] = e
    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    wait_for(lambda: proxy.bytes > 2 << 20, "bytes of a layer")
    return thread, result


@test("by tag and by digest: fetched, verified, run; env and workdir are the image's")
def test_by_tag_and_by_digest_fetched_verified_run_env():
    with Images() as d:
        r = d.pull(BASE_REF)
        equal((r.status, r.json["digest"], r.json["names"]), (200, base.digest, [BASE_REF]))
        equal(in_image(d, BASE_REF, "echo $GREETING; pwd; test -x /usr/bin/busybox && echo ours"),
              "hello\n/srv\nours\n")
        pinned = f"{registry.host}/base@sha256:{base.digest}"
        equal(d.pull(pinned).json["names"], sorted([BASE_REF, pinned]))
        equal(in_image(d, f"sha256:{base.digest}", "echo $GREETING"), "hello\n")
        equal(in_image(d, pinned, "echo $GREETING"), "hello\n")
        with d.sandbox(image=BASE_REF, env={"GREETING": "mine"}, workdir="/tmp") as sb:
            equal((sb.created["image"], sb.created["image_digest"]), (BASE_REF, base.digest))
            equal(sb.sh("echo $GREETING; pwd")["stdout"], "mine\n/tmp\n")
        wait_for(lambda: d.tmp() == [], "an empty tmp")


@test("a create fetches what is missing, as image_pull says")
def test_a_create_fetches_what_is_missing_as_image_pull():
    for policy, works in (("missing", True), ("never", False)):
        with Images("-image-pull", policy) as d:
            r = d.post("/v1/run", {"command": ["/bin/sh", "-c", "echo $GREETING"], "image": BASE_REF}, timeout=60)
            equal((r.status, r.json.get("stdout")), (200, "hello\n") if works else (404, None), policy)
    with Images("-images-default-registry", registry.host) as d:
        equal(in_image(d, "base:1", "echo $GREETING"), "hello\n")
        equal(d.names(), [BASE_REF])
    with Images("-image", BASE_REF) as d:  # the default of every sandbox
        equal(d.run("/bin/sh", "-c", "echo $GREETING")["stdout"], "hello\n")
        equal(d.post("/sandboxes", {"id": "b"}).status, 200)
        equal(d.get("/v1/sandboxes/sbx-b").json["image_digest"], base.digest)


@test("a registry that is down does not keep a daemon with image_pull: always from starting again")
def test_a_registry_that_is_down_does_not_keep_a_daemon():
    proxy = Proxy(registry.port)
    d = Images("-image", f"{proxy.host}/base:1", "-image-pull", "always", hosts=[proxy.host])
    with d:
        equal(d.run("/bin/sh", "-c", "echo $GREETING")["stdout"], "hello\n")
        proxy.close()
        d.kill_control()
        equal(d.run("/bin/sh", "-c", "echo $GREETING")["stdout"], "hello\n")
        check("looking for it here" in d.log_text(), d.log_text())


@test("a create that fetches is on record; whoever repeats it after leaving finds what it made")
def test_a_create_that_fetches_is_on_record_whoever():
    proxy = Proxy(registry.port, SLOW)
    with Images(hosts=[proxy.host]) as d:
        body = json.dumps({"image": f"{proxy.host}/big:1"}).encode()
        s = d.connect()
        s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Idempotency-Key: once\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: proxy.bytes > 1 << 20, "bytes of a layer")
        s.close()
        proxy.rate = None
        wait_for(lambda: d.get("/v1/sandboxes").json["sandboxes"], "the sandbox")
        r = d.post("/v1/sandboxes", json.loads(body), headers={"Idempotency-Key": "once"}, timeout=60)
        equal((r.status, [x["id"] for x in d.get("/v1/sandboxes").json["sandboxes"]]), (201, [r.json["id"]]))
        records = [json.loads(x) for x in d.get("/v1/audit?kind=image").body.splitlines()]
        equal([(x["outcome"], x["details"]["digest"]) for x in records], [("pulled", big.digest)])
    proxy.close()


@test("progress comes as lines and as events, and ends with the image")
def test_progress_comes_as_lines_and_as_events_and_ends():
    with Images() as d:
        lines = [json.loads(x) for x in d.pull(BIG_REF, headers=NDJSON).body.splitlines()]
        steps = [x["progress"]["step"] for x in lines[:-1]]
        check({"fetch", "unpack"} <= set(steps), steps)
        fetched = [x["progress"] for x in lines[:-1] if x["progress"]["step"] == "fetch"]
        equal(fetched[-1]["layers"], 2)
        check(0 < fetched[-1]["done_bytes"] <= fetched[-1]["total_bytes"], fetched[-1])
        equal(lines[-1]["done"]["digest"], big.digest)
        text = d.pull(BIG_REF, headers={"Accept": "text/event-stream"}).body.decode()
        check("event: done\ndata: {" in text and text.endswith("\n\n"), text)


@test("a digest that is not the image's, and an index, are held to what was asked")
def test_a_digest_that_is_not_the_images_and_an_index():
    layout = Layout(tar({"bin/x": b"x"}), index=True)
    ref = registry.push(layout, "multi:1", "--all")
    with Images() as d:
        r = d.pull(f"{registry.host}/base@sha256:{'0' * 64}")
        check(r.status in (403, 404), r)
        r = d.pull(f"{registry.host}/multi@sha256:{layout.index_digest}")
        equal((r.status, r.json["digest"]), (200, layout.digest))
        equal(d.pull(ref).json["digest"], layout.digest)
    shutil.rmtree(layout.dir)


@test("credentials: the operator's file is used, and nobody else gets to see it")
def test_credentials_the_operator_file_is_used_and_nobody():
    private = Registry("user", "pass-word")
    ref = private.push(base, "base:1")
    auth = os.path.join(work, "auth.json")
    with open(auth, "w") as f:
        json.dump({"auths": {private.host: {"auth": base64.b64encode(b"user:pass-word").decode()}}}, f)
    os.chmod(auth, 0o600)
    try:
        with Images(hosts=[private.host]) as d:
            r = d.pull(ref)
            equal(r.status, 403, r)
        with Images("-images-auth-file", auth, hosts=[private.host]) as d:
            equal(d.pull(ref).json["digest"], base.digest)
            keeper = d.children("--keeper-stage")[0]
            st = os.stat(f"/proc/{keeper}/root/auth.json")
            equal((st.st_uid, st.st_mode & 0o777), (64218, 0o400))
    finally:
        private.close()


@test("a layer that was tampered with is refused, and nothing of it stays")
def test_a_layer_that_was_tampered_with_is_refused():
    layout = Layout(BASE, tar({"opt/x": os.urandom(100000)}))
    ref = registry.push(layout, "tampered:1")
    path = registry.blob(layout.layers[1]["digest"][7:])
    with open(path, "r+b") as f:
        f.seek(5000)
        byte = f.read(1)[0]
        f.seek(5000)
        f.write(bytes([byte ^ 1]))
    with Images() as d:
        r = d.pull(ref)
        check(r.status >= 400, r)
        check("igest" in r.json["error"]["message"], r)
        equal(d.names(), [])
        wait_for(lambda: d.tmp() == [], "an empty tmp")
        equal(d.post("/v1/run", {"command": ["/bin/true"], "image": ref}).status, r.status)
    shutil.rmtree(layout.dir)


@test("killed in the middle: never half an image, and the next try works")
def test_killed_in_the_middle_never_half_an_image():
    proxy = Proxy(registry.port, SLOW)
    ref = f"{proxy.host}/big:1"
    with Images(hosts=[proxy.host]) as d:
        def again():
            wait_for(lambda: d.tmp() == [] or not d.children("--keeper-stage"), "a swept tmp")
            equal(d.names(), [])

        _, result = pull_slowly(d, proxy)
        equal(d.names(), [])
        os.kill(d.children("--keeper-stage")[0], signal.SIGKILL)
        wait_for(lambda: "answer" in result, "an answer about the dead keeper")
        equal(result["answer"].status, 503)
        again()
        proxy.bytes = 0
        pull_slowly(d, proxy)
        d.kill_control()
        again()
        proxy.bytes = 0
        pull_slowly(d, proxy)
        d.process.kill()
        d.process.wait()
        d.log.close()
        wait_for(lambda: not processes(d.state), "all processes gone")
        equal(os.listdir(d.state + "/images/store"), [])
        d.start()
        again()
        proxy.rate = None
        equal(d.pull(ref).json["digest"], big.digest)
        equal(in_image(d, ref, "wc -c < /opt/noise"), f"{6 << 20}\n")
    proxy.close()


@test("a caller who leaves ends the pull; two who ask for the same share it")
def test_a_caller_who_leaves_ends_the_pull_two_who_ask():
    proxy = Proxy(registry.port, SLOW)
    with Images(hosts=[proxy.host]) as d:
        body = json.dumps({"image": f"{proxy.host}/big:1"}).encode()
        s = d.connect()
        s.sendall(b"POST /v1/images/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: proxy.bytes > 1 << 20, "bytes of a layer")
        s.close()
        wait_for(lambda: not d.children("skopeo") and d.tmp() == [], "the end of the pull")
        proxy.bytes = 0
        _, one = pull_slowly(d, proxy)
        _, two = pull_slowly(d, proxy)
        equal(len(d.children("skopeo")), 1)
        proxy.rate = None
        wait_for(lambda: "answer" in one and "answer" in two, "both answers")
        equal((one["answer"].status, two["answer"].json["digest"]), (200, big.digest))
    proxy.close()


@test("a full disk in the middle leaves the cache whole")
def test_a_full_disk_in_the_middle_leaves_the_cache_whole():
    mount = os.path.join(work, "small")
    os.mkdir(mount)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "small", mount], check=True)
    try:
        d = Images("-state-reserve-mb", "0")
        os.rmdir(d.dir)
        d.dir, d.log_path = mount + "/d", mount + "/log"
        os.mkdir(d.dir, 0o755)
        with d:
            equal(d.pull(BASE_REF).status, 200)
            with open(d.dir + "/ballast", "wb") as f:
                f.write(bytes(12 << 20))
            r = d.pull(BIG_REF)
            equal((r.status, r.json["error"]["code"]), (507, "no_space"), r)
            equal(d.names(), [BASE_REF])
            equal(in_image(d, BASE_REF, "echo $GREETING; find / -xdev 2>/dev/null | wc -l | tr -d 0-9"), "hello\n\n")
            wait_for(lambda: d.tmp() == [], "an empty tmp")
            os.unlink(d.dir + "/ballast")
            wait_for(lambda: d.delete(f"/v1/images/{base.digest}").status == 200, "the end of its use")
            equal(d.pull(BIG_REF).status, 200)
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


@test("one in use is not removed; the least recently used makes room, never one in use")
def test_one_in_use_is_not_removed_the_least_recently():
    def noise(n):
        layout = Layout(BASE, tar({"opt/x": os.urandom(n)}))
        return layout, registry.push(layout, f"noise{n}:1")

    first, first_ref = noise(1 << 20)
    second, second_ref = noise(2 << 20)
    room = 50 << 20  # two of them, of about 20 MiB
    with Images("-images-max-bytes", str(room)) as d:
        equal(d.pull(first_ref).status, 200)
        equal(d.pull(BASE_REF).status, 200)
        with d.sandbox(image=first_ref) as sb:
            for path in (f"/v1/images/{first.digest}", f"/v1/images?image={first_ref}"):
                equal(d.delete(path).status, 409)
            time.sleep(3.2)  # what was asked for just now is about to be used
            equal(d.pull(second_ref).status, 200)
            equal(d.names(), sorted([first_ref, second_ref]))
            equal(sb.sh("wc -c < /opt/x")["stdout"], f"{1 << 20}\n")
            with d.sandbox(image=second_ref):
                time.sleep(3.2)
                r = d.pull(BASE_REF)
                equal((r.status, r.json["error"]["code"]), (507, "no_space"), r)
        wait_for(lambda: d.delete(f"/v1/images?image={first_ref}").json.get("removed"), "the end of its use")
        equal(d.pull(BASE_REF).status, 200)
    for layout in (first, second):
        shutil.rmtree(layout.dir)


@test("names, images and what sandboxes were made of outlive the control plane and the daemon")
def test_names_images_and_what_sandboxes_were_made():
    with Images() as d:
        d.pull(BASE_REF)
        with d.sandbox(image=BASE_REF, id="lasting") as sb:
            d.kill_control()
            after = d.get(sb.path).json
            equal((after["state"], after["image"], after["image_digest"], after["workdir"]),
                  ("ready", BASE_REF, base.digest, "/srv"))
            equal(sb.sh("echo $GREETING; pwd")["stdout"], "hello\n/srv\n")
            equal(d.delete(f"/v1/images/{base.digest}").status, 409)
        d.stop()
        d.start()
        equal(d.names(), [BASE_REF])
        equal(in_image(d, BASE_REF, "echo $GREETING"), "hello\n")


@test("registries that are not listed are not even asked; TLS is not optional where it is not said")
def test_registries_that_are_not_listed_are_not_even():
    proxy = Proxy(registry.port)
    with Images() as d:
        r = d.pull(f"{proxy.host}/base:1")
        equal((r.status, proxy.connections), (403, 0), r)
        check("images_registries" in r.json["error"]["message"], r)
        r = d.post("/v1/run", {"command": ["/bin/true"], "image": f"{proxy.host}/base:1"})
        equal((r.status, proxy.connections), (404, 0), r)
    with Daemon("-images-registries", proxy.host, "-gateway-allow-private", proxy.host) as d:
        r = d.post("/v1/images/pull", {"image": f"{proxy.host}/base:1"}, timeout=60)
        equal(r.status, 503, r)
        check(proxy.connections > 0, "it was asked, with TLS")
    proxy.close()


@test("a way out that is killed again and again is opened after longer and longer pauses, and then fetches go on")
def test_outlet_pauses():
    with Images() as d:
        equal(d.pull(BASE_REF).status, 200)

        def kill_and_look():
            for pid in [p for p in below(d.process.pid) if proc_text(p, "comm").strip() == "mas-image-way"]:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            return "opened again in 160 ms" in d.log_text()
        wait_for(kill_and_look, "a pause of 160 ms", 120)
        wait_for(lambda: d.post("/v1/images/pull", {"image": BASE_REF, "policy": "always"}, timeout=120).status == 200, "a fetch", 120)


main()
