#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clients of the source systems against the daemon: a decoder of the contracts in Go, and the MAS library's own sandbox
example with a stub of the chat API on loopback as its model.
Usage: check.py DECODER SANDBOX_AGENT ("": not to be had). Ends with one line: N passed, N failed[, N skipped]."""
import http.server
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *


class Model(http.server.BaseHTTPRequestHandler):
    """Asks for the calculator first, and then says what the tool has answered."""

    def log_message(self, *args):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        told = [m["content"] for m in asked["messages"] if m["role"] == "tool"]
        call = {"id": "call-1", "type": "function", "function": {"name": "calculator", "arguments": '{"expression":"15 * 8 + 7"}'}}
        message = {"role": "assistant", "content": "the tool said " + told[-1]} if told else \
            {"role": "assistant", "content": "", "tool_calls": [call]}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": asked["model"],
                           "choices": [{"index": 0, "message": message, "finish_reason": "stop" if told else "tool_calls"}],
                           "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def agent(program, **env):
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    model.daemon_threads = True
    threading.Thread(target=model.serve_forever, daemon=True).start()
    env = dict(os.environ, OPENAI_API_KEY="none", OPENAI_API_BASE_URL=f"http://127.0.0.1:{model.server_port}/v1", **env)
    p = subprocess.run([program], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)
    model.shutdown()
    check("the tool said" in p.stdout and "127" in p.stdout and "error" not in p.stdout, p.stdout)


def over_lines(program):
    agent(program, MAS_SANDBOX_MODE="local", MAS_SANDBOXD=SANDBOXD)


def over_http(program):
    with Daemon("-auth-token", "t") as d:
        agent(program, MAS_SANDBOX_MODE="http", MAS_SANDBOX_URL=f"http://127.0.0.1:{d.port}", MAS_SANDBOX_TOKEN="t")


def decoded(program):
    """The lines of the decoder, each a check of its own."""
    with Daemon() as d:
        p = subprocess.run([program, f"http://127.0.0.1:{d.port}", SANDBOXD], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=PATIENCE_S)
    print(p.stdout, end="")
    lines = p.stdout.splitlines()
    good = sum(x.startswith("ok ") for x in lines)
    return good, max(len(lines) - good, p.returncode != 0 or not good)


decoder, example = sys.argv[1:]
passed, failed = decoded(decoder)
skipped = 0 if example else 1
for mode in (over_lines, over_http) if example else ():
    try:
        mode(example)
        passed += 1
        print(f"ok - the library's example, {mode.__name__}")
    except Exception as e:
        failed += 1
        print(f"not ok - the library's example, {mode.__name__}: {e}")
print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(failed > 0)
