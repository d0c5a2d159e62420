#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What fetches and unpacks images has no rights over anything but images. P28 of SECURITY.md; what
archives and manifests try is in tests/image."""
import contextlib
import hashlib
import io
import json
import struct
import tarfile
import threading

from attempt import *
from takeover import confined, take_over

KEEPER, NOBODY = 64216, 64218
RIGHTS = {"chown": 0, "dac_override": 1, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7, "net_bind_service": 10}

silent = socket.create_server(("127.0.0.1", 0))  # a registry that never answers
REGISTRY = "127.0.0.1:%d" % silent.getsockname()[1]
d = shared_daemon("-images-registries", REGISTRY, "-images-insecure-registries", REGISTRY, "-gateway-allow-private", REGISTRY,
                  "-images-pull-timeout", "20s")
d.get("/v1/images")


def find(word):
    """The deepest process below the daemon with the word in its command line."""
    return next((p for p in below(d.process.pid)[::-1] if word in words_of(p)), None)


def find_keeper():
    return next(iter(named("mas-images", below(d.process.pid))), None)


def inside(pid, uid, *argv):
    """As that process would see it, without its Landlock and seccomp."""
    return subprocess.run(["nsenter", "-t", str(pid), "-m", "-S", str(uid), "-G", str(uid), "--", *argv],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


@test("P28 the keeper is nobody on the host: an id of its own, a user namespace, few rights in it")
def test_p28_the_keeper_is_nobody_on_the_host_an_id():
    s = status_of(find_keeper())
    equal(set(s["Uid"].split() + s["Gid"].split()), {str(KEEPER)})
    equal((s["NoNewPrivs"], s["Seccomp"], s["Groups"].strip()), ("1", "2", ""))
    mask = sum(1 << n for n in RIGHTS.values())
    equal((int(s["CapEff"], 16), int(s["CapBnd"], 16), int(s["CapInh"], 16)), (mask, mask, 0))
    pid = find_keeper()
    for ns in ("user", "mnt"):
        check(os.readlink(f"/proc/{pid}/ns/{ns}") != os.readlink(f"/proc/self/ns/{ns}"), ns)
    with open(f"/proc/{pid}/uid_map") as f:
        equal([line.split() for line in f], [["0", "64216", "1"], ["1000", "64217", "1"], ["65534", "64218", "1"]])


@test("P28 the keeper sees programs and its own directory, and nothing else of the host")
def test_p28_the_keeper_sees_programs_and_its_own():
    pid = find_keeper()
    check(subprocess.run(["cat", "/etc/shadow"], stdout=subprocess.DEVNULL).returncode == 0, "the control")
    equal(set(os.listdir(f"/proc/{pid}/root")) - {"lib64"}, {"dev", "etc", "images", "lib", "usr"})
    for path in ("/etc/shadow", "/etc/passwd", d.state + "/control/state.db", "/root", "/home", "/var", "/proc", "/sys"):
        check(inside(pid, KEEPER, "ls", path).returncode != 0, path)
    for path in ("/usr/x", "/etc/x", "/x", "/lib/x"):
        check(inside(pid, 0, "touch", path).returncode != 0, path)


@test("P28 the keeper has no directory open that is not in its root")
def test_p28_the_keeper_has_no_directory_open():
    def foreign(pid):
        with open(f"/proc/{pid}/mountinfo") as f:
            own = {line.split()[0] for line in f}
        found = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with open(f"/proc/{pid}/fdinfo/{fd}") as f:
                mount = dict(line.split(None, 1) for line in f).get("mnt_id:", "").strip()
            if os.path.isdir(f"/proc/{pid}/fd/{fd}") and mount not in own:
                found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        return found

    equal(foreign(find_keeper()), [], "ways out of its root")


@test("P28 what speaks to registries may not even look at the store")
def test_p28_what_speaks_to_registries_may_not_even_look():
    thread = threading.Thread(target=d.post, args=("/v1/images/pull", {"image": REGISTRY + "/x"}), daemon=True)
    thread.start()
    wait_for(lambda: find("skopeo"), "the fetching program")
    pid = find("skopeo")
    s = status_of(pid)
    equal(set(s["Uid"].split() + s["Gid"].split()), {str(NOBODY)})
    equal((int(s["CapEff"], 16), int(s["CapPrm"], 16), s["NoNewPrivs"], s["Seccomp"]), (0, 0, "1", "2"))
    check(inside(pid, KEEPER, "ls", "/images/store").returncode == 0, "the control")
    for path in ("/images/store", "/images/names", "/images/tmp", "/images"):
        check(inside(pid, NOBODY, "ls", path).returncode != 0, path)
        check(inside(pid, NOBODY, "touch", path + "/x").returncode != 0, path)
    keeper = find_keeper()
    kill = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "kill", "-0", str(keeper)],
                          stderr=subprocess.DEVNULL)
    check(kill.returncode != 0, "it may signal the keeper")
    os.kill(pid, signal.SIGKILL)
    thread.join(60)


FAKE = """#!/usr/bin/sh
(setsid sleep MARK &) >/dev/null 2>&1 </dev/null
echo "cannot be made: no child" >&2
exec sleep 1000
"""


@test("P28 what speaks to registries leaves no process behind")
def test_p28_what_speaks_to_registries_leaves_no_process():
    mark = str(200000000 + os.getpid())
    top = tempfile.mkdtemp(prefix="mas-fake-")
    for name in ("upper", "upper/bin", "work"):
        os.mkdir(os.path.join(top, name), 0o755)
    os.chmod(top, 0o755)
    with open(top + "/upper/bin/skopeo", "w") as f:
        f.write(FAKE.replace("MARK", mark))
    os.chmod(top + "/upper/bin/skopeo", 0o755)
    overlay = f"lowerdir=/usr,upperdir={top}/upper,workdir={top}/work"
    command = ["unshare", "-m", "sh", "-c", f'mount -t overlay overlay -o {overlay} /usr && exec "$@"', "sh", SANDBOXD]
    try:
        with Daemon("-images-registries", REGISTRY, "-images-insecure-registries", REGISTRY, "-gateway-allow-private", REGISTRY,
                    "-images-pull-timeout", "1s", command=command) as other:
            a = other.post("/v1/images/pull", {"image": REGISTRY + "/x:1"})
            check(a.status >= 400 and "not installed" not in a.body.decode(), a)
            equal(processes("sleep " + mark), [], "its children")
    finally:
        for p in processes("sleep " + mark):  # of a test that failed
            os.kill(p, signal.SIGKILL)
        shutil.rmtree(top, ignore_errors=True)


@test("P28 an archive that reaches out is refused by name, and nothing outside is touched")
def test_p28_an_archive_that_reaches_out_is_refused():
    mark = "/tmp/mas-keeper-was-here"
    for name, link in (("a", "/tmp"), ("a", "../../../../../../tmp")):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, link
            t.addfile(info)
            info = tarfile.TarInfo("a/mas-keeper-was-here")
            t.addfile(info)
        d.put("/v1/images/tar?name=evil&format=rootfs-tar", out.getvalue())
        equal(os.path.exists(mark), False)
    for name in ("/etc/evil", "../evil"):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            t.addfile(tarfile.TarInfo(name))
        a = d.put("/v1/images/tar?name=evil&format=rootfs-tar", out.getvalue())
        check(a.status == 200 or "evil" in a.json["error"]["message"], a)
        equal(os.path.exists("/etc/evil"), False)


def many_files():
    """A root file system that takes a while to unpack."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for i in range(20000):
            t.addfile(tarfile.TarInfo(f"etc/{i}"))
    return out.getvalue()


