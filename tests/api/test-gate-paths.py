#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules about paths are about the place that is read or written: whatever links there are, whenever the call comes,
whatever the operation does beside what it is called."""
import io
import os
import sys
import tarfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from guarded import *

ALLOW = "version: 1\ndefault: allow\nrules:\n  - {id: all, verdict: allow, command: '*'}\n"
SECRET = '  - {id: secrets, verdict: deny, path: "/workspace/secret/**"}\n'
HOST = '  - {id: host, verdict: deny, write: "/mnt/host/secret/**"}\n  - {id: asked, verdict: ask, write: "/mnt/host/asked/**"}\n'
WAIT = {"X-Mas-Approval": "wait"}


def tar(*entries):
    """Of (name, content) or (name, kind, target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, content, *target in entries:
            info = tarfile.TarInfo(name)
            if target:
                info.type, info.linkname = content, target[0]
                content = b""
            elif content is None:
                info.type, info.mode, content = tarfile.DIRTYPE, 0o755, b""
            info.size = len(content)
            t.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Shared(Guarded):
    """With a directory of the host's that sandboxes may mount: links are there before any sandbox is."""

    def __init__(self, policy, *flags):
        self.host = tempfile.mkdtemp(prefix="mas-paths-")
        for name in ("secret", "asked", "open"):
            os.mkdir(os.path.join(self.host, name))
        os.symlink("secret", os.path.join(self.host, "alias"))
        os.symlink("../asked", os.path.join(self.host, "open/a"))
        for path, _, _ in os.walk(self.host):
            os.chmod(path, 0o777)
        super().__init__(policy, "--mounts-allow", self.host, *flags)
        self.mounts = [{"source": self.host, "target": "/mnt/host", "read_only": False}]

    def found(self, name):
        return sorted(os.listdir(os.path.join(self.host, name)))

    def pending(self):
        return [a["id"] for a in self.get("/v1/approvals").json["approvals"] if a["status"] == "pending"]

    def __exit__(self, *exc):
        super().__exit__(*exc)
        shutil.rmtree(self.host, ignore_errors=True)


@test("where a path leads is known however deep it is, and links are counted as the kernel counts them")
def test_where_a_path_leads_is_known_however_deep():
    deep = "/".join(["d"] * 900)
    with Guarded(ALLOW + SECRET) as d, d.sandbox() as sb:
        f = sb.path + "/files"
        sb.exec("python3", "-c", "import os; os.mkdir('real'); os.mkdir('secret'); open('file', 'w'); os.symlink('real', 'l0')\n"
                "for i in range(1, 41): os.symlink(f'l{i-1}', f'l{i}')\n"
                "for t, n in (('loop', 'loop'), ('secret/new/x', 'dangling'), ('real/../secret', 'up')): os.symlink(t, n)")
        equal(d.put(f"{f}/content?path={deep}/x", b"deep").status, 200)
        equal(d.get(f"{f}/content?path=/workspace/{deep}/x").body, b"deep")
        equal(d.put(f"{f}/content?path=l39/x", b"40 links").status, 200)
        equal(sb.sh("cat real/x")["stdout"], "40 links")
        for path, status in (("l40/x", 403), ("loop/x", 403), ("file/x", 404), ("file/../x", 404), ("nothing/../x", 404),
                             ("n" * 256 + "/x", 400), ("real/" + "n" * 256, 400)):
            a = d.put(f"{f}/content?path={path}", b"x")
            check(a.status == status, (path[:20], status, a))
        for path in ("dangling", "secret/x", "real/../secret/x", "up/x", "l39/../secret/x", "./secret//./x", "secret/a/b/c"):
            a = d.put(f"{f}/content?path={path}", b"x")
            equal((a.status, "secrets" in str(a.json)), (403, True), path)
        equal(d.delete(f"{f}?path=dangling").status, 200, "the link itself")


@test("while a sandbox is being created: a call waits, and links do not lead around a rule")
def test_while_a_sandbox_is_being_created_a_call_waits():
    with Shared(ALLOW + HOST) as d:
        for i in range(4):
            answers = []
            box = f"being-made-{i}"
            make = threading.Thread(target=lambda: answers.append(d.post("/v1/sandboxes", {"id": box, "mounts": d.mounts}).status))
            make.start()
            path = f"/v1/sandboxes/sbx-{box}"
            wait_for(lambda: d.get(path).status == 200, "the sandbox is known")
            statuses = [d.put(f"{path}/files/content?path=/mnt/host/alias/{i}", b"x").status,
                        d.post(f"{path}/exec", {"command": ["true"], "files": [{"path": f"/mnt/host/alias/f{i}", "content": "x"}]}).status,
                        d.put(f"{path}/files/tar?path=/mnt/host/alias", tar((f"t{i}", b"x"))).status]
            make.join()
            equal((statuses, answers), ([403] * 3, [201]), box)
            d.delete(path)
        equal(d.found("secret"), [], "nothing was written in the denied directory")


@test("files of a one-shot are decided on by where they lead, and it is thrown away unwritten")
def test_files_of_a_one_shot_are_decided_on_by_where_they():
    with Shared(ALLOW + HOST) as d:
        run = lambda *paths, **kw: d.post("/v1/run", {"command": ["touch", "/mnt/host/open/ran"], "mounts": d.mounts,
                                                      "files": [{"path": p, "content": "x"} for p in paths]}, **kw)
        for paths in (["/mnt/host/alias/a"], ["/mnt/host/open/first", "/mnt/host/alias/b"], ["/mnt/host/open/../alias/c"],
                      ["/mnt/host/open/a/../secret/d"]):
            a = run(*paths)
            check(a.status == 403 and "'host'" in a.json["error"]["message"], f"{paths}: {a}")
        equal((d.found("secret"), d.found("open")), ([], ["a"]), "not one file of them, and no command")
        execute = d.post("/v1/sandbox/execute", {"tool": {"name": "file_system", "args": {"action": "write", "path": d.host + "/alias/e", "content": "x"}},
                                                 "policy": {"AllowedPaths": [d.host]}}).json
        check(execute["status"] == "ok" or "not allowed" in str(execute), f"another target, no rule: {execute}")
        os.path.exists(d.host + "/secret/e") and os.unlink(d.host + "/secret/e")
        # one that has to be asked about is made again once it is allowed, and must lead to the same place
        a = run("/mnt/host/open/a/x")
        equal(a.status, 202, a)
        d.post(f"/v1/approvals/{a.json['approval_id']}/approve")
        os.unlink(d.host + "/open/a")
        os.symlink("../asked/elsewhere", d.host + "/open/a")
        b = run("/mnt/host/open/a/x", headers={"X-Mas-Approval-Id": a.json["approval_id"]})
        check(b.status == 403, f"the link leads elsewhere: {b}")
        os.unlink(d.host + "/open/a")
        os.symlink("../asked", d.host + "/open/a")
        a = run("/mnt/host/open/a/x")
        d.post(f"/v1/approvals/{a.json['approval_id']}/approve")
        b = run("/mnt/host/open/a/x", headers={"X-Mas-Approval-Id": a.json["approval_id"]})
        equal((b.status, d.found("asked"), "ran" in d.found("open")), (200, ["x"], True), b)
        wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == 0, "no one-shot is left over")


