#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""File operations that are refused have touched nothing: one table of operations, one of paths, and a look at all of the workspace before and after."""
import base64
import io
import os
import sys
import tarfile
import threading
from urllib.parse import quote

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from mcp import *

MIB = 1024 * 1024
LONG = "n" * 300  # more than a name may have


def daemon():
    return shared_daemon("--max-upload-bytes", "1Mi")


_boxes = []


def box():
    """One sandbox with something of each kind in it: a file, a full directory, links, a directory that may not be written."""
    if not _boxes:
        sb = daemon().sandbox()
        sb.sh("echo plain > plain; echo plain > plain.txt; mkdir -p full/inner empty closed; echo kept > full/kept; ln -s loop loop; ln -s full link; mkfifo fifo.txt; mkfifo fifo; chmod 555 closed")
        _boxes.append(sb)
    return _boxes[0]


def look():
    """Every name of the workspace with its type, mode, owner and content; no times."""
    return box().sh("find . -printf '%p %y %m %l\\n' | LC_ALL=C sort; find . -type f -exec sha256sum {} + | LC_ALL=C sort")["stdout"]


def archive(*entries):
    """Entries are names of files, or a TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for e in entries:
            info = e if isinstance(e, tarfile.TarInfo) else tarfile.TarInfo(e)
            info.size = 5 if info.type == tarfile.REGTYPE else 0
            t.addfile(info, io.BytesIO(b"bytes"[:info.size]))
    return out.getvalue()


def entry(name, type, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = type, link
    return info


# --- the operations: each takes a path, and answers whether the call was refused

def files(method, route, data=None, more=""):
    return lambda path: daemon().request(method, f"{box().path}/files/{route}?path={quote(path, safe='')}{more}", data)


def refused_http(a):
    return 400 <= a.status < 500, a


def native(method, route, data=None, more=""):
    call = files(method, route, data, more)
    return lambda path: refused_http(call(path))


def mkdir(path):
    return refused_http(daemon().post(box().path + "/files/mkdir", {"path": path, "parents": True}))


def move(path):
    return refused_http(daemon().post(box().path + "/files/move", {"from": "plain", "to": path}))


def exec_with_files(path):
    """The command must not run, and the file before the one at fault must not be there."""
    return refused_http(daemon().post(box().path + "/exec", {"command": ["touch", "ran"], "files": [{"path": "first", "content": "x"}, {"path": path, "content": "x"}]}))


def refused_mas(a):
    return a.status != 200 or a.json["status"] != "ok" or a.json["result"].get("success") is False, a


def mas(path):
    return refused_mas(daemon().post("/v1/sandbox/execute", {"sandbox_id": box().id, "tool": {"name": "file_system", "args": {"action": "write", "path": path, "content": "x"}},
                                              "policy": {"AllowedPaths": ["/workspace"], "Workdir": "/workspace"}}))


def act(operation, content="x", where=box):
    def call(path):
        d = daemon()
        a = d.post("/api/actions", {"action_type": "file_operation", "parameters": {"operation": operation, "path": path, "sandbox_id": where().id,
                                                                                     **({"content": content} if operation == "write" else {})}})
        if a.status != 200:
            return True, a
        action = "/api/actions/" + a.json["action_id"]
        if a.json["requires_approval"]:
            equal(d.post(action + "/approve", {"approved": True}).status, 200)
        wait_for(lambda: d.get(action).json["status"] in ("completed", "failed", "rejected"), "its end")
        return d.get(action).json["status"] == "failed", d.get(action)
    return call


_clients = []


def mcp(tool, **more):
    def call(path):
        if not _clients:
            _clients.append(Client(daemon()))
        a = _clients[0].call(tool, sandbox=box().id, path=path, **more)
        return "error" in a or bool(a["result"].get("isError")), a
    return call


OPERATIONS = {
    "tar": native("PUT", "tar", archive("a", "b/c")),
    "write": native("PUT", "content", b"x"),
    "append": native("PUT", "content", b"x", "&append=true"),
    "mkdir": mkdir,
    "move": move,
    "exec with files": exec_with_files,
    "MAS write": mas,
    "skill write": act("write"),
    "skill create_dir": act("create_dir"),
    "MCP write_file": mcp("write_file", content="x"),
    "MCP upload_file": mcp("upload_file", content_base64=base64.b64encode(b"x").decode()),
}

# Paths that no operation may make something at. Most begin with directories that are not there.
PATHS = {
    "5,000 bytes": "d/" * 2500 + "f",
    "5,000 bytes that end as a directory": "d/" * 2500,
    "5,000 bytes from the root": "/workspace/" + "d/" * 2500 + "f",
    "a name of 300 bytes": "new/deep/" + LONG,
    "a directory's name of 300 bytes": "new/deep/" + LONG + "/f.txt",
    "below a file": "new/../plain/f.txt",
    "deep below a file": "plain/new/deep/f.txt",
    "below links in a circle": "new/../loop/f.txt",
    "below a directory that may not be written": "new/../closed/sub/f.txt",
    "a fifo": "new/../fifo.txt",
}


def untouched(*cases, look=look):
    """Cases are names and calls; every one that was not refused, or touched something, is named."""
    faults = []
    for name, call in cases:
        before = look().splitlines()
        refused, answer = call()
        after = look().splitlines()
        if after != before:
            faults.append(f"{name}: new {sorted(set(after) - set(before))}, gone {sorted(set(before) - set(after))}: {answer}")
            box().sh("rm -rf new d sub one first ran dev hard")  # so that the next case finds what this one found
        elif not refused:
            faults.append(f"{name}: not refused: {answer}")
    check(not faults, "\n".join(f[:400] for f in faults))


for _operation, _call in OPERATIONS.items():
    @test(f"{_operation}: a path that is refused leaves nothing behind")
    def refused_path(operation=_operation, call=_call):
        # A rename takes the place of a fifo, as it does with a file. Of the files before a command each is
        # written when the one before it is there, and only their names are looked at ahead.
        passed = {"move": {"a fifo"}, "exec with files": {n for n in PATHS if "bytes" not in n}}.get(operation, ())
        untouched(*((name, lambda path=path: call(path)) for name, path in PATHS.items() if name not in passed))


@test("a place that is no directory, or is one, is found before something is made")
def places():
    rows = (("tar", "plain"), ("tar", "new/../plain"), ("write", "new/../full"), ("append", "new/../full"), ("write", "new/dir/"), ("write", "new/dir/."), ("write", "new/dir/.."),
                            ("mkdir", "new/../plain"), ("MAS write", "full"), ("MAS write", "new/dir/.."), ("exec with files", "new/dir/"),
                            ("skill write", "full"), ("skill write", "new/deep/program.exe"), ("skill write", "new/deep/.."), ("skill create_dir", "new/deep/../x"), ("skill create_dir", "plain.txt"),
                            ("MCP write_file", "new/../full"), ("MCP write_file", "new/dir/"))
    untouched(*((f"{operation} {path}", lambda operation=operation, path=path: OPERATIONS[operation](path)) for operation, path in rows))


BROKEN = {
    "not a tar": b"x" * 2048,
    "a tar that ends in the middle": archive("one", "two")[:1600],
    "a device behind a file": archive("one", "sub/two", entry("dev", tarfile.CHRTYPE)),
    "a name that leads out": archive("one", "sub/two", "../out"),
    "a name of 300 bytes": archive("one", "sub/deep/" + LONG),
    "a name of 5,000 bytes": archive("one", "d/" * 2500 + "f"),
    "a hard link that leads out": archive("one", entry("hard", tarfile.LNKTYPE, "../out")),
    "below a file that is there": archive("one", "plain/sub/x"),
    "below a link that is there": archive("one", "link/x"),
    "a directory over a file": archive("one", entry("plain", tarfile.DIRTYPE)),
    "a file over a directory": archive("one", "full"),
    "below a directory that may not be written": archive("one", "closed/x"),
    "a hard link to nothing": archive("one", entry("sub/hard", tarfile.LNKTYPE, "nothing/here")),
    "a file over another that is kept, then a device": archive("full/kept", entry("dev", tarfile.CHRTYPE)),
}

for _name, _data in BROKEN.items():
    @test(f"an archive with {_name} leaves nothing behind")
    def broken_archive(name=_name, call=native("PUT", "tar", _data)):
        new = () if any(word in name for word in ("there", "over", "written")) else ("new/place",)
        untouched(*((path, lambda path=path: call(path)) for path in ("/workspace", "full/..", *new)))


@test("what is over the limit of uploads leaves no directory and no half of a file")
def too_large():
    data = b"x" * (MIB + 1)
    untouched(*((f"{path}{more}", lambda path=path, more=more: native("PUT", "content", data, more)(path)) for path in ("new/deep/f", "plain") for more in ("", "&append=true")))


@test("a move between mounts that cannot take its source away leaves no copy")
def between_mounts():
    with daemon().sandbox() as sb:
        sb.sh("mkdir closed; echo moved > closed/f; chmod 555 closed; echo kept > /tmp/old")
        before = sb.sh("cat closed/f; head /tmp/*")["stdout"]
        if sb.sh("test $(stat -c %d /tmp) = $(stat -c %d .) && echo same")["stdout"]:
            raise Skip("/tmp and /workspace are on one file system")
        for to in ("/tmp/new", "/tmp/old"):
            a = daemon().post(sb.path + "/files/move", {"from": "closed/f", "to": to})
            equal(a.status, 403, a)
            equal(sb.sh("cat closed/f; head /tmp/*")["stdout"], before, to)


@test("a disk that is full leaves no directory and no half of a file")
def full_disk():
    d = daemon()
    sb = d.sandbox(limits={"disk_mb": 2})
    sizes = lambda: sb.sh("find . -type f -printf '%p %s\\n' -o -printf '%p\\n' | LC_ALL=C sort")["stdout"]
    refused = lambda a: (a.status >= 400, a)
    with sb:
        sb.sh("echo plain > plain; dd if=/dev/zero of=ballast bs=1k count=1400 status=none")
        data = b"x" * (900 * 1024)
        big = tarfile.TarInfo("sub/big")
        big.size = len(data)
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            t.addfile(big, io.BytesIO(data))
        routes = {"content?path=new/deep/f": data, "content?path=plain": data, "content?append=true&path=plain": data, "content?append=true&path=new/f": data, "tar?path=new/deep": out.getvalue()}
        untouched(*((route, lambda route=route: refused(d.put(f"{sb.path}/files/{route}", routes[route]))) for route in routes), look=sizes)
        mas_write = lambda **more: refused_mas(d.post("/v1/sandbox/execute", {"sandbox_id": sb.id, "tool": {"name": "file_system", "args": {"action": "write", "path": "/workspace/plain", "content": "x" * len(data), **more}}, "policy": {"AllowedPaths": ["/workspace"]}}))
        untouched(("MAS write", mas_write), ("MAS append", lambda: mas_write(append=True)),
                  ("skill write", lambda: act("write", "x" * len(data), lambda: sb)("new/deep/f.txt")), look=sizes)


@test("a directory that is there may stand below one that is not the tool's to write")
def directory_that_is_there():
    put = lambda *entries: daemon().request("PUT", f"{box().path}/files/tar?path=/", archive(*entries)).status
    equal(put(entry("workspace", tarfile.DIRTYPE), "workspace/from-root"), 200)
    equal(box().sh("cat from-root; rm from-root")["stdout"], "bytes")
    equal(put(entry("workspace", tarfile.DIRTYPE), "beside"), 403)


@test("appends that make a file at the same time lose nothing, also through a link to a file that is not there")
def appends_at_once():
    box().sh("ln -s made-by-append to-nowhere")
    for name in ["to-nowhere"] + [f"new-{i}" for i in range(12)]:
        append = lambda text: daemon().request("PUT", f"{box().path}/files/content?path={name}&append=true", text)
        answers = []
        threads = [threading.Thread(target=lambda i=i: answers.append(append(f"{i}\n").status)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(answers, [200] * 8)
        equal(sorted(box().sh(f"cat {name}")["stdout"].split()), [str(i) for i in range(8)], name)
    equal(box().sh("readlink to-nowhere")["stdout"], "made-by-append\n", "the link stays")
    box().sh("rm new-* to-nowhere made-by-append")


@test("what is right still makes its directories, replaces and appends")
def still_works():
    d = daemon()
    with d.sandbox() as sb:
        put = lambda route, data: equal(d.put(f"{sb.path}/files/{route}", data).status, 200, route)
        put("content?path=a/b/c.txt", b"one")
        put("content?path=a/b/c.txt&append=true", b" two")
        put("content?path=x/y/new&append=true&mode=600", b"three")
        put("tar?path=t/u", archive("one", entry("d", tarfile.DIRTYPE), "d/two", entry("soft", tarfile.SYMTYPE, "one"), entry("hard", tarfile.LNKTYPE, "d/two")))
        put("tar?path=t/u", archive("one", "d/three"))
        put("tar?path=big", archive(*(f"d{i % 50}/{i}" for i in range(900))))
        equal(sb.sh("cat a/b/c.txt x/y/new t/u/soft t/u/hard t/u/d/three; stat -c %a x/y/new; find big -type f | wc -l")["stdout"], "one twothreebytesbytesbytes600\n900\n")


main()
