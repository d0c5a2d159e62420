#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An agent that works in a sandbox over MCP, with nothing but Python's own library.

    agent.py [--plan FILE] [--approve yes|no|ask] -- mas-sandboxd -mcp --policy-file policy.yaml
    agent.py [--plan FILE] [--approve yes|no|ask] http://127.0.0.1:8080/mcp

The loop is that of any agent: the model sees the task, the tools and every result so far, and answers
with the next call or with its last word. The model here replays a recorded plan (plan.json) and goes
on only while the results are what they were when it was recorded; put a real one in its place. When the
sandbox's policy wants a person to approve a call, the server asks and the agent asks its user. A key
is taken from $MAS_SANDBOX_TOKEN. Exits 0 when the task is done.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import urllib.request

REVISION = "2025-11-25"


# --- the two ways to a server: send() one message, and get what comes until its answer

class Stdio:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def exchange(self, message):
        self.send(message)
        for line in self.process.stdout:
            yield json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Http:
    def __init__(self, url):
        self.url, self.session = url, None

    def post(self, message, method="POST"):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                   "MCP-Protocol-Version": REVISION}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if os.environ.get("MAS_SANDBOX_TOKEN"):
            headers["Authorization"] = "Bearer " + os.environ["MAS_SANDBOX_TOKEN"]
        body = json.dumps(message).encode() if message else None
        answer = urllib.request.urlopen(urllib.request.Request(self.url, body, headers, method=method))
        self.session = answer.headers.get("Mcp-Session-Id", self.session)
        return answer

    def send(self, message):
        self.post(message).close()

    def exchange(self, message):
        with self.post(message) as answer:
            if answer.headers.get_content_type() == "application/json":
                yield json.load(answer)
                return
            for line in answer:
                if line.startswith(b"data:") and line[5:].strip():
                    yield json.loads(line[5:])

    def close(self):
        self.post(None, "DELETE").close()


class Server:
    def __init__(self, link, on_question):
        self.link, self.on_question, self.last_id = link, on_question, 0
        self.request("initialize", {"protocolVersion": REVISION, "capabilities": {"elicitation": {}},
                                    "clientInfo": {"name": "example-agent", "version": "1"}})
        self.link.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method, params=None):
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params or {}}
        for m in self.link.exchange(message):
            if m.get("method") == "elicitation/create":
                self.link.send({"jsonrpc": "2.0", "id": m["id"], "result": self.on_question(m["params"])})
            elif "method" not in m and m.get("id") == self.last_id:
                if "error" in m:
                    raise RuntimeError(f"{method}: {m['error']['message']}")
                return m["result"]
        raise RuntimeError(f"{method}: the server left without an answer")

    def call(self, tool, arguments):
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        return "\n".join(c["text"] for c in result["content"] if c["type"] == "text"), result.get("isError", False)


# --- the model

class RecordedModel:
    """Answers as it did when the plan was recorded, as long as the world does."""

    def __init__(self, plan, tools):
        self.steps, self.answer, self.at = plan["steps"], plan["answer"], 0
        for step in self.steps:
            if step["tool"] not in tools:
                raise RuntimeError(f"the plan needs a tool that the server does not have: {step['tool']}")

    def next(self, last_result):
        """The next call, or None and the final answer."""
        if self.at and not re.search(self.steps[self.at - 1]["expect"], last_result):
            return None, f"I cannot go on: {last_result.strip()}", False
        if self.at == len(self.steps):
            return None, self.answer, True
        self.at += 1
        return self.steps[self.at - 1], None, None


# --- the agent

def ask_user(how):
    def on_question(params):
        print("\n--- the sandbox asks:\n" + params["message"])
        if how == "ask":
            said = input("Approve? [y/N] ").strip().lower() in ("y", "yes")
        else:
            said = how == "yes"
        print(f"--- {'approved' if said else 'declined'}\n")
        return {"action": "accept", "content": {"approve": True}} if said else {"action": "decline"}
    return on_question


def work(server, plan):
    tools = [t["name"] for t in server.request("tools/list")["tools"]]
    model, last = RecordedModel(plan, tools), ""
    print(f"task: {plan['task']}\n")
    while True:
        step, answer, done = model.next(last)
        if step is None:
            print(f"\n{'done' if done else 'not done'}: {answer}")
            return done
        if "say" in step:
            print(step["say"])
        print(f"> {step['tool']} {json.dumps(step['arguments'])[:120]}")
        last, failed = server.call(step["tool"], step["arguments"])
        print("".join(f"  {line}\n" for line in last.splitlines()[:12]), end="")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="An example agent in a sandbox, over MCP.")
    parser.add_argument("--plan", default=os.path.join(here, "plan.json"))
    parser.add_argument("--approve", choices=("yes", "no", "ask"), default="ask")
    parser.add_argument("server", nargs="+", help="the URL of /mcp, or a command that speaks MCP on stdin and stdout")
    args = parser.parse_args()
    with open(args.plan) as f:
        plan = json.load(f)
    link = Http(args.server[0]) if args.server[0].startswith("http") else Stdio(args.server)
    server = Server(link, ask_user(args.approve))
    try:
        return 0 if work(server, plan) else 1
    finally:
        link.close()


if __name__ == "__main__":
    sys.exit(main())