class Unpacker:
    """An import whose unpacker is stopped in the middle, to be spoken for: what an archive could make of
    it that takes it over. It has its descriptors, and a way to what they are."""

    def __init__(self, data):
        self.answer, self.keeper = None, find_keeper()
        self.thread = threading.Thread(target=self.put, args=(data,), daemon=True)
        self.thread.start()
        wait_for(self.find, "the unpacker")
        wait_for(lambda: state_of(self.pid) == "T", "its stop")
        self.fds = descriptors_of(self.pid)
        self.pipe = next(fd for fd, at in self.fds.items() if fd > 2 and at.startswith("pipe:") and self.writes(fd))
        self.target = next(fd for fd, at in self.fds.items() if at.endswith("/image"))

    def writes(self, fd):
        return int(re.search(r"flags:\s*(\d+)", proc_text(self.pid, f"fdinfo/{fd}"))[1], 8) & os.O_ACCMODE == os.O_WRONLY

    def put(self, data):
        self.answer = d.put("/v1/images/tar?name=forged&format=rootfs-tar", data)

    def find(self):
        for pid in named("mas-image-unpk", below_now(self.keeper)):
            with contextlib.suppress(OSError):
                if any(at.endswith(("/image/rootfs", "/rootfs/etc")) for at in descriptors_of(pid).values()):
                    os.kill(pid, signal.SIGSTOP)
                    self.pid = pid
                    return True
        return False

    def path(self, name):
        return f"/proc/{self.pid}/fd/{self.target}/{name}"

    def file(self, name, size=0, mode=0o644):
        with open(self.path(name), "wb") as f:
            f.write(bytes(size))
        os.chown(self.path(name), KEEPER, KEEPER)
        os.chmod(self.path(name), mode)

    def end(self, said):
        with open(f"/proc/{self.pid}/fd/{self.pipe}", "wb", buffering=0) as f:
            f.write(said)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # the worker has done it: it heard enough
            pass
        self.thread.join(60)
        return self.answer