@test("a one-shot is made again, smaller, where its files lead to a place that obliges to it")
def test_a_one_shot_is_made_again_smaller_where_its_files():
    small = '  - {id: small, path: "/mnt/host/asked/**", require: {limits: {memory_mb: 64}}}\n'
    with Shared(ALLOW + small) as d:
        run = lambda path: d.post("/v1/run", {"command": ["python3", "-c", "bytearray(300 << 20)"], "mounts": d.mounts, "limits": {"memory_mb": 512},
                                              "files": [{"path": path, "content": "x"}]}).json["status"]
        equal((run("/mnt/host/open/x"), run("/mnt/host/open/a/x")), ("completed", "oom_killed"))
        equal((d.found("asked"), d.found("open")), (["x"], ["a", "x"]), "both were written")
        wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == 0, "no one-shot is left over")


@test("a link that is swapped all the time between a place outside of the sandbox's own walls and a denied one")
def test_a_link_that_is_swapped_all_the_time_between():
    swap = "import ctypes\nlibc = ctypes.CDLL(None)\nwhile True:\n    libc.renameat2(-100, b'open/a', -100, b'open/b', 2)\n    libc.usleep(300)"
    with Shared(ALLOW + SECRET) as d:
        path = "/v1/sandboxes/" + d.post("/v1/sandbox/create", {"policy": {"AllowedPaths": ["/workspace"]}}).json["sandbox_id"]
        sh = lambda line: d.post(path + "/exec", {"command": ["python3", "-c", line]}).json["stdout"]
        sh("import os; os.mkdir('secret'); os.mkdir('open'); os.symlink('/tmp', 'open/a'); os.symlink('../secret', 'open/b')")
        equal(d.post(path + "/exec", {"command": ["python3", "-c", swap], "async": True}).status, 200)
        for i in range(150):
            put = d.put(f"{path}/files/content?path=/workspace/open/a/put{i}", b"x").status
            run = d.post(path + "/exec", {"command": ["true"], "files": [{"path": f"/workspace/open/a/run{i}", "content": "x"}]}).status
            check(put != 200 and run != 200, f"{put} {run}")
        equal(sh("import os; print(os.listdir('secret'))"), "[]\n")


