# SPDX-License-Identifier: Apache-2.0
"""A registry of our own on loopback, for what a real one never does: it serves a layout as it is, holds
a layer back in the middle, or lies as `answer` says."""
import hashlib
import http.server
import json
import threading
import time

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry:
    """answer(handler, kind, ref) may answer a request (kind: manifests, blobs) by itself and say True."""

    def __init__(self, layout=None, answer=None):
        self.layout, self.answer = layout, answer
        self.hold = False  # layers come to half, and no further
        self.asked = []
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                registry.asked.append(self.path)
                try:
                    registry.serve(self)
                except OSError:
                    self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.hold = False
        self.server.shutdown()
        self.server.server_close()

    def serve(self, h):
        parts = h.path.split("?")[0].strip("/").split("/")
        if parts == ["v2"]:
            return send(h, b"{}", "application/json")
        kind, ref = parts[-2], parts[-1]
        if self.answer and self.answer(h, kind, ref):
            return None
        if kind == "manifests" and not ref.startswith("sha256:"):
            ref = "sha256:" + self.layout.digest
        try:
            with open(f"{self.layout.dir}/blobs/sha256/{ref[7:]}", "rb") as f:
                data = f.read()
        except OSError:
            return send(h, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', "application/json", 404)
        return send(h, data, OCI_MANIFEST if kind == "manifests" else "application/octet-stream",
                    hold=lambda: self.hold and kind == "blobs" and len(data) > 100000)


def send(h, data, kind, status=200, hold=lambda: False, headers=()):
    h.send_response(status)
    h.send_header("Content-Type", kind)
    h.send_header("Content-Length", str(len(data)))
    h.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(data).hexdigest())
    for name, value in headers:
        h.send_header(name, value)
    h.end_headers()
    if h.command == "HEAD":
        return
    half = len(data) // 2
    h.wfile.write(data[:half])
    h.wfile.flush()
    while hold():
        time.sleep(0.02)
    h.wfile.write(data[half:])


def send_json(h, value, kind=OCI_MANIFEST, **kw):
    send(h, json.dumps(value).encode(), kind, **kw)