RESULT = struct.pack("=6I4Q512s", 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, b"")  # struct unpacker_record: it went well
TREE = many_files()


@test("P28 the unpacker has its source, its directory and two pipes, and no way to write to its source")
def test_p28_the_unpacker_has_its_source_its_directory():
    u = Unpacker(TREE)
    for fd, at in u.fds.items():
        own = at.startswith("pipe:") or at.endswith("/upload") or "/image" in at.split("/tmp/")[-1]
        check(fd <= 2 or own, f"descriptor {fd} is {at}")
    source = next(fd for fd, at in u.fds.items() if at.endswith("/upload"))
    with open(f"/proc/{u.pid}/fdinfo/{source}") as f:
        flags = int(dict(line.split(None, 1) for line in f)["flags:"], 8)
    equal(flags & os.O_ACCMODE, os.O_RDONLY, "how the source is open")
    check(u.end(b"").status >= 400, "nothing is stored of an unpacker that dies")


@test("P28 the unpacker cannot say which digest, size or environment its image has")
def test_p28_the_unpacker_cannot_say_which_digest_size():
    chosen = "0123456789abcdef" * 4
    line = json.dumps({"info": {"digest": chosen, "size_bytes": 1, "files": 1, "skipped": 0,
                                "env": ["LD_PRELOAD=/evil.so"], "workdir": "", "user": "", "cmd": [], "layers": []}})
    for said in (line.encode() + b"\n", line.encode().ljust(4096, b"\n"), b"\xff" * 8192, RESULT + RESULT, RESULT[:-1],
                 RESULT + b"x"):
        a = Unpacker(TREE).end(said)
        check(a.status >= 500, a)
        check(d.get("/v1/images/sha256:" + chosen).status == 404, "a digest of the unpacker's choice")
    u = Unpacker(TREE)
    u.file("rootfs/fat", 32 << 20)
    a = u.end(RESULT)
    equal((a.status, a.json["digest"]), (200, hashlib.sha256(TREE).hexdigest()), a)
    check(a.json["size_bytes"] >= 32 << 20, a)


@test("P28 the worker refuses what the unpacker could leave in a root file system and no image may hold")
def test_p28_the_worker_refuses_what_the_unpacker_could():
    def setuid(u):
        u.file("rootfs/su", mode=0o4755)

    def fifo(u):
        os.mkfifo(u.path("rootfs/fifo"))
        os.chown(u.path("rootfs/fifo"), KEEPER, KEEPER)

    def whiteout(u):
        u.file("rootfs/hidden")
        os.setxattr(u.path("rootfs/hidden"), "user.overlay.whiteout", b"y")

    def beside(u):
        u.file("beside", 1 << 20)

    def replaced(u):
        os.rename(u.path("rootfs"), u.path("other"))
        os.symlink("/etc", u.path("rootfs"))

    for what, word in ((setuid, "su"), (fifo, "fifo"), (whiteout, "hidden"), (beside, "exactly one root"),
                       (replaced, "exactly one root")):
        u = Unpacker(b"".join((TREE, what.__name__.encode())))
        what(u)
        a = u.end(RESULT)
        check(a.status >= 400 and word in a.json["error"]["message"], (what.__name__, a))


