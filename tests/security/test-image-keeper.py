#!/usr/bin/python3
"""What fetches and unpacks images has no rights over anything but images. P28 of SECURITY.md; what
archives and manifests try is in tests/image."""
import io
import tarfile
import threading

from attempt import *

KEEPER, NOBODY = 64216, 64218
RIGHTS = {"chown": 0, "dac_override": 1, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7}

silent = socket.create_server(("127.0.0.1", 0))  # a registry that never answers
REGISTRY = "127.0.0.1:%d" % silent.getsockname()[1]
d = shared_daemon("-images-registries", REGISTRY, "-images-insecure-registries", REGISTRY,
                  "-images-pull-timeout", "20s")
d.get("/v1/images")


def below(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


def find(word):
    """The newest process below the daemon with the word in its command line."""
    found, todo = None, [d.process.pid]
    for pid in todo:
        todo += below(pid)
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                found = pid if word in f.read().split("\0") else found
        except OSError:
            pass
    return found


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def inside(pid, uid, *argv):
    """As that process would see it, without its Landlock and seccomp."""
    return subprocess.run(["nsenter", "-t", str(pid), "-m", "-S", str(uid), "-G", str(uid), "--", *argv],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


@test("P28 the keeper is nobody on the host: an id of its own, a user namespace, few rights in it")
def _():
    s = status(find("--keeper-stage"))
    equal(set(s["Uid"].split() + s["Gid"].split()), {str(KEEPER)})
    equal((s["NoNewPrivs"], s["Seccomp"], s["Groups"].strip()), ("1", "2", ""))
    mask = sum(1 << n for n in RIGHTS.values())
    equal((int(s["CapEff"], 16), int(s["CapBnd"], 16), int(s["CapInh"], 16)), (mask, mask, 0))
    pid = find("--keeper-stage")
    for ns in ("user", "mnt"):
        check(os.readlink(f"/proc/{pid}/ns/{ns}") != os.readlink(f"/proc/self/ns/{ns}"), ns)
    with open(f"/proc/{pid}/uid_map") as f:
        equal([line.split() for line in f], [["0", "64216", "1"], ["1000", "64217", "1"], ["65534", "64218", "1"]])


@test("P28 the keeper sees programs and its own directory, and nothing else of the host")
def _():
    pid = find("--keeper-stage")
    check(subprocess.run(["cat", "/etc/shadow"], stdout=subprocess.DEVNULL).returncode == 0, "the control")
    equal(set(os.listdir(f"/proc/{pid}/root")) - {"lib64"}, {"dev", "etc", "images", "lib", "usr"})
    for path in ("/etc/shadow", "/etc/passwd", d.state + "/control/state.db", "/root", "/home", "/var", "/proc", "/sys"):
        check(inside(pid, KEEPER, "ls", path).returncode != 0, path)
    for path in ("/usr/x", "/etc/x", "/x", "/lib/x"):
        check(inside(pid, 0, "touch", path).returncode != 0, path)


@test("P28 the keeper has no directory open that is not in its root")
def _():
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

    equal(foreign(find("--keeper-stage")), [], "ways out of its root")


@test("P28 what speaks to registries may not even look at the store")
def _():
    thread = threading.Thread(target=d.post, args=("/v1/images/pull", {"image": REGISTRY + "/x"}), daemon=True)
    thread.start()
    wait_for(lambda: find("skopeo"), "the fetching program")
    pid = find("skopeo")
    s = status(pid)
    equal(set(s["Uid"].split() + s["Gid"].split()), {str(NOBODY)})
    equal((int(s["CapEff"], 16), int(s["CapPrm"], 16), s["NoNewPrivs"], s["Seccomp"]), (0, 0, "1", "2"))
    check(inside(pid, KEEPER, "ls", "/images/store").returncode == 0, "the control")
    for path in ("/images/store", "/images/names", "/images/tmp", "/images"):
        check(inside(pid, NOBODY, "ls", path).returncode != 0, path)
        check(inside(pid, NOBODY, "touch", path + "/x").returncode != 0, path)
    keeper = find("--keeper-stage")
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
def _():
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
        with Daemon("-images-registries", REGISTRY, "-images-insecure-registries", REGISTRY,
                    "-images-pull-timeout", "1s", command=command) as other:
            a = other.post("/v1/images/pull", {"image": REGISTRY + "/x:1"})
            check(a.status >= 400 and "not installed" not in a.body.decode(), a)
            equal(processes("sleep " + mark), [], "its children")
    finally:
        for p in processes("sleep " + mark):  # of a test that failed
            os.kill(p, signal.SIGKILL)
        shutil.rmtree(top, ignore_errors=True)


@test("P28 an archive that reaches out is refused by name, and nothing outside is touched")
def _():
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


main()
