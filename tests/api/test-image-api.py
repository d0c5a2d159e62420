#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images over the API: made of tars and host paths, found by name and digest, refused by name, held
to budgets, roles and what a person approved. Registries are in tests/image/test-registry.py."""
import atexit
import gzip
import io
import os
import random
import sys
import tarfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../image"))
from guarded import *
from images import busybox
from mcp import Client, rpc
from registry import Layout, tar

PROGRAM = busybox()


def rootfs(mark, **more):
    """A root file system with a shell and a file that says which one it is."""
    files = {"bin/busybox": PROGRAM, "bin/sh": PROGRAM, "bin/cat": PROGRAM, "etc/mark": mark.encode() + b"\n"}
    files.update(more)
    return tar(files)


ALLOWED = tempfile.mkdtemp(prefix="mas-allowed-")
OUTSIDE = tempfile.mkdtemp(prefix="mas-outside-")
for path in (ALLOWED, OUTSIDE):
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    os.chmod(path, 0o755)
    atexit.register(shutil.rmtree, path, True)


def daemon():
    return shared_daemon("-images-allow", ALLOWED, "-images-max-upload-bytes", "8Mi")


def upload(d, name, data, status=200, **kw):
    a = d.put(f"/v1/images/tar?name={name}", data, **kw)
    equal(a.status, status, a)
    return a.json


def mark(d, image, **spec):
    return d.run("/bin/sh", "-c", "cat /etc/mark", image=image, **spec)["stdout"].strip()


def remove(d, image):
    """A sandbox that has just ended may still have it."""
    wait_for(lambda: not d.get("/v1/images/" + image).json["in_use"], "the end of its use")
    return d.delete("/v1/images/" + image).json


def fail(answer, status, *words):
    equal(answer.status, status, answer)
    for word in words:
        check(word in answer.json["error"]["message"], f"{word}: {answer}")


def archive(layout, *names):
    """A layout as a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name in names:
            t.add(os.path.join(layout.dir, name), name)
    return out.getvalue()


def docker_save(data):
    import hashlib
    import json
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["FROM=docker"]}, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]}}).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": name, "RepoTags": ["x:1"], "Layers": ["layer.tar"]}]
    return tar({name: config, "layer.tar": data, "manifest.json": json.dumps(manifest).encode()})


@test("tars of every kind are told apart, become images and run")
def test_tars_of_every_kind_are_told_apart_become_images():
    d = daemon()
    upload(d, "plain", rootfs("plain"))
    equal(mark(d, "plain"), "plain")
    upload(d, "packed", gzip.compress(rootfs("packed")))
    equal(mark(d, "packed"), "packed")
    saved = upload(d, "saved", docker_save(rootfs("saved")))
    equal((mark(d, "saved"), saved["env"]), ("saved", ["FROM=docker"]))
    layout = Layout(rootfs("layout"), workdir="/etc")
    a = upload(d, "layout", archive(layout, "oci-layout", "index.json", "blobs"))
    equal((mark(d, "layout"), a["digest"], a["workdir"]), ("layout", layout.digest, "/etc"))
    equal(d.run("/bin/sh", "-c", "cat mark", image="layout")["stdout"], "layout\n")
    listed = d.get("/v1/images").json
    check({"plain", "packed", "saved", "layout"} <= {n for i in listed["images"] for n in i["names"]}, listed)
    equal(listed["used_bytes"], sum(i["size_bytes"] for i in listed["images"]))
    shutil.rmtree(layout.dir)


