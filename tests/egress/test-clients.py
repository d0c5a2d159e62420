#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs as people use them, by the environment alone: curl, wget, git, npm, pip, requests, node and ssh. Each reaches
what is allowed, and fails for what is not: with an error of its own, by itself, and without a packet on the wire."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
from cases import OWN_KERNEL, RUNTIME, Net, allowed, denied, main, use  # noqa: E402
from masd import Skip, check, equal  # noqa: E402

net = use(Net(w.World(), {"allow": [{"host": "allowed.test", "ports": [80, 443, 22]}]}))
with open(net.world.ca) as f:
    net.put("/tmp/ca.pem", f.read())
with open(f"{net.world.dir}/ssh-user") as f:
    net.put("/tmp/ssh-user", f.read())
with open(f"{net.world.dir}/ssh-host.pub") as f:
    net.put("/tmp/known-hosts", f"*.test {f.read()}")
TLS = {"env": {"SSL_CERT_FILE": "/tmp/ca.pem", "CURL_CA_BUNDLE": "/tmp/ca.pem", "REQUESTS_CA_BUNDLE": "/tmp/ca.pem", "NODE_EXTRA_CA_CERTS": "/tmp/ca.pem",
               "GIT_SSL_CAINFO": "/tmp/ca.pem", "PIP_CERT": "/tmp/ca.pem", "npm_config_cafile": "/tmp/ca.pem"}}
