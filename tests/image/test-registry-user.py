#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images from a real registry for the daemon of an ordinary user, with and without a range of
subordinate ids: the same pulls, refusals and clean ends as root's."""
import atexit
import base64
import json
import os
import shutil
import signal
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from masd import Daemon, check, children_of, equal, main, test, wait_for, words_of
from registry import Layout, Proxy, Registry, tar
from unprivileged import PROGRAM, STRANGER, make_user

with open("/bin/busybox", "rb") as f:
    PROGRAMS = tar({"bin/sh": f.read(), "srv/mark": b"x"})
registry = Registry("user", "pass-word")
atexit.register(registry.close)
proxy = Proxy(registry.port, 1000000)
atexit.register(proxy.close)
small = Layout(PROGRAMS, env=["GREETING=hello"], workdir="/srv")
big = Layout(PROGRAMS, tar({"opt/noise": os.urandom(3 << 20)}))
broken = Layout(PROGRAMS, tar({"opt/x": os.urandom(100000)}))
REF, BIG, BROKEN = (registry.push(x, f"{n}:1") for x, n in ((small, "small"), (big, "big"), (broken, "broken")))
atexit.register(lambda: [shutil.rmtree(x.dir, True) for x in (small, big, broken)])
with open(registry.blob(broken.layers[1]["digest"][7:]), "r+b") as f:
    f.seek(5000)
    byte = f.read(1)[0]
    f.seek(5000)
    f.write(bytes([byte ^ 1]))


class UserImages(Daemon):
    def __init__(self, uid, *flags):
        hosts = f"{registry.host},{proxy.host}"
        self.auth = tempfile.mkdtemp(prefix="mas-auth-")
        path = self.auth + "/auth.json"
        with open(path, "w") as f:
            secret = base64.b64encode(b"user:pass-word").decode()
            json.dump({"auths": {h: {"auth": secret} for h in hosts.split(",")}}, f)
        os.chmod(path, 0o600)
        for x in (self.auth, path):
            os.chown(x, uid, uid)
        super().__init__("-images-registries", hosts, "-images-insecure-registries", hosts, "-gateway-allow-private", hosts, "-images-auth-file", path,
                         *flags, command=["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
                                          "--inh-caps=-all", PROGRAM], env={"HOME": "/nonexistent"})
        os.chown(self.dir, uid, uid)

    def __exit__(self, *exc):
        super().__exit__(*exc)
        shutil.rmtree(self.auth, True)

    def pull(self, image):
        return self.post("/v1/images/pull", {"image": image}, timeout=120)

    def tmp(self):
        return os.listdir(self.state + "/images/tmp")

    def keeper(self):
        return next((p for p in children_of(self.process.pid) if "--keeper-stage" in words_of(p)), None)


def greet(d, image):
    return d.run("/bin/sh", "-c", "echo $GREETING; pwd", image=image)["stdout"]


for name, uid in (("with subordinate ids", make_user()), ("without", STRANGER)):
    @test(f"pulled with credentials, by tag and digest, run, and removed ({name})")
    def test_pulled_with_credentials_by_tag_and_digest_run(uid=uid):
        with UserImages(uid) as d:
            equal(d.pull(REF).json["digest"], small.digest)
            equal(greet(d, REF), "hello\n/srv\n")
            pinned = f"{registry.host}/small@sha256:{small.digest}"
            equal(sorted(d.pull(pinned).json["names"]), sorted([REF, pinned]))
            with d.sandbox(image=pinned) as sb:
                equal(d.delete(f"/v1/images/{small.digest}").status, 409)
                equal(sb.sh("echo new > /tmp/f; cat /tmp/f")["stdout"], "new\n")
            wait_for(lambda: not d.get(f"/v1/images/{small.digest}").json["in_use"], "the end of its use")
            equal(d.delete(f"/v1/images/{small.digest}").status, 200)
            wait_for(lambda: os.listdir(d.state + "/images/store") == [] and d.tmp() == [], "an empty store")

    @test(f"tampered with, or killed in the middle: refused, nothing stays, the next try works ({name})")
    def test_tampered_with_or_killed_in_the_middle_refused(uid=uid):
        with UserImages(uid) as d:
            a = d.pull(BROKEN)
            check(a.status >= 400 and "igest" in a.json["error"]["message"], a)
            proxy.bytes, proxy.rate, answers = 0, 1000000, []
            t = threading.Thread(target=lambda: answers.append(d.pull(f"{proxy.host}/big:1")))
            t.start()
            wait_for(lambda: proxy.bytes > 1 << 20, "bytes of a layer")
            os.kill(d.keeper(), signal.SIGKILL)
            t.join(60)
            equal(answers[0].status, 503)
            proxy.rate = None
            wait_for(lambda: d.get("/v1/images").status == 200, "another keeper")
            equal((d.get("/v1/images").json["images"], os.listdir(d.state + "/images/store")), ([], []))
            wait_for(lambda: d.tmp() == [], "an empty tmp")
            equal(d.pull(BIG).json["digest"], big.digest)


main()
