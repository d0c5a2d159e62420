#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sbx mcp install for every client: what is written, what is kept, what is refused."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *


class Home:
    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="mas-setup-")
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def put(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as f:
            f.write(text)
        os.chmod(self.path(name), mode)

    def get(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def sbx(self, *argv, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAS_SANDBOX", "SANDBOX_"))}
        return subprocess.run([SBX, *argv], cwd=self.dir, env=dict(clean, HOME=self.dir, **env),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@test("stdio: every client starts the daemon itself")
def stdio():
    with Home() as h:
        for client, file, key in (("claude", ".mcp.json", "mcpServers"), ("cursor", ".cursor/mcp.json", "mcpServers"),
                                  ("vscode", ".vscode/mcp.json", "servers")):
            r = h.sbx("mcp", "install", client)
            equal(r.returncode, 0, r.stderr)
            entry = json.loads(h.get(file))[key]["mas-sandbox"]
            equal((entry["command"], entry["args"]), (SANDBOXD, ["-mcp"]), client)
            check(os.access(entry["command"], os.X_OK), "what it names can be started")
        equal(h.sbx("mcp", "install", "codex").returncode, 0)
        equal(h.get(".codex/config.toml"), f'[mcp_servers.mas-sandbox]\ncommand = "{SANDBOXD}"\nargs = ["-mcp"]\n')


@test("HTTP: an address, and a variable instead of the key")
def http():
    with Home() as h:
        want = {"claude": "Bearer ${MAS_SANDBOX_TOKEN}", "cursor": "Bearer ${env:MAS_SANDBOX_TOKEN}",
                "vscode": "Bearer ${env:MAS_SANDBOX_TOKEN}"}
        for client, value in want.items():
            r = h.sbx("mcp", "install", client, "-print", "-addr", "https://box:1/", "-token", "s3cret")
            entry = list(json.loads(r.stdout).values())[0]["mas-sandbox"]
            equal((entry["url"], entry["headers"]["Authorization"]), ("https://box:1/mcp", value))
            check("s3cret" not in r.stdout + r.stderr, "the key itself is nowhere")
        r = h.sbx("mcp", "install", "codex", "-print", MAS_SANDBOX_URL="http://box:2", MAS_SANDBOX_TOKEN="s3cret")
        equal(r.stdout, '[mcp_servers.mas-sandbox]\nurl = "http://box:2/mcp"\nbearer_token_env_var = "MAS_SANDBOX_TOKEN"\n')
        equal(os.listdir(h.dir), [], "-print writes nothing")
        r = h.sbx("mcp", "install", "claude", "-addr", "unix:/x")
        check(r.returncode == 2 and "http" in r.stderr, r)


@test("what else is in the file stays, and so do its mode and a link to it")
def merge():
    with Home() as h:
        h.put("real/mcp.json", '{"other": [1, 2.5, null], "mcpServers": {"mine": {"command": "x"}, "mas-sandbox": {"command": "old"}}}',
              0o640)
        os.symlink("real/mcp.json", h.path(".mcp.json"))
        for _ in range(2):
            equal(h.sbx("mcp", "install", "claude").returncode, 0)
        got = json.loads(h.get("real/mcp.json"))
        equal((got["other"], got["mcpServers"]["mine"]), ([1, 2.5, None], {"command": "x"}))
        equal(got["mcpServers"]["mas-sandbox"]["command"], SANDBOXD)
        equal(list(got["mcpServers"]), ["mine", "mas-sandbox"])
        check(os.path.islink(h.path(".mcp.json")) and os.stat(h.path("real/mcp.json")).st_mode & 0o777 == 0o640, "link and mode")
        equal(sorted(os.listdir(h.path("real"))), ["mcp.json"], "nothing is left beside it")
        toml = '# mine\nmodel = "m"\n\n[mcp_servers.other]\ncommand = "o"\n\n[mcp_servers.mas-sandbox]\ncommand = "old"\n' \
               '[mcp_servers.mas-sandbox.env]\nA = "b"\n\n[tools]\nweb = true\n'
        h.put(".codex/config.toml", toml)
        for _ in range(2):
            equal(h.sbx("mcp", "install", "codex").returncode, 0)
        equal(h.get(".codex/config.toml"), f'# mine\nmodel = "m"\n\n[mcp_servers.other]\ncommand = "o"\n\n'
              f'[mcp_servers.mas-sandbox]\ncommand = "{SANDBOXD}"\nargs = ["-mcp"]\n\n[tools]\nweb = true\n')


@test("a file that is not understood is left as it is")
def refused():
    with Home() as h:
        for client, file, text in (("claude", ".mcp.json", '{ // a comment\n}'), ("claude", ".mcp.json", "[]"),
                                   ("vscode", ".vscode/mcp.json", '{"servers": []}'),
                                   ("codex", ".codex/config.toml", 'a = """\n[mcp_servers.mas-sandbox]\n"""\n')):
            h.put(file, text)
            r = h.sbx("mcp", "install", client)
            check(r.returncode != 0 and r.stderr, f"{client} {text!r}: {r}")
            equal(h.get(file), text)
            os.unlink(h.path(file))
        equal(h.sbx("mcp", "install", "emacs").returncode, 2)
        equal(h.sbx("mcp", "remove", "claude").returncode, 2)


main()