def two_owners():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, kind in (("etc/file", tarfile.REGTYPE), ("etc/link", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.uid, info.gid, info.mode = kind, "file", 1000, 1000, 0o640
            t.addfile(info)
    return out.getvalue()


AT_FDCWD, AT_EMPTY_PATH, O_PATH = -100, 0x1000, 0o10000000


@test("P28 an unpacker that was taken over changes nothing of another image: no owner, mode, time, attribute or size")
def test_p28_an_unpacker_that_was_taken_over_changes():
    a = d.put("/v1/images/tar?name=first&format=rootfs-tar", two_owners())
    equal(a.status, 200, a)
    root = next(at for at, dirs, _ in os.walk(f"{d.state}/images") if a.json["digest"] in at and "rootfs" in dirs) + "/rootfs/etc/"
    inner = root.replace(f"{d.state}/images", "/images")
    looks = lambda: [(os.lstat(root + n), os.listxattr(root + n, follow_symlinks=False)) for n in ("", "file", "link")]
    before = looks()
    equal([st.st_uid for st, _ in before], [KEEPER, KEEPER + 1, KEEPER + 1], "owners of files and of links are those of the archive")
    u = Unpacker(TREE + b"taken over")
    rights = sum(1 << n for n in RIGHTS.values())
    confined(u.pid, "unpacker", rights, rights)
    times = "hex:" + struct.pack("=4q", 1, 0, 1, 0).hex()
    for name in ("", "file", "link"):
        path = "text:" + inner + name
        fd = take_over(u.pid, 257, AT_FDCWD, path, O_PATH)
        check(fd >= 0, f"control: {inner}{name} can be named from there: {fd}")
        for what, call in {
            "chmod": (90, path, 0o4777), "fchmodat": (268, AT_FDCWD, path, 0o4777), "fchmodat2": (452, fd, "text:", 0o4777, AT_EMPTY_PATH),
            "fchmod": (91, fd, 0o4777), "chown": (92, path, 0, 0), "lchown": (94, path, 0, 0), "fchown": (93, fd, 0, 0),
            "fchownat": (260, AT_FDCWD, path, 0, 0, 0x100), "fchownat of a descriptor": (260, fd, "text:", 0, 0, AT_EMPTY_PATH),
            "utime": (132, path, 0), "utimes": (235, path, 0), "futimesat": (261, AT_FDCWD, path, 0),
            "utimensat": (280, AT_FDCWD, path, times, 0x100), "utimensat of a descriptor": (280, fd, "text:", times, AT_EMPTY_PATH),
            "futimens": (280, fd, 0, times, 0), "setxattr": (188, path, "text:user.x", "text:x", 1, 0),
            "lsetxattr": (189, path, "text:user.x", "text:x", 1, 0), "fsetxattr": (190, fd, "text:user.x", "text:x", 1, 0),
            "truncate": (76, path, 5), "open to read": (257, AT_FDCWD, path, 0), "open to write": (257, AT_FDCWD, path, 1),
            "rename": (82, path, path + "2"), "unlink": (87, path), "link": (86, path, f"text:{inner}more"),
            "mknod": (133, f"text:{inner}more", 0o100644, 0), "mkdir": (83, f"text:{inner}more", 0o755),
            "symlink": (88, "text:x", f"text:{inner}more"),
        }.items():
            answer = take_over(u.pid, *call)
            check(answer < 0, f"{what} of '{name}' of another image works: {answer}")
        equal(looks(), before, f"another image, after what was tried on '{name}'")
    check(u.end(b"").status >= 400, "nothing is stored of an unpacker that dies")


main()