@test("found by name, digest and sha256:digest; the sbx API's too; unknown ones say what to do")
def test_found_by_name_digest_and_sha256_digest_the_sbx():
    d = daemon()
    digest = upload(d, "found", rootfs("found"))["digest"]
    for text in ("found", digest, "sha256:" + digest):
        equal(mark(d, text), "found")
        equal(d.get("/v1/images/" + text).json["digest"], digest)
        equal(d.get("/v1/images?image=" + text).json["digest"], digest)
    equal(d.post("/sandboxes", {"id": "b", "image": "found"}).status, 200)
    a = d.get("/v1/sandboxes/sbx-b").json
    equal((a["image"], a["image_digest"]), ("found", digest))
    fail(d.delete("/v1/images/found"), 409, "in use")
    d.delete("/v1/sandboxes/sbx-b")
    fail(d.post("/v1/sandboxes", {"image": "nowhere"}), 404, "nowhere", "images_default_registry")
    fail(d.post("/v1/sandboxes", {"image": "registry.example/x"}), 404, "registry.example", "images_registries")
    fail(d.post("/v1/run", {"command": ["true"], "image": "0" * 64}), 404, "sbx image pull")
    fail(d.get("/v1/images/nowhere"), 404, "nowhere")
    fail(d.delete("/v1/images?image=nowhere"), 404)
    equal(d.run("/bin/sh", "-c", "test -e /etc/mark || echo host", image="")["stdout"], "host\n")


@test("a name moves, goes, and takes the image along when it was the last")
def test_a_name_moves_goes_and_takes_the_image_along():
    d = daemon()
    one, two = rootfs("one"), rootfs("two")
    first = upload(d, "moving", one)["digest"]
    upload(d, "other", one)
    equal(mark(d, "moving"), "one")
    second = upload(d, "moving", two)["digest"]
    equal((mark(d, "moving"), mark(d, "other")), ("two", "one"))
    equal(d.get("/v1/images/" + first).json["names"], ["other"])
    upload(d, "third", two)
    equal(d.delete("/v1/images/moving").json["removed"], False)
    equal(mark(d, "third"), "two")
    equal(remove(d, second)["removed"], True)
    fail(d.post("/v1/run", {"command": ["true"], "image": "third"}), 404)
    equal(remove(d, "other")["removed"], True)


@test("what is no image is refused, and nothing of it stays")
def test_what_is_no_image_is_refused_and_nothing():
    d = daemon()
    before = d.get("/v1/images").json
    fail(d.put("/v1/images/tar?name=x", b"no tar at all" * 100), 400)
    fail(d.put("/v1/images/tar?name=x", b""), 400)
    fail(d.put("/v1/images/tar?name=x&format=cpio", rootfs("x")), 400, "cpio")
    fail(d.put("/v1/images/tar?name=x&format=docker-archive", rootfs("x")), 400)
    for name in ("", "a%20b", "a%0Ab", "sha256:" + "0" * 64, "dir:/etc", "x" * 2000):
        a = d.put(f"/v1/images/tar?name={name}", rootfs("x"))
        equal(a.status, 400, name)
    fail(d.put("/v1/images/tar", rootfs("x")), 400, "name")
    fail(d.put("/v1/images/tar?name=x", rootfs("x", **{"../../etc/evil": b"x"})), 400, "evil")
    fail(d.put("/v1/images/tar?name=x", bytes(9 << 20)), 413, "images_max_upload_bytes")
    p = subprocess.run(["curl", "-s", "-T", "-", f"http://127.0.0.1:{d.port}/v1/images/tar?name=x"],
                       input=bytes(9 << 20), stdout=subprocess.PIPE, timeout=60)  # chunked: its length is not known
    check(b"images_max_upload_bytes" in p.stdout, p.stdout)
    for image in ("", "a b", "a\nb", "x" * 2000, 5, [], "UPPER/Case:x:y", "x@sha256:12"):
        a = d.post("/v1/sandboxes", {"image": image}) if image != "" else d.post("/v1/images/pull", {"image": ""})
        equal(a.status, 400, image)
    fail(d.post("/v1/images/pull", {"image": "x", "policy": "sometimes"}), 400, "policy")
    equal(d.get("/v1/images").json, before)
    wait_for(lambda: os.listdir(d.state + "/images/tmp") == [], "an empty tmp")


