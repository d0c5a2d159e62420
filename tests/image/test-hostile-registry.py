#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Registries and images that lie, through the way every pull goes: refused by name, in bounded time and
space, with nothing left behind and nothing asked of anybody else."""
import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import sys
import tarfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from masd import *
from lying_registry import OCI_MANIFEST, Registry, send, send_json
from registry import ARCH, OCI, Layout, tar

DOCKER = "application/vnd.docker."


class Liar:
    """An image whose manifest and blobs a test may change before they are served."""

    def __init__(self, *layers, kind="layer.v1.tar+gzip"):
        self.blobs = {}
        self.diff_ids = []
        descriptors = [self.add(x, OCI + kind) for x in layers]
        config = {"architecture": ARCH, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}}
        self.config = config
        self.manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": descriptors}
        self.media_type = OCI_MANIFEST
        self.answer = lambda h, kind, ref: False

    def add(self, data, kind):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        try:
            plain = gzip.decompress(data) if len(data) < 1 << 20 else data
        except OSError:
            plain = data
        self.diff_ids.append("sha256:" + hashlib.sha256(plain).hexdigest())
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def serve(self, h, kind, ref):
        if self.answer(h, kind, ref):
            return True
        if kind == "manifests":
            if "config" not in self.manifest:
                self.config["rootfs"]["diff_ids"] = list(self.diff_ids)
                self.manifest["config"] = self.add(json.dumps(self.config).encode(), OCI + "config.v1+json")
            send_json(h, self.manifest, self.media_type)
        elif ref in self.blobs:
            send(h, self.blobs[ref], "application/octet-stream")
        else:
            send(h, b"{}", "application/json", 404)
        return True


registry = Registry(answer=lambda h, kind, ref: liar.serve(h, kind, ref))
other = Registry(answer=lambda h, kind, ref: send(h, b"secret of another host", "text/plain") or True)
liar = Liar()
GOOD = gzip.compress(tar({"bin/x": b"x", "etc/y": b"y"}), mtime=0)


def daemon():
    return shared_daemon("-images-registries", registry.host, "-images-insecure-registries", registry.host, "-gateway-allow-private", registry.host,
                         "-images-pull-timeout", "60s", "-images-max-unpacked-bytes", "64Mi")


def pull(d, ref="x:1"):
    return d.post("/v1/images/pull", {"image": f"{registry.host}/{ref}"}, timeout=120)


def refused(image, *words, statuses=(400, 403, 404, 413, 503), ref="x:1", d=None):
    global liar
    liar, d = image, d or daemon()
    before = len(other.asked)
    a = pull(d, ref)
    check(a.status in statuses, a)
    message = a.json["error"]["message"]
    check(all(w in message for w in words), message)
    check("secret of another" not in message, message)
    equal(d.get("/v1/images").json["images"], [])
    equal(os.listdir(d.state + "/images/store"), [])
    wait_for(lambda: os.listdir(d.state + "/images/tmp") == [], "an empty tmp")
    return len(other.asked) - before


def changed(**manifest):
    image = Liar(GOOD)
    image.manifest.update(manifest)
    return image


@test("the good one works, so that the others fail for what is wrong with them")
def test_the_good_one_works_so_that_the_others_fail():
    global liar
    liar = Liar(GOOD)
    d = daemon()
    a = pull(d)
    equal((a.status, a.json["files"]), (200, 4), a)
    equal(d.delete("/v1/images/" + a.json["digest"]).status, 200)


@test("layers that are elsewhere: no address of an image's choice is asked")
def test_layers_that_are_elsewhere_no_address_of_an_image():
    url = f"http://{other.host}/latest/meta-data"
    for kind in (OCI + "layer.v1.tar+gzip", OCI + "layer.nondistributable.v1.tar+gzip",
                 DOCKER + "image.rootfs.foreign.diff.tar.gzip"):
        image = Liar(GOOD)
        image.manifest["layers"][0].update(mediaType=kind, urls=[url])
        image.answer = lambda h, kind, ref: kind == "blobs" and not send(h, b"{}", "application/json", 404)
        equal(refused(image, "elsewhere"), 0, kind)
    for key in ("URLs", "url\u017f"):  # the program that fetches reads these as "urls"
        image = Liar(GOOD)
        image.manifest["layers"][0].update({"mediaType": DOCKER + "image.rootfs.foreign.diff.tar.gzip", key: [url]})
        equal(refused(image, "read as that of another"), 0, key)
    image = changed(Layers=[dict(Liar(GOOD).manifest["layers"][0], urls=[url])])
    equal(refused(image, "read as that of another"), 0)


@test("redirections to files are not followed; what others answer is no image, and is not shown")
def test_redirections_to_files_are_not_followed():
    def redirect(to, kinds):
        def answer(h, kind, ref):
            return kind in kinds and not send(h, b"", "text/plain", 307, headers=[("Location", to)])
        return answer

    for to in ("file:///etc/passwd", "gopher://127.0.0.1/", f"http://{other.host}/meta-data", "//etc/passwd"):
        for kinds in (("blobs",), ("manifests",)):
            image = Liar(GOOD)
            image.answer = redirect(to, kinds)
            refused(image)


@test("giant answers end, and are not kept: manifests, blobs, headers")
def test_giant_answers_end_and_are_not_kept_manifests():
    def endless(wanted):
        def answer(h, kind, ref):
            if kind != wanted:
                return False
            h.send_response(200)
            h.send_header("Content-Type", OCI_MANIFEST)
            h.end_headers()
            for _ in range(2000):
                h.wfile.write(b" " * (1 << 16))
            h.close_connection = True
            return True
        return answer

    for kind in ("manifests", "blobs"):
        image = Liar(GOOD)
        image.answer = endless(kind)
        refused(image)
    image = Liar(GOOD)
    image.answer = lambda h, kind, ref: not send(h, b"{}", OCI_MANIFEST, headers=[("X-Long", "x" * (2 << 20))])
    refused(image)
    refused(changed(annotations={str(i): "x" * 1000 for i in range(5000)}))


@test("slower than images_pull_timeout: ended, whatever trickles")
def test_slower_than_images_pull_timeout_ended():
    def trickle(h, kind, ref):
        h.send_response(200)
        h.send_header("Content-Type", OCI_MANIFEST)
        h.send_header("Content-Length", "1000")
        h.end_headers()
        try:
            while True:
                h.wfile.write(b" ")
                h.wfile.flush()
                if stop.wait(0.05):
                    return True
        except OSError:
            return True

    stop = threading.Event()
    image = Liar(GOOD)
    image.answer = trickle
    with Daemon("-images-registries", registry.host, "-images-insecure-registries", registry.host, "-gateway-allow-private", registry.host,
                "-images-pull-timeout", "1s") as d:
        refused(image, "images_pull_timeout", statuses=(504, 408, 503), d=d)
        stop.set()


@test("digests: of manifests, of blobs, and those that are paths")
def test_digests_of_manifests_of_blobs_and_those():
    image = Liar(GOOD)
    refused(image, ref="x@sha256:" + "1" * 64)
    image = Liar(GOOD)
    image.blobs = {k: v[:-1] + bytes([v[-1] ^ 1]) for k, v in image.blobs.items()}
    refused(image)
    for digest in ("sha256:../../../../etc/passwd", "sha256:" + "A" * 64, "md5:" + "0" * 32, "../x", "", None, 5,
                   "sha256:" + "0" * 63):
        image = Liar(GOOD)
        image.manifest["layers"][0]["digest"] = digest
        refused(image)


@test("sizes that lie: smaller, larger, negative, beyond any limit")
def test_sizes_that_lie_smaller_larger_negative_beyond():
    for size in (len(GOOD) - 1, len(GOOD) + 1, 0, -1, 1 << 62, 1 << 70, "12", None):
        image = Liar(GOOD)
        image.manifest["layers"][0]["size"] = size
        refused(image)
    refused(changed(layers=Liar(GOOD).manifest["layers"] * 5000))
    refused(changed(layers=[]))
    refused(changed(layers={"a": 1}))
    refused(changed(layers=[[]]))


@test("media types that are something else, and manifests that are no manifests")
def test_media_types_that_are_something_else():
    for kind in ("application/vnd.docker.distribution.manifest.v1+json", "application/vnd.oci.empty.v1+json"):
        image = Liar(GOOD)
        image.media_type = image.manifest["mediaType"] = kind
        refused(image)
    refused(Liar(GOOD, kind="layer.v1.tar+evil"))
    refused(Liar(b"\x7fELF not a tar at all" * 100))
    refused(Liar(b"", kind="layer.v1.tar"))
    for text in (b"", b"[]", b"null", b"{", b'{"layers":', b"\xff\xfe", b'{"a":1,"a":2}', b"[" * 100000):
        image = Liar(GOOD)
        image.answer = lambda h, kind, ref, text=text: kind == "manifests" and not send(h, text, OCI_MANIFEST)
        refused(image)
    entry = {"mediaType": OCI + "index.v1+json", "digest": "sha256:" + "0" * 64, "size": 5,
             "platform": {"os": "linux", "architecture": ARCH}}
    image = Liar()
    image.media_type = OCI + "index.v1+json"
    image.manifest = {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [entry] * 1000}
    refused(image)


@test("bombs: a small layer that unpacks to more than images_max_unpacked_bytes, whatever packs it")
def test_bombs_a_small_layer_that_unpacks_to_more():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo("zeros")
        info.size = 200 << 20
        t.addfile(info, open("/dev/zero", "rb"))
    for pack, kind in (("gzip", "layer.v1.tar+gzip"), ("zstd", "layer.v1.tar+zstd"), ("bzip2", "layer.v1.tar+gzip"),
                       ("xz", "layer.v1.tar+gzip")):
        if not shutil.which(pack):
            continue
        data = subprocess.run([pack, "-1", "-c"], input=out.getvalue(), stdout=subprocess.PIPE, check=True).stdout
        image = Liar(data, kind=kind)
        refused(image, statuses=(400, 403, 413, 503))


main()