@test("a file operation whose client left while a person decided never runs, whatever its kind")
def test_a_file_operation_whose_client_left():
    with Shared(ALLOW + '  - {id: asked, verdict: ask, path: "/workspace/asked/**"}\n') as d, d.sandbox() as box:
        at = box.path + "/files"
        operations = [("DELETE", f"{at}?path=asked/x", b""), ("PUT", f"{at}/content?path=asked/x", b"new"), ("PUT", f"{at}/tar?path=asked/t", tar(("x", b"x"))),
                      ("GET", f"{at}/content?path=asked/x", b""), ("GET", f"{at}/tar?path=asked/t", b""), ("GET", f"{at}?path=asked/t", b""),
                      ("POST", f"{at}/mkdir", b'{"path": "asked/made"}'), ("POST", f"{at}/move", b'{"from": "asked/x", "to": "moved"}')]
        asked = {}
        for method, path, body in operations:
            s = d.connect()
            s.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Mas-Approval: wait\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            wait_for(lambda: len(d.pending()) > len(asked), f"{method} {path} is asked")
            asked[(set(d.pending()) - set(asked)).pop()] = f"{method} {path}"
            s.close()
        time.sleep(0.3)  # the daemon sees them go
        for id in asked:
            equal(d.post(f"/v1/approvals/{id}/approve").json["status"], "approved")
        equal(d.put(f"{at}/content?path=after", b"x").status, 200, "a call that comes later has run")
        for id, name in asked.items():
            equal(d.get(f"/v1/approvals/{id}").json["status"], "approved", name)
        equal([r for r in d.records(kind="intent") if r["details"].get("grant")], [])


@test("a link that changes while a person decides: the call does not run")
def test_a_link_that_changes_while_a_person_decides():
    with Shared(ALLOW + HOST) as d:
        box = d.sandbox(mounts=d.mounts)
        answers = []
        for how in ("lasting", "one-shot"):
            if how == "lasting":
                call = lambda: d.put(f"{box.path}/files/content?path=/mnt/host/open/a/x", b"new", headers=WAIT)
            else:
                call = lambda: d.post("/v1/run", {"command": ["true"], "mounts": d.mounts, "files": [{"path": "/mnt/host/open/a/x", "content": "new"}]}, headers=WAIT)
            t = threading.Thread(target=lambda: answers.append(call()))
            t.start()
            wait_for(d.pending, "it is asked")
            os.unlink(d.host + "/open/a")
            os.symlink("../secret", d.host + "/open/a")
            d.post(f"/v1/approvals/{d.pending()[0]}/approve")
            t.join()
            equal(answers[-1].status, 403, f"{how}: {answers[-1]}")
            equal((d.found("secret"), d.found("asked")), ([], []), how)
            os.unlink(d.host + "/open/a")
            os.symlink("../asked", d.host + "/open/a")


@test("an upload through a link is approved with all that it writes, with wait and without, files and archives")
def test_an_upload_through_a_link_is_approved():
    with Shared(ALLOW + HOST) as d:
        box = d.sandbox(mounts=d.mounts)
        content, archive = b"one\ntwo\n", tar(("t", b"in it"))
        for kind, body, other in (("content", content, b"other\n"), ("tar", archive, tar(("t", b"other")))):
            answers = []
            path = f"{box.path}/files/{kind}?path=/mnt/host/open/a" + ("/x" if kind == "content" else "")
            t = threading.Thread(target=lambda: answers.append(d.put(path, body, headers=WAIT)))
            t.start()
            wait_for(d.pending, "it is asked")
            id = d.pending()[0]
            a = d.get("/v1/approvals/" + id).json
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            equal(a["subject"]["stdin"], {"bytes": len(body), "digest": digest, "open": False}, kind)
            if kind == "content":
                check("+one\n+two" in a["shown"]["diff"], a["shown"])
            check(any(p["path"].startswith("/mnt/host/asked") for p in a["subject"]["leads_to"]), a["subject"])
            equal(d.found("asked"), [] if kind == "content" else ["x"], "nothing is written yet")
            d.post(f"/v1/approvals/{id}/approve")
            t.join()
            equal(answers[0].status, 200, answers[0])
            # the same with the id of a grant; another content is another call
            first = d.put(path, body)
            equal(first.status, 202, first)
            d.post(f"/v1/approvals/{first.json['approval_id']}/approve")
            use = {"X-Mas-Approval-Id": first.json["approval_id"]}
            check(d.put(path, other, headers=use).status in (403, 409), "another content")
            d.post(f"/v1/approvals/{d.put(path, body).json['approval_id']}/reject")
        with open(d.host + "/asked/x") as f:
            equal(f.read(), content.decode())
        # No more than max_discard_bytes: of a longer one the rest is not read, and this client sees a reset where it sends on.
        big = d.put(f"{box.path}/files/content?path=/mnt/host/open/a/big", b"x" * (16 << 20))
        equal(big.status, 413, big)
        equal(d.put(f"{box.path}/files/content?path=/mnt/host/open/big", b"x" * (20 << 20)).status, 200, "control: what nobody is asked about may be larger")


