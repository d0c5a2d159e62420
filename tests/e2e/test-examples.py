#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people copy from examples/ runs against a real daemon, and says what is wrong where it cannot; what the README says is
not there is refused."""
import os
import re
import shutil
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
EXAMPLES = os.path.join(ROOT, "examples")
CLIENTS = {"curl.sh": ["sh"], "client.py": ["/usr/bin/python3", "-I"], "client.mjs": ["node"], "client.go": ["go", "run"]}
TOKEN = "a-token-of-the-examples"


def example(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as f:
        return f.read()


def run_client(d, name, token):
    # Go needs no module and no network for this; its cache is the user's.
    env = dict(os.environ, MAS_SANDBOX_URL=f"http://127.0.0.1:{d.port}", MAS_SANDBOX_TOKEN=token, GOFLAGS="",
               GOTOOLCHAIN="local", GOPROXY="off", GO111MODULE="off")
    return subprocess.run(CLIENTS[name] + [os.path.join(EXAMPLES, name)], stdin=subprocess.DEVNULL, env=env, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


for client, program in CLIENTS.items():
    @test(f"{client} runs a command, follows another, and leaves nothing")
    def test_runs_a_command_follows_another_and_leaves(client=client, program=program):
        if not shutil.which(program[0]):
            raise Skip(f"{program[0]} is not installed")
        with Daemon("--auth-token", TOKEN) as d:
            d.token = TOKEN
            r = run_client(d, client, TOKEN)
            equal((r.returncode, r.stdout), (0, "one-shot: hello\nline 1\nline 2\nline 3\nexit code: 3\n"), r.stderr)
            equal(d.get("/v1/sandboxes").json["sandboxes"], [])
            wrong = run_client(d, client, "another-token")
            check(wrong.returncode != 0, "a refusal is a failure")
            check("token" in wrong.stderr + wrong.stdout, f"and says why: {wrong.stderr}{wrong.stdout}")


@test("the systemd drop-in has settings that systemd and the daemon know")
def drop_in():
    text = example("systemd-drop-in.conf")
    settings = dict(s.split("=", 1) for line in re.findall(r"^Environment=(.*)$", text, re.M) for s in line.split())
    with tempfile.TemporaryDirectory() as tmp:
        with open(os.path.join(tmp, "token"), "w") as f:
            f.write(TOKEN)
        os.chmod(f.name, 0o600)
        settings = {k: v.replace("%d", tmp) for k, v in settings.items()}
        p = subprocess.run([SANDBOXD, "--check-config"], env=dict(os.environ, **settings), timeout=60,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        equal((p.returncode, p.stdout), (0, "ok\n"))
    if not shutil.which("systemd-analyze"):
        raise Skip("systemd-analyze is not installed")
    equal(verify_unit(text), [])
    check(verify_unit(text.replace("CPUWeight", "CPUWieght")), "control: a name that systemd does not know is found")


def verify_unit(drop_in_text):
    """What systemd-analyze says of the drop-in beside the unit that is built."""
    with tempfile.TemporaryDirectory() as tmp:
        unit = os.path.join(tmp, "mas-sandboxd.service")
        with open(os.path.join(BUILD, "docs/mas-sandboxd.service")) as f, open(unit, "w") as out:
            out.write(re.sub(r"^ExecStart=\S+", f"ExecStart={SANDBOXD}", f.read(), flags=re.M))
        os.mkdir(unit + ".d")
        with open(os.path.join(unit + ".d", "local.conf"), "w") as out:
            out.write(drop_in_text)
        p = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], timeout=60, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return [line for line in p.stdout.splitlines() if "local.conf" in line]


@test("the reverse proxy's sizes and times fit the daemon's")
def proxy():
    text = example("nginx-reverse-proxy.conf")
    printed = subprocess.run([SANDBOXD, "--print-config"], stdout=subprocess.PIPE, timeout=60, text=True).stdout
    config = dict(re.findall(r'^(\w+): *"?([^"\n]*)"?$', printed, re.M))
    hours = lambda value: int(re.fullmatch(r"(\d+)h(?:0m0s)?", value)[1])
    value = lambda name: re.search(rf"^\s*{name} (.*);$", text, re.M)[1]
    equal(int(value("client_max_body_size")[:-1]) << 30, int(config["max_upload_bytes"]))
    equal(int(value("large_client_header_buffers").split()[1][:-1]) << 10, int(config["max_header_bytes"]))
    check(int(value("keepalive_timeout")[:-1]) < 75 and config["idle_timeout"] in ("75s", "1m15s"), config["idle_timeout"])
    check(hours(value("proxy_read_timeout")) >= hours(config["exec_max_timeout"]), "a command may take that long")


def write_nginx(tmp, name, text):
    """The example in a whole configuration that touches nothing outside of tmp."""
    text = re.sub(r"(ssl_certificate_key +)\S+;", rf"\1{tmp}/key;", text)
    text = re.sub(r"(ssl_certificate +)\S+;", rf"\1{tmp}/cert;", text)
    places = " ".join(f"{kind}_temp_path {tmp}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = os.path.join(tmp, name)
    with open(path, "w") as f:
        f.write(f"daemon off; pid {tmp}/pid; error_log {tmp}/error.log; events {{}}\n"
                f"http {{ access_log off; {places}\n{text} }}\n")
    return ["nginx", "-c", path, "-e", f"{tmp}/error.log"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@test("nginx takes the reverse proxy's configuration, and calls, streams and WebSockets go through it")
def nginx():
    if not shutil.which("nginx"):
        raise Skip("nginx is not installed")
    text = example("nginx-reverse-proxy.conf")
    with tempfile.TemporaryDirectory() as tmp, Daemon() as d:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=sandbox.example", "-keyout", f"{tmp}/key", "-out", f"{tmp}/cert"], check=True,
                       stderr=subprocess.DEVNULL)
        p = subprocess.run(write_nginx(tmp, "whole.conf", text) + ["-t"], stderr=subprocess.PIPE, text=True, timeout=60)
        equal(p.returncode, 0, p.stderr)
        behind, port = d.port, free_port()
        plain = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}").replace("127.0.0.1:8080", f"127.0.0.1:{behind}")
        proxy_process = subprocess.Popen(write_nginx(tmp, "plain.conf", plain), stderr=subprocess.DEVNULL)
        try:
            d.port = port
            wait_for(lambda: d.get("/healthz").status == 200, "the proxy answers")
            r = run_client(d, "client.py", "")
            equal((r.returncode, r.stdout.splitlines()[-1]), (0, "exit code: 3"), r.stderr)
            sandbox = d.post("/sandboxes", {}).json["id"]
            ran = d.post(f"/sandboxes/{sandbox}/exec", {"command": ["echo", "through"]}).json
            events = d.ws(f"/sandboxes/{sandbox}/stream?exec_id={ran['exec_id']}").events()
            check(any(e.get("data") == "through\n" for e in events), events)
        finally:
            d.port = behind
            proxy_process.terminate()
            proxy_process.wait()


@test("what the README says is not there yet is refused by name")
def not_there():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        section = f.read().split("## Not there yet\n")[1].split("\n## ")[0]
    runtimes = re.findall(r"`(\w+)`", re.search(r"^- Runtimes: .*$", section, re.M).group())
    check(len(runtimes) >= 1 and all(w in section.lower() for w in ("snapshot", "file watch", "networks of")), section)
    with Daemon() as d:
        for runtime in runtimes:
            r = d.post("/v1/sandboxes", {"runtime": runtime})
            check(r.status >= 400 and runtime in r.json["error"]["message"], (runtime, r.status, r.json))
        sandbox = d.post("/v1/sandboxes", {}).json["id"]
        for word, r in (("snapshot", d.post(f"/v1/sandboxes/{sandbox}/snapshot", {})),
                        ("watch", d.get(f"/v1/sandboxes/{sandbox}/files/watch?path=/workspace")),
                        ("network", d.post("/v1/sandboxes", {"network": {"mode": "full"}}))):
            check(r.status >= 400 and word in r.json["error"]["message"], (word, r.status, r.json))


main()
