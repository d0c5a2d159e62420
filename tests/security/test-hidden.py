#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are not for callers: a URL tool's helper, a one-shot and a member of the pool. Their ids are known (the
audit and the log have them) and must be nothing but unknown names on every way in."""
import http.server
import os
import select
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from mcp import *
from routes import *

NOBODY = "sbx-nobodyhere"
POLICY = {"Network": {"Enabled": True}}

asked = threading.Event()
answer = threading.Event()


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked.set()
        answer.wait(PATIENCE_S)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


class Hidden(Daemon):
    """A daemon with one of each: ids maps what it is to (sandbox, exec)."""

    def __init__(self):
        super().__init__("--gateway-allow-private", "127.0.0.0/8", "--warm-pool-size", "1", "--log-level", "debug")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.ids, self.calls = {}, []

    def ask(self, path, body):
        """A request whose answer nobody reads; the call ends with its connection."""
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        conn.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        self.calls.append(conn)

    def started(self, tool):
        call = None
        for line in self.get("/v1/audit?limit=1000").body.splitlines():
            r = json.loads(line)
            if r["kind"] == "intent" and r["tool"] == tool:
                call = r["call"]
            if r["kind"] == "started" and r["call"] == call:
                return r["sandbox"], r["exec"]

    def pooled(self):
        with open(self.log_path) as f:
            found = re.findall(r"for the pool is ready id=(\S+)", f.read())
        return found and (found[-1], "ex-none")

    def start(self):
        super().start()
        wait_for(self.pooled, "a member of the pool")
        call = {"tool": {"name": "fetch", "args": {"url": f"http://127.0.0.1:{self.server.server_port}/"}}, "policy": POLICY}
        self.ask("/v1/sandbox/execute", call)
        check(asked.wait(PATIENCE_S), "the helper is at work")
        wait_for(lambda: self.started("fetch"), "the helper's id is on record")
        self.ids["helper"] = self.started("fetch")
        before = self.pooled()
        self.ask("/v1/run", {"command": ["sleep", "60"]})
        wait_for(lambda: self.started("exec"), "the one-shot's id is on record")
        self.ids["one-shot"] = self.started("exec")
        wait_for(lambda: self.pooled() != before, "the pool is full again")
        self.ids["member of the pool"] = self.pooled()
        return self

    def stop(self):
        answer.set()
        for conn in self.calls:
            conn.close()
        self.server.shutdown()
        self.server.server_close()
        return super().stop()


_hidden = None


def hidden():
    global _hidden
    if not _hidden:
        _hidden = Hidden().start()
        atexit.register(_hidden.__exit__)
    return _hidden


def same(text, sandbox):
    return text.replace(sandbox, NOBODY)


REFUSED = {SB + "/snapshot", SB + "/files/watch"}  # by name, whatever the id


@test("P17 every route with a sandbox's id: 404, as for a name that nobody has")
def test_p17_every_route_with_a_sandbox_id_404():
    d = hidden()
    table = [r for r in route_table() if "/sandboxes/{id}" in r["path"]]
    check(len(table) > 25, "the table is here")

    def ask(r, sandbox, exec_id):
        path, body = request_to(r["method"], r["path"], sandbox, exec_id)
        if r["websocket"]:
            w = d.ws(path)
            w.close()
            return w.status, ""
        a = d.request(r["method"].upper(), path, body)
        return a.status, same(a.body.decode(), sandbox)
    for r in sorted(table, key=lambda r: r["method"] == "delete"):
        for what, (sandbox, exec_id) in d.ids.items():
            a = ask(r, sandbox, exec_id)
            equal(a, ask(r, NOBODY, exec_id), f"{r['method']} {r['path']} of a {what}")
            check(a[0] == 404 or r["path"] in REFUSED, f"{r['method']} {r['path']} of a {what}: {a}")


@test("P17 the contracts that name a sandbox in a body")
def test_p17_the_contracts_that_name_a_sandbox_in_a_body():
    d = hidden()
    for what, (sandbox, _) in d.ids.items():
        for path, body in (("/v1/sandbox/execute", {"tool": {"name": "shell", "args": {"command": "ls /.mas"}}}),
                           ("/v1/sandbox/execute", {"tool": {"name": "fetch", "args": {"url": "http://127.0.0.1:1/"}}, "policy": POLICY}),
                           ("/v1/sandbox/destroy", {})):
            a, b = (d.post(path, dict(body, sandbox_id=id)) for id in (sandbox, NOBODY))
            equal((a.status, same(a.body.decode(), sandbox)), (b.status, b.body.decode()), f"{path} of a {what}")
            check(NOBODY in b.body.decode() or path == "/v1/sandbox/destroy", b)
        a = d.post("/api/actions", {"action_type": "file_operation", "parameters": {"operation": "list", "sandbox_id": sandbox}})
        equal((a.status, a.json), (404, {"detail": f"there is no sandbox '{sandbox}'"}), f"an action in a {what}")


MCP = {"run_command": {"command": "true"}, "run_code": {"language": "python", "code": "1"}, "start_command": {"command": "true"},
       "read_file": {"path": "x"}, "write_file": {"path": "x", "content": "y"}, "edit_file": {"path": "x", "old_text": "a", "new_text": "b"},
       "list_files": {}, "search_files": {"pattern": "x"}, "upload_file": {"path": "x", "content_base64": "eA=="}, "download_file": {"path": "x"},
       "destroy_sandbox": {}, "read_output": {"exec_id": "EXEC"}, "send_input": {"exec_id": "EXEC", "text": "x"}, "stop_command": {"exec_id": "EXEC"}}


@test("P17 every MCP tool with a sandbox, and its resources")
def test_p17_every_mcp_tool_with_a_sandbox():
    d = hidden()
    c = Client(d)
    tools = {t["name"] for t in c.ask("tools/list")["result"]["tools"] if "sandbox" in t["inputSchema"].get("properties", {})}
    equal(sorted(tools), sorted(MCP), "arguments for each of them")
    for name in sorted(tools):
        for what, (sandbox, exec_id) in d.ids.items():
            arguments = {k: v.replace("EXEC", exec_id) for k, v in MCP[name].items()}
            a = c.call(name, sandbox=sandbox, **arguments)
            check(a.get("result", {}).get("isError") and f"there is no sandbox '{sandbox}'" in json.dumps(a), f"{name} of a {what}: {a}")
    for what, (sandbox, exec_id) in d.ids.items():
        for uri in (f"sandbox://{sandbox}/file/etc/hosts", f"sandbox://{sandbox}/exec/{exec_id}/stdout"):
            a = c.ask("resources/read", {"uri": uri})
            check("error" in a, f"{uri} of a {what}: {a}")
    c.end()


@test("P17 control: they are alive, at work and untouched by all that")
def test_p17_control_they_are_alive_at_work_and_untouched():
    d = hidden()
    equal(select.select([c.sock for c in d.calls], [], [], 0)[0], [], "no call has been answered")
    equal(d.pooled()[0], d.ids["member of the pool"][0])
    equal(d.get("/v1/sandboxes").json["sandboxes"], [])


main()