@test("a path of a command's files starts where the sandbox does, not in the command's directory")
def test_a_path_of_a_command_files_starts():
    with Guarded(ALLOW + SECRET) as d:
        box = d.sandbox()
        body = {"command": ["true"], "cwd": "/tmp", "files": [{"path": "secret/x", "content": "x"}]}
        equal((d.post(box.path + "/exec", body).status, d.post("/v1/run", body).status), (403, 403))


@test("'..' behind a link goes up from where the link leads")
def test_behind_a_link_goes_up_from_where_the_link_leads():
    with Guarded(ALLOW) as d:
        box = d.sandbox()
        box.sh("mkdir -p secret/inner open; echo s > secret/s; ln -s secret/inner deep")
        d.replace(ALLOW + SECRET)
        f = box.path + "/files"
        equal(d.get(f"{f}/content?path=/workspace/deep/../s").status, 403)
        equal(d.put(f"{f}/content?path=/workspace/deep/../new", b"x").status, 403)
        equal(d.post(box.path + "/exec", {"command": ["true"], "files": [{"path": "deep/../new2", "content": "x"}]}).status, 403)
        equal(d.delete(f"{f}?path=deep/../s").status, 403)
        d.replace(ALLOW)
        equal(box.sh("ls secret")["stdout"], "inner\ns\n")


@test("a move reads and writes what it moves; what lies below a directory is moved, removed, read and written with it")
def test_a_move_reads_and_writes_what_it_moves_what_lies():
    policy = ALLOW.replace("default: allow", "default: allow\nunknown: deny")
    rules = """  - {id: no-read, verdict: deny, read: "/workspace/p/private/**"}
  - {id: no-write, verdict: deny, write: ["/workspace/p/fixed/**", "/workspace/q/fixed/**"]}
"""
    with Guarded(policy) as d:
        box = d.sandbox()
        box.sh("mkdir -p p/private p/fixed p/free q src/fixed; echo s | tee p/private/s p/fixed/f p/free/o > o; echo x > src/fixed/x; ln -s p link")
        before = box.sh("find p q src o link -ls | awk '{print $3, $7, $11}'; cat p/*/*")["stdout"]
        d.replace(policy + rules)
        f = box.path + "/files"
        move = lambda a, b: d.post(f + "/move", {"from": "/workspace/" + a, "to": "/workspace/" + b}).status
        equal(move("p/private/s", "q/s"), 403, "its source is read")
        equal((move("p/private", "q/x"), move("p/fixed", "q/x"), move("p", "q/x"), move("link/fixed", "q/x")), (403,) * 4, "and what is below it")
        equal((move("src", "q/fixed"), move("src/fixed", "q/fixed"), move("src", "q/sub")), (403, 403, 200), "into a denied place")
        equal(move("q/sub", "src"), 200)
        equal(d.delete(f"{f}?path=/workspace/p&recursive=true").status, 403)
        equal(d.get(f"{f}/tar?path=/workspace/p").status, 403)
        tool = lambda **args: d.post("/v1/sandbox/execute", {"sandbox_id": box.id, "tool": {"name": "file_system", "args": args}}).json["status"]
        equal(tool(action="delete", path="/workspace/p", recursive=True), "error")
        put = lambda path, *entries: d.put(f"{f}/tar?path=/workspace/{path}", tar(*entries)).status
        equal((put("p", ("free/n", b"x"), ("fixed/n", b"x")), put("p", ("fixed", None)), put("link", ("fixed/n", b"x")), put("", ("p/fixed/n", b"x")),
               put("new", ("n", b"x"))), (403, 403, 403, 403, 200), "what is in an archive is known before any of it is written")
        equal(put("p", ("free/h", tarfile.LNKTYPE, "fixed/f")), 403, "a hard link is a second name of what is denied")
        equal(put("p", ("free/l", tarfile.SYMTYPE, "../fixed"), ("free/l/n", b"x")), 403, "and nothing goes through a link of the archive's own")
        d.replace(policy)
        box.sh("rm -r new")
        equal(box.sh("find p q src o link -ls | awk '{print $3, $7, $11}'; cat p/*/*")["stdout"], before, "all is as before")
        d.replace(policy + rules)
        # what no rule can be about goes on as it did
        equal((put("p", ("free/n", b"x")), move("p/free/o", "p/free/o2"), move("p/free", "q/free")), (200, 200, 200))
        equal((d.delete(f"{f}?path=/workspace/q/free&recursive=true").status, d.get(f"{f}/tar?path=/workspace/src").status), (200, 200))