SSH = ["ssh", "-F", "none", "-i", "/tmp/ssh-user", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=/tmp/known-hosts", "-o", "ConnectTimeout=20"]
THROUGH = ["-o", "ProxyCommand=nc -X connect -x 127.0.0.1:3128 %h %p"]
URLLIB = "import sys,urllib.request as u\nprint(u.urlopen(sys.argv[1], timeout=20).read().decode(),end='')"
REQUESTS = "import sys,requests\nr=requests.get(sys.argv[1], timeout=20)\nr.raise_for_status()\nprint(r.text,end='')"
FETCH = "fetch(process.argv[1]).then(async r => {if (!r.ok) throw r.status; process.stdout.write(await r.text())})"
# Of each program: what it is called with, and what it prints of what it got.
GET = {
    "curl": (["curl", "-sSf", "-m", "20"], "/", "hello\n"),
    "wget": (["wget", "-nv", "-O-", "-T", "20", "-t", "1", "--ca-certificate=/tmp/ca.pem"], "/", "hello\n"),
    "python": (["/usr/bin/python3", "-c", URLLIB], "/", "hello\n"),
    "requests": (["/usr/bin/python3", "-c", REQUESTS], "/", "hello\n"),
    "git": (["git", "ls-remote", "--heads"], "/git/one.git", "refs/heads/main\n"),
    "node": (["node", "-e", FETCH], "/", "hello\n"),
    "pip": (["/usr/bin/python3", "-m", "pip", "download", "-q", "--no-cache-dir", "--disable-pip-version-check", "--no-deps", "--retries", "0",
             "--timeout", "20", "--trusted-host", "allowed.test", "-d", "/tmp/wheels", "tiny", "--index-url"], "/pip/", ""),
    "npm": (["sh", "-c", "rm -rf /tmp/npm* && npm install --no-audit --no-fund --fetch-retries 0 --cache /tmp/npm-cache --prefix /tmp/npm tiny "
             "--registry \"$0\" && node -p 'require(\"/tmp/npm/node_modules/tiny\")'"], "/npm/", "tiny of npm"),
}

PROGRAMS = {"python": "python3", "requests": "python3"}


def needs(program):
    if not shutil.which(program, path="/usr/bin:/bin"):
        raise Skip(f"{program} is not installed")


def fails(a, *words):
    """By itself, and with one of these words."""
    check(a["exit_code"] not in (0, None) and a["status"] == "completed", a)
    check(any(word in a["stdout"] + a["stderr"] for word in words), a)


for program, (argv, path, want) in GET.items():
    for scheme in ("http", "https"):
        @allowed(program, f"{program} reaches an allowed host by {scheme}")
        def test_reaches(n, program=PROGRAMS.get(program, program), argv=argv, url=f"{scheme}://allowed.test{path}", want=want):
            needs(program)
            a = n.run(*argv, url, **TLS)
            check(a["exit_code"] == 0 and want in a["stdout"], a)

        @denied(program, f"{program} fails clearly for a denied host by {scheme}")
        def test_fails_clearly(n, program=PROGRAMS.get(program, program), argv=argv, url=f"{scheme}://denied.test{path}"):
            needs(program)
            fails(n.run(*argv, url, **TLS), "403", "host_not_allowed", "Forbidden", "No matching distribution")

    @denied(program, f"{program} without the proxy fails at once")
    def test_without_the_proxy(n, program=PROGRAMS.get(program, program), argv=argv, url=f"http://allowed.test{path}"):
        needs(program)
        names = [f"-u{name}" for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")]
        fails(n.run("env", *names, *argv, url, **TLS), "resolve", "resolution", "No matching distribution", "EAI_AGAIN", "ENOTFOUND", "not known")


@allowed("git", "git clones by http, and finds what is there")
def test_git_clones(n):
    a = n.run("sh", "-c", "rm -rf /tmp/one && git clone -q http://allowed.test/git/one.git /tmp/one && cat /tmp/one/file")
    equal((a["exit_code"], a["stdout"]), (0, "from the server\n"), a)


@allowed("node", "node starts and fetches where a call may use few paths only")
def test_node_where_few_paths_are_open(n):
    if OWN_KERNEL:
        raise Skip("paths of a call need Landlock")
    a = n.daemon.post("/v1/sandbox/execute", {"sandbox_id": n.box.id, "policy": {"AllowedPaths": ["/workspace"]},
                                              "tool": {"id": "c", "name": "shell", "args": {"argv": ["node", "-e", FETCH, "http://allowed.test/"]}}})
    equal(a.status, 200, a)
    check("hello" in a.body.decode(), a)


@allowed("ssh", "ssh reaches an allowed host through the proxy")
def test_ssh_reaches(n):
    a = n.run(*SSH, *THROUGH, "root@allowed.test", "anything")
    equal((a["exit_code"], a["stdout"]), (0, "hello by ssh\n"), a)


@denied("ssh", "ssh fails clearly for a denied host")
def test_ssh_fails_clearly(n):
    fails(n.run(*SSH, *THROUGH, "root@denied.test", "anything"), "403")


@denied("ssh", "ssh fails clearly for a denied port")
def test_ssh_fails_clearly_for_a_port(n):
    fails(n.run(*SSH, *THROUGH, "-p", "2222", "root@allowed.test", "anything"), "403")


@denied("ssh", "ssh without the proxy fails at once")
def test_ssh_without_the_proxy(n):
    fails(n.run(*SSH, "root@allowed.test", "anything"), "Could not resolve")
    fails(n.run(*SSH, f"root@{w.ALLOWED}", "anything"), "unreachable", "No route")


@allowed("curl", "a large answer comes whole")
def test_a_large_answer_comes_whole(n):
    equal(n.run("sh", "-c", "curl -sS -m 60 http://allowed.test/big | wc -c")["stdout"].strip(), str(8 << 20))


@allowed("curl", "a large body goes whole, also through TLS")
def test_a_large_body_goes_whole(n):
    for scheme in ("http", "https"):
        a = n.run("sh", "-c", f"head -c 3000000 /dev/zero | curl -sS -m 60 -H 'Expect:' --data-binary @- {scheme}://allowed.test/up", **TLS)
        equal(a["stdout"], "3000000\n", a)


@allowed("curl", "a certificate of another name is the program's to refuse")
def test_a_certificate_of_another_name(n):
    a = n.run("curl", "-sS", "-m", "20", "https://allowed.test/")
    check(a["exit_code"] == 60, a)


@allowed("environment", "the environment has the proxy, and a call's own wins")
def test_the_environment_has_the_proxy(n):
    equal(n.box.created["effective"]["network"], {"by": "gateway", "mode": "names"})
    equal(n.box.created["runtime"], RUNTIME)
    out = n.run("sh", "-c", "echo $HTTP_PROXY $https_proxy $ALL_PROXY $NO_PROXY")["stdout"].split()
    equal(out, ["http://127.0.0.1:3128"] * 3 + ["localhost,127.0.0.1,::1"])
    equal(n.run("sh", "-c", "echo $HTTP_PROXY", env={"HTTP_PROXY": "mine"})["stdout"], "mine\n")
    n.get("http://allowed.test/")


main()
