# SPDX-License-Identifier: Apache-2.0
"""An MCP client for tests, over Streamable HTTP and over a daemon's stdin and stdout."""
import http.client
import queue
import subprocess
import threading

from masd import *

NEWEST = "2025-11-25"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST)
BOTH = "application/json, text/event-stream"


def rpc(method, params=None, id=None):
    m = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        m["id"] = id
    if params is not None:
        m["params"] = params
    return m


def hello(revision=NEWEST, id=0, **capabilities):
    return rpc("initialize", {"protocolVersion": revision, "capabilities": capabilities,
                              "clientInfo": {"name": "test", "version": "1"}}, id)


def mcp_post(d, body, session=None, headers=None, **kw):
    """One POST of anything; the Answer."""
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    all = {"Content-Type": "application/json", "Accept": BOTH, **(headers or {})}
    if session:
        all["Mcp-Session-Id"] = session
    return d.request("POST", "/mcp", body, headers={k: v for k, v in all.items() if v is not None}, **kw)


def parse_events(stream):
    """(id, retry, data) of each event as it comes, data parsed or None; comments are passed over."""
    event, data = {}, []
    for line in stream:
        line = line.decode().rstrip("\r\n")
        if line == "":
            if event or data:
                text = "\n".join(data)
                yield event.get("id"), event.get("retry"), json.loads(text) if text else None
            event, data = {}, []
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            else:
                event[name] = value


class Stream:
    """An answer that is read while it comes."""

    def __init__(self, d, method, body, headers, timeout=60):
        self.conn = http.client.HTTPConnection("127.0.0.1", d.port, timeout=timeout)
        self.conn.request(method, "/mcp", body, headers)
        self.response = self.conn.getresponse()
        self.status = self.response.status
        self.type = self.response.getheader("Content-Type") or ""
        self.last_id = None

    def events(self):
        for id, retry, data in parse_events(self.response):
            self.last_id = id or self.last_id
            yield id, retry, data

    def messages(self):
        if self.type.startswith("application/json"):
            yield json.loads(self.response.read())
            return
        for _, _, data in self.events():
            if data is not None:
                yield data

    def close(self):
        self.conn.sock and self.conn.sock.close()
        self.conn.close()


class Client:
    def __init__(self, d, revision=NEWEST, headers=None, **capabilities):
        self.d, self.headers, self.next = d, dict(headers or {}), 1
        a = mcp_post(d, hello(revision, **capabilities), headers=self.headers)
        equal(a.status, 200, a)
        self.id, self.hello = a.headers["Mcp-Session-Id"], a.json["result"]
        equal(self.post(rpc("notifications/initialized")).status, 202)

    def post(self, body, **kw):
        return mcp_post(self.d, body, self.id, headers=self.headers, **kw)

    def all_headers(self, **more):
        return {"Content-Type": "application/json", "Accept": BOTH, "Mcp-Session-Id": self.id,
                **self.headers, **more}

    def open(self, message, **kw):
        return Stream(self.d, "POST", json.dumps(message), self.all_headers(), **kw)

    def listen(self, after=None, **kw):
        more = {"Last-Event-ID": after} if after else {}
        return Stream(self.d, "GET", None, self.all_headers(Accept="text/event-stream", **more), **kw)

    def ask(self, method, params=None, id=None):
        """The whole message that answers a request."""
        if id is None:
            id, self.next = self.next, self.next + 1
        s = self.open(rpc(method, params, id))
        answer = None
        for m in s.messages():
            if "method" not in m and m.get("id") == id:
                answer = m
        s.close()
        check(answer is not None, f"{method} got no answer (status {s.status})")
        return answer

    def call(self, tool, id=None, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments}, id)

    def end(self):
        return self.d.delete("/mcp", headers=self.all_headers())


class Stdio:
    """mas-sandboxd-fixtures -mcp: send() lines, next() the messages of its stdout."""

    def __init__(self, *flags, revision=NEWEST, **capabilities):
        self.p = subprocess.Popen([FIXTURES, "-mcp", *flags], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.got = queue.Queue()
        self.errors = []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.p.stderr), daemon=True).start()
        if revision:
            self.send(hello(revision, **capabilities))
            self.hello = self.next()["result"]
            self.send(rpc("notifications/initialized"))

    def _read(self):
        for line in self.p.stdout:
            self.got.put(line)
        self.got.put(None)

    def raw(self, data):
        self.p.stdin.write(data)
        self.p.stdin.flush()

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def next(self, timeout=60):
        line = self.got.get(timeout=timeout)
        check(line is not None, f"stdout has ended: {self.errors[-5:]}")
        return json.loads(line)

    def close(self):
        self.p.stdin.close()
        return self.p.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.p.poll() is None:
            self.p.terminate()
            self.p.wait(60)