@test("a rule that asks about a directory does not hide one that denies a name in an archive")
def test_a_rule_that_asks_about_a_directory_does_not_hide():
    policy = ALLOW + """  - {id: asked, verdict: ask, write: "/workspace/d/**"}
  - {id: fixed, verdict: deny, write: "/workspace/d/fixed"}
  - {id: quiet, write: "/workspace/e/x/**", require: {redact: [args]}}
"""
    with Guarded(policy) as d:
        box = d.sandbox()
        put = lambda path, name: d.put(f"{box.path}/files/tar?path=/workspace/{path}", tar((name, b"x"))).status
        equal((put("d", "fixed"), put("d", "free"), put("e", "x/f")), (403, 202, 200))
        check("argv" not in d.records(kind="intent")[-1]["details"], "what a rule obliges to below the directory holds too")


@test("leave for a directory is leave for all below it only where the rule says so")
def test_leave_for_a_directory_is_leave_for_all_below():
    policy = """version: 1
default: deny
rules:
  - {id: cmd, verdict: allow, command: '*'}
  - {id: one, verdict: allow, path: "/workspace/*"}
  - {id: all, verdict: allow, path: "/workspace/all/**"}
"""
    with Guarded(policy) as d:
        box = d.sandbox()
        box.sh("mkdir -p one/d all/d; touch file")
        f = box.path + "/files"
        equal(d.delete(f"{f}?path=/workspace/one&recursive=true").status, 403)
        equal(d.delete(f"{f}?path=/workspace/all/d&recursive=true").status, 200)
        equal(d.delete(f"{f}?path=/workspace/file&recursive=true").status, 200, "a file has nothing below it")
        equal(d.post(f + "/move", {"from": "/workspace/one", "to": "/workspace/two"}).status, 403)


@test("both decisions hold: the obligations, silence and risk of what is named and of where it leads")
def test_both_decisions_hold_the_obligations_silence():
    policy = ALLOW + """  - {id: quiet, path: "/workspace/alias/**", require: {redact: [args]}}
  - {id: asked-name, verdict: ask, risk: high, write: "/workspace/alias/**"}
  - {id: asked-place, verdict: ask, risk: low, write: "/workspace/place/**"}
  - {id: small, path: "/workspace/place/**", require: {limits: {memory_mb: 64}}}
"""
    with Guarded(ALLOW) as d:
        box = d.sandbox(limits={"memory_mb": 64})
        big = d.sandbox(limits={"memory_mb": 512})
        for b in (box, big):
            b.sh("mkdir place; ln -s place alias; ln -s place other")
        d.replace(policy)
        a = d.put(f"{box.path}/files/content?path=/workspace/alias/x", b"x")
        equal(a.status, 202, a)
        view = d.get("/v1/approvals/" + a.json["approval_id"]).json
        equal(view["risk"], "high", "the higher of both")
        check("memory_mb" in json.dumps(view["shown"]["obligations"]) and "args" in json.dumps(view["shown"]["obligations"]), view["shown"])
        d.post(f"/v1/approvals/{a.json['approval_id']}/approve")
        equal(d.put(f"{box.path}/files/content?path=/workspace/alias/x", b"x", headers={"X-Mas-Approval-Id": a.json["approval_id"]}).status, 200)
        intent = d.records(kind="intent")[-1]
        check("argv" not in intent["details"], intent)
        a = d.put(f"{big.path}/files/content?path=/workspace/other/x", b"x")
        check(a.status == 403 and "memory" in a.json["error"]["message"], a)
        calls = [r["call"] for r in d.records() if r["kind"] in ("decision", "intent") and r.get("sandbox") == box.id and r["tool"] == "file.write"]
        check(calls, "on record")


main()