@test("a caller who leaves in the middle of an upload leaves nothing")
def test_a_caller_who_leaves_in_the_middle_of_an_upload():
    d = daemon()
    data = rootfs("half")
    s = d.connect()
    s.sendall(b"PUT /v1/images/tar?name=half HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data))
    s.sendall(data[:len(data) // 2])
    wait_for(lambda: os.listdir(d.state + "/images/tmp"), "a work directory")
    s.close()
    wait_for(lambda: os.listdir(d.state + "/images/tmp") == [], "an empty tmp")
    equal(d.get("/v1/images/half").status, 404)


@test("host paths: only below images_allow, never through a link out of it")
def test_host_paths_only_below_images_allow_never_through():
    d = daemon()
    layout = Layout(rootfs("oci"))
    shutil.copytree(layout.dir, ALLOWED + "/layout", dirs_exist_ok=True)
    subprocess.run(["chmod", "-R", "a+rX", ALLOWED], check=True)
    for name, data in (("root.tar", rootfs("tar")), ("saved.tar", docker_save(rootfs("saved")))):
        for place in (ALLOWED, OUTSIDE):
            with open(f"{place}/{name}", "wb") as f:
                f.write(data)
    os.makedirs(ALLOWED + "/tree/bin", exist_ok=True)
    os.makedirs(ALLOWED + "/tree/etc", exist_ok=True)
    for path, data in (("bin/sh", PROGRAM), ("bin/cat", PROGRAM), ("etc/mark", b"dir\n")):
        with open(f"{ALLOWED}/tree/{path}", "wb") as f:
            f.write(data)
        os.chmod(f"{ALLOWED}/tree/{path}", 0o755)
    for image, want in ((f"oci:{ALLOWED}/layout", "oci"), (f"rootfs-tar:{ALLOWED}/root.tar", "tar"),
                        (f"docker-archive:{ALLOWED}/saved.tar", "saved"), (f"dir:{ALLOWED}/tree", "dir")):
        equal(mark(d, image), want, image)
    os.symlink(OUTSIDE, ALLOWED + "/link")
    for image in (f"rootfs-tar:{OUTSIDE}/root.tar", f"rootfs-tar:{ALLOWED}/../{os.path.basename(OUTSIDE)}/root.tar",
                  f"rootfs-tar:{ALLOWED}/link/root.tar", "dir:/etc", f"dir:{ALLOWED}/link", "rootfs-tar:relative.tar"):
        fail(d.post("/v1/images/pull", {"image": image}), 403)
    fail(d.post("/v1/images/pull", {"image": f"rootfs-tar:{ALLOWED}/none.tar"}), 404)
    fail(d.post("/v1/images/pull", {"image": f"dir:{ALLOWED}/root.tar"}), 400, "directory")
    shutil.rmtree(layout.dir)


@test("roles: an agent uses and sees images; an operator or admin fetches, makes and removes them")
def test_roles_an_agent_uses_and_sees_images_an_operator():
    with Daemon("-auth-token", "t") as d:
        def headers(role):
            k = d.post("/v1/keys", {"name": role, "roles": [role]}, headers={"Authorization": "Bearer t"}).json
            return {"Authorization": "Bearer " + k["secret"]}

        admin, agent, operator = headers("admin"), headers("agent"), headers("operator")
        fail(d.put("/v1/images/tar?name=r", rootfs("r"), headers=agent), 403)
        equal(d.put("/v1/images/tar?name=r", rootfs("r"), headers=operator).status, 200)
        for who in (admin, agent, operator):
            equal(d.get("/v1/images/r", headers=who).status, 200)
        equal(d.post("/v1/run", {"command": ["/bin/sh", "-c", "cat /etc/mark"], "image": "r"}, headers=agent).json["stdout"], "r\n")
        fail(d.post("/v1/images/pull", {"image": "r"}, headers=agent), 403)
        fail(d.delete("/v1/images/r", headers=agent), 403)
        wait_for(lambda: not d.get("/v1/images/r", headers=admin).json["in_use"], "the end of its use")
        equal(d.delete("/v1/images/r", headers=admin).status, 200)
        fail(d.delete("/v1/images/r", headers=admin), 404)
        fail(d.post("/v1/images/pull", {"image": "localhost/r"}, headers=operator), 403, "images_registries")
        records = [json.loads(x) for x in d.get("/v1/audit?kind=image", headers=admin).body.splitlines()]
        equal([(r["outcome"], r["details"]["image"]) for r in records if r["outcome"] != "begun"],
              [("imported", "r"), ("removed", "r"), ("failed", "localhost/r")])
        made = [r for r in records if r["outcome"] == "imported"][0]
        check(len(made["details"]["digest"]) == 64 and made["key"], made)
        equal([(r["details"]["to_be"], r["details"]["image"]) for r in records if r["outcome"] == "begun"][:2], [("imported", "r"), ("removed", "r")])
        check(records[0]["outcome"] == "begun", "on record before it is done")


@test("P26 an image that is removed while its caller leaves is on record, whenever that was, and not taken for there")
def test_left_removals():
    d = daemon()
    records = lambda image: [r for r in map(json.loads, d.get("/v1/audit?kind=image&limit=1000").body.splitlines()) if r["details"]["image"] == image]
    left = 0
    for i in range(8):
        a = d.put(f"/v1/images/tar?name=left{i}", rootfs(f"left{i}"))
        equal(a.status, 200, a)
        digest = a.json["digest"]
        s = d.connect()
        s.sendall(f"DELETE /v1/images/{digest} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(0.004 * i)
        s.close()
        gone = lambda: digest not in str(d.get("/v1/images").json["images"])
        # Either it was never begun, or the record came first and its end follows.
        time.sleep(0.5)
        told = [r["outcome"] for r in records(digest)]
        check(not gone() or told[:1] == ["begun"], f"{i}: gone, and the records say {told}")
        if told:
            wait_for(lambda: len(records(digest)) == 2, f"how it ended, of {i}: {told}")
            equal(records(digest)[1]["outcome"], "removed", "a removal that has begun goes on without its caller")
            events = [json.loads(x) for x in d.get("/v1/events?types=image.removed").body.splitlines()]
            check(any(e["id"] == digest for e in events), events)
            left += 1
        if gone():
            fail(d.post("/v1/run", {"command": ["/bin/true"], "image": digest}), 404)
    check(left, "none had begun when its caller left")


ASK = "version: 1\ndefault: allow\nrules:\n  - {id: touchy, verdict: ask, risk: high, command: \"/bin/sh *\"}\n"
MARK = ["/bin/sh", "-c", "cat /etc/mark"]


def ask(d, image, **spec):
    a = d.post("/v1/run", {"command": MARK, "image": image, **spec})
    equal(a.status, 202, a)
    return a.json["approval_id"]


def approve(d, id, **session):
    equal(d.post(f"/v1/approvals/{id}/approve", session).status, 200)


def use(d, id, image):
    return d.post("/v1/run", {"command": MARK, "image": image}, headers={"X-Mas-Approval-Id": id})


@test("an approval is for the image that was shown: that one runs, wherever its name has gone")
def test_an_approval_is_for_the_image_that_was_shown():
    with Guarded(ASK) as d:
        digest = upload(d, "ask", rootfs("approved"))["digest"]
        other = upload(d, "other", rootfs("other"))["digest"]
        ids = [ask(d, "ask") for _ in range(3)]
        for shown in (d.get("/v1/approvals/" + ids[0]).json, d.get("/v1/approvals").json["approvals"][0]):
            equal((shown["image"], shown["image_digest"]), ("ask", digest))
        told = subprocess.run([SBX, "approvals", "show", ids[0], "-addr", f"http://127.0.0.1:{d.port}"],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        check(f"ask (sha256:{digest})" in told, told)
        for id in ids:
            approve(d, id)
        equal(use(d, ids[0], "ask").json["stdout"], "approved\n")
        upload(d, "ask", rootfs("another"))
        check(d.get("/v1/images/ask").json["digest"] != digest, "another image")
        equal(use(d, ids[1], "ask").json["stdout"], "approved\n")
        a = use(d, ids[2], "other")  # another name is another call, and so is what the name has become
        fail(a, 403, "another call")
        equal(d.get("/v1/approvals/" + ids[2]).json["status"], "void")
        session = ask(d, "other")
        approve(d, session, session={"count": 5, "ttl_seconds": 600})
        equal(mark(d, "other"), "other")
        check(upload(d, "other", rootfs("moved"))["digest"] != other, "another image")
        ask(d, "other")  # a session is about the image that it was given for


@test("what waits for a person is held: not removed by name, by digest or for room")
def test_what_waits_for_a_person_is_held_not_removed():
    size = len(rootfs("x"))
    with Guarded(ASK, "-images-max-bytes", str(size * 2 + (1 << 20))) as d:  # files count in blocks
        digest = upload(d, "held", rootfs("held"))["digest"]
        id = ask(d, "held")
        for image in ("held", digest):
            fail(d.delete("/v1/images/" + image), 409, "waits for approval")
        check(d.get("/v1/images/held").json["in_use"], "it is in use")
        upload(d, "one", rootfs("one"))
        ask(d, "one")
        upload(d, "two", rootfs("two"), status=507)
        approve(d, id)
        fail(d.delete("/v1/images/held"), 409)
        d.process.kill()
        d.process.wait()
        d.start()
        fail(d.delete("/v1/images/held"), 409)
        equal(use(d, id, "held").json["stdout"], "held\n")
        equal(remove(d, "held")["removed"], True)
        upload(d, "rejected", rootfs("rejected"))
        id = ask(d, "rejected")
        equal(d.post(f"/v1/approvals/{id}/reject", {}).status, 200)
        equal(remove(d, "rejected")["removed"], True)


@test("an approved image that is gone all the same is named, and nothing else runs instead")
def test_an_approved_image_that_is_gone_all_the_same():
    with Guarded(ASK) as d:
        digest = upload(d, "gone", rootfs("gone"))["digest"]
        id = ask(d, "gone")
        approve(d, id)
        d.stop()
        shutil.rmtree(f"{d.state}/images/store/{digest}")
        d.start()
        upload(d, "gone", rootfs("instead"))
        fail(use(d, id, "gone"), 404, "'gone' as it was approved", digest)


@test("who waits for the decision gets the image that was shown")
def test_who_waits_for_the_decision_gets_the_image():
    with Guarded(ASK) as d:
        upload(d, "wait", rootfs("shown"))
        answers = []
        t = threading.Thread(target=lambda: answers.append(d.post(
            "/v1/run", {"command": MARK, "image": "wait"}, headers={"X-Mas-Approval": "wait"})))
        t.start()
        wait_for(lambda: d.get("/v1/approvals?status=pending").json["approvals"], "a question")
        upload(d, "wait", rootfs("later"))
        approve(d, d.get("/v1/approvals?status=pending").json["approvals"][0]["id"])
        t.join(60)
        equal(answers[0].json["stdout"], "shown\n")


def send_and_leave(d, path, body, key=None):
    """A request whose client leaves without its answer."""
    data = json.dumps(body).encode()
    more = f"Idempotency-Key: {key}\r\n" if key else ""
    with d.connect() as s:
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
                  f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        time.sleep(0.3)  # it waits for its image


@test("a key that ends while its image is looked up gets nothing made")
def test_a_key_that_ends_while_its_image_is_looked_up():
    with Daemon("-auth-token", "t") as d:
        d.token = "t"
        upload(d, "small", rootfs("small"))
        key = d.post("/v1/keys", {"name": "agent", "roles": ["agent"]}).json
        d.kill_control()  # the new one has looked up no image yet
        os.kill(d.process.pid, signal.SIGSTOP)  # the warden, which starts the keeper of images
        try:
            c = Client(d, headers={"Authorization": "Bearer " + key["secret"]})
            stream = c.open(rpc("tools/call", {"name": "create_sandbox", "arguments": {"image": "small"}}, 7))
            equal(d.delete("/v1/keys/" + key["id"]).status, 200)
            stream.close()
        finally:
            os.kill(d.process.pid, signal.SIGCONT)
        equal(mark(d, "small"), "small", "it is found")
        equal(d.get("/v1/sandboxes").json["sandboxes"], [])


@test("who leaves or cancels while its image is looked up gets nothing made or run; with an idempotency key it runs, once")
def test_who_leaves_or_cancels_while_its_image_is_looked():
    with Guarded("version: 1\ndefault: allow\nrules: []\n") as d:
        upload(d, "small", rootfs("small"))
        once = {"image": "small", "command": ["/bin/sh", "-c", "cat /etc/mark"]}
        d.kill_control()  # the new one has looked up no image yet
        os.kill(d.process.pid, signal.SIGSTOP)  # the warden, which starts the keeper of images
        try:
            send_and_leave(d, "/v1/run", once)
            send_and_leave(d, "/v1/sandboxes", {"image": "small"})
            send_and_leave(d, "/sandboxes", {"image": "small", "command": ["/bin/sh"]})
            c = Client(d)
            stream = c.open(rpc("tools/call", {"name": "create_sandbox", "arguments": {"image": "small"}}, 7))
            equal(c.post(rpc("notifications/cancelled", {"requestId": 7})).status, 202)
            stream.close()
            send_and_leave(d, "/v1/run", once, "again")
        finally:
            os.kill(d.process.pid, signal.SIGCONT)
        a = d.post("/v1/run", once, headers={"Idempotency-Key": "again"})
        equal((a.status, a.json.get("stdout")), (200, "small\n"), a)
        equal(d.get("/v1/sandboxes").json["sandboxes"], [])
        equal(d.count("intent"), 1)


@test("a pooled sandbox is given to who wants its image, by whatever name, and to nobody else")
def test_a_pooled_sandbox_is_given_to_who_wants_its_image():
    d = Daemon("-image", "rootfs-tar:" + ALLOWED + "/pool.tar", "-images-allow", ALLOWED, "-warm-pool-size", "2")
    with open(ALLOWED + "/pool.tar", "wb") as f:
        f.write(rootfs("pool"))
    os.chmod(ALLOWED + "/pool.tar", 0o644)
    with d:
        def pool(name):
            lines = d.get("/metrics").body.decode().splitlines()
            return next(int(x.split()[1]) for x in lines if x.startswith("sandbox_warm_pool_" + name + " "))

        wait_for(lambda: pool("ready") == 2, "a full pool")
        equal((d.run("/bin/sh", "-c", "cat /etc/mark")["stdout"], pool("hits_total")), ("pool\n", 1))
        upload(d, "other", rootfs("other"))
        equal((mark(d, "other"), pool("hits_total")), ("other", 1))
        digest = d.get("/v1/images?image=rootfs-tar:" + ALLOWED + "/pool.tar").json["digest"]
        wait_for(lambda: pool("ready") == 2, "a full pool")
        equal((mark(d, digest), pool("hits_total")), ("pool", 2))
        check(d.run("/bin/sh", "-c", "test -e /etc/mark || echo host", image="")["stdout"] == "host\n", "the host's view")
        equal(pool("hits_total"), 2)


@test("the default image comes with the daemon")
def test_the_default_image_comes_with_the_daemon():
    if not os.path.exists(os.path.join(BUILD, "default-image.tar")):
        raise Skip("this build has none")
    with Daemon() as d:
        a = d.run("bash", "-c", "ls --version | head -1; id -un", image="default")
        check("coreutils" in a["stdout"] and a["stdout"].endswith("sandbox\n"), a)
        equal(d.get("/v1/images").json["images"][0]["names"], ["default"])


@test("a newer default image replaces the older one, but not what somebody gave that name")
def test_a_newer_default_image_replaces_the_older():
    with tempfile.TemporaryDirectory(prefix="mas-libexec-") as dir:
        os.chmod(dir, 0o755)
        for name in ("mas-warden", "mas-toolrunner", "mas-tool-net"):
            os.symlink(os.path.join(BUILD, name), os.path.join(dir, name))

        def deliver(text, age_s):
            path = dir + "/default-image.tar"
            with open(path + ".new", "wb") as f:
                f.write(rootfs(text))
            os.utime(path + ".new", (time.time() - age_s, time.time() - age_s))
            os.rename(path + ".new", path)

        deliver("first", 100)
        with Daemon("-libexec-dir", dir) as d:
            def restart():
                d.stop()
                d.start()

            equal(mark(d, "default"), "first")
            restart()
            equal(mark(d, "default"), "first")
            deliver("second", -100)
            restart()
            equal((mark(d, "default"), mark(d, "default")), ("second", "second"))
            upload(d, "default", rootfs("mine"))
            equal(mark(d, "default"), "mine")
            restart()
            equal(mark(d, "default"), "mine")


@test("no process until it is asked for anything, none when nothing is; without images, none at all")
def test_no_process_until_it_is_asked_for_anything_none():
    def keepers(d):
        return [p for p in below(d.process.pid) if b"--keeper-stage" in command_line(p)]

    with Daemon("-images-idle-timeout", "1s") as d:
        d.run("true")
        equal(keepers(d), [])
        wait_for(lambda: d.get("/v1/images").status == 200 and len(keepers(d)) == 1, "a keeper")
        wait_for(lambda: keepers(d) == [], "the end of an idle keeper")
        equal(d.get("/v1/images").status, 200)
    with Daemon("-images=false") as d:
        for a in (d.get("/v1/images"), d.post("/v1/run", {"command": ["true"], "image": "x"}),
                  d.put("/v1/images/tar?name=x", b""), d.post("/v1/images/pull", {"image": "x"})):
            fail(a, 400, "switched off")
        equal(keepers(d), [])
        equal(os.path.exists(d.state + "/images"), False)


@test("removed while sandboxes are made of it: in use, or not there, or about to go; never half of it")
def test_removed_while_sandboxes_are_made_of_it_in_use():
    d = daemon()
    data = rootfs("racing")
    for _ in range(10):
        digest = upload(d, "racing", data)["digest"]
        runs = []
        threads = [threading.Thread(target=lambda: runs.append(
            d.post("/v1/run", {"command": MARK, "image": random.choice(["racing", digest])}))) for _ in range(4)]
        for t in threads:
            t.start()
        a = d.delete("/v1/images/" + random.choice(["racing", digest]))
        check(a.status in (200, 404, 409), a)
        for t in threads:
            t.join()
        for r in runs:
            check(r.status in (404, 409) if r.status != 200 else r.json["stdout"] == "racing\n", r)
    if d.get("/v1/images/racing").status == 200:
        remove(d, "racing")


@test("where the kernel makes no namespaces: the reason and a way out, to every caller")
def test_where_the_kernel_makes_no_namespaces_the_reason():
    from unprivileged import UserDaemon
    with UserDaemon("-runtime", "landlock") as d:
        for _ in range(3):
            for a in (d.get("/v1/images"), d.post("/v1/run", {"command": ["true"], "image": "x"})):
                fail(a, 400, "mount and a user namespace", "sbx doctor")
        p = subprocess.run([SBX, "doctor", "-addr", f"http://127.0.0.1:{d.port}"], stdout=subprocess.PIPE, text=True,
                           check=True)
        check("no  kept             images need" in p.stdout, p.stdout)


main()
