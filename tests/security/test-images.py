#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes with an image, over every runtime that is here, by way of the API: what an image brings
harms nobody, what a sandbox writes is its own. Stores are made by hand. P27 of SECURITY.md;
test-image-roots.c has more hostile ones, under the warden alone."""
import atexit
import threading

from attempt import *
from images import *

busybox()

ALLOWED = tempfile.mkdtemp(prefix="mas-allowed-")
os.chmod(ALLOWED, 0o755)
atexit.register(shutil.rmtree, ALLOWED, ignore_errors=True)
os.mkdir(ALLOWED + "/sub")
with open(ALLOWED + "/sub/file", "w") as f:
    f.write("allowed\n")
d = shared_daemon("--mounts-allow", ALLOWED, "--kill-grace", "1s")
RUNTIMES = [r["name"] for r in d.get("/v1/status").json["runtimes"]
            if r["name"] in ("local", "crun", "runc", "gvisor") and r["available"]]
IMAGE = put_image(d, small)


def each(name):
    def add(fn):
        for runtime in RUNTIMES:
            test(f"{name} ({runtime})")(lambda runtime=runtime: fn(runtime))
        return fn
    return add


def sandbox(runtime, digest=IMAGE, daemon=d, **spec):
    return daemon.sandbox(runtime=runtime, image="sha256:" + digest, **spec)


@each("P27 the root is the image's, the tool is its user 1000, and the walls are reported as ever")
def test_p27_the_root_is_the_images_the_tool_is_its_user(runtime):
    with sandbox(runtime) as sb:
        equal(sb.sh("id -u; id -un; cat /etc/marker; stat -c %u /app /bin/sh; test -e /usr/bin/python3 || echo none")["stdout"],
              "1000\nsandbox\nimage\n1000\n0\nnone\n")
        with d.sandbox(runtime=runtime) as plain:
            for wall in ("filesystem", "network", "syscalls", "users", "landlock", "disk"):
                equal(sb.created["effective"][wall], plain.created["effective"][wall], wall)
        equal(d.get(sb.path).json["image_digest"], IMAGE)


@each("P27 two sandboxes share an image and see nothing of each other; the image does not change")
def test_p27_two_sandboxes_share_an_image_and_see_nothing(runtime):
    before = hash_of(rootfs_of(d, IMAGE))
    with sandbox(runtime) as one, sandbox(runtime) as two:
        equal(one.sh("echo mine > /app/file; echo new > /app/new; rm -r /app/dir; cat /app/file; ls /app")["stdout"],
              "mine\nfile\nnew\n")
        equal(two.sh("cat /app/file; ls /app")["stdout"], "lower\ndir\nfile\n")
    with sandbox(runtime) as three:
        equal(three.sh("cat /app/file; ls /app")["stdout"], "lower\ndir\nfile\n")
    equal(hash_of(rootfs_of(d, IMAGE)), before, "the image")


@each("P27 nothing is gained by set-user-id programs, and root's files are root's")
def test_p27_nothing_is_gained_by_set_user_id_programs(runtime):
    equal(os.stat(rootfs_of(d, IMAGE) + "/bin/suid").st_mode & 0o7777, 0o6755, "control: it is set-user-id")
    with sandbox(runtime) as sb:
        # busybox takes its applet's name from argv[0], so a shell calls it by other names
        out = sb.sh("ln -s /bin/suid /tmp/id; ln -s /bin/suid /tmp/cat; /tmp/id -u; /tmp/cat /root/secret; cat /root/secret;"
                    "cp /bin/suid /app/id; chmod 6755 /app/id; /app/id -u; echo x > /etc/new; echo x > /bin/sh; rm /etc/marker; mkdir /new")
        equal(out["stdout"], "1000\n1000\n", out)
        equal(sb.sh("cat /etc/marker; ls / | tr '\\n' ' '")["stdout"].splitlines()[0], "image")
        check("new" not in sb.sh("ls / /etc")["stdout"], "something was made in a directory of root's")


@each("P27 what goes above an image is in the disk's budget")
def test_p27_what_goes_above_an_image_is_in_the_disk(runtime):
    with sandbox(runtime, limits={"disk_mb": 16}) as sb:
        v = sb.sh("dd if=/dev/zero of=/app/big bs=1M count=64 2>&1; stat -c %s /app/big")
        check("No space" in v["stdout"], v)
        check(int(v["stdout"].split()[-1]) <= 16 << 20, v)


HOSTILE = {
    "proc": lambda root: os.symlink("etc", root + "/proc"),
    "dev": lambda root: os.symlink("/", root + "/dev"),
    "mas": lambda root: os.symlink("/", root + "/.mas"),
    "runner": lambda root: write(root, ".mas/mas-toolrunner", "#!/bin/sh\necho stolen\n", 0o755),
    "workspace": lambda root: write(root, "workspace", "a file\n"),
    "tmp": lambda root: os.symlink("/etc", root + "/tmp"),
    "home": lambda root: os.symlink("../../../../../../../../etc", root + "/home/sandbox"),
    "var": lambda root: (shutil.rmtree(root + "/var"), os.symlink("/", root + "/var")),
    "etc": lambda root: (shutil.rmtree(root + "/etc"), os.symlink("../../../../../../../../etc", root + "/etc")),
    "sys": lambda root: write(root, "sys/kernel/x", "x\n"),
    "passwd": lambda root: (os.unlink(root + "/etc/passwd"), os.symlink("../../../../../../../../etc/shadow", root + "/etc/passwd")),
}
# A process that follows a link of these images on the host comes to a tree of the test's own, where everything that changes shows.
# The host's own places change whenever something is installed beside the test.
OUTSIDE = tempfile.mkdtemp(prefix="mas-outside-")
atexit.register(shutil.rmtree, OUTSIDE, ignore_errors=True)
for made in ("etc", "kernel", "tmp", "sandbox"):
    os.mkdir(f"{OUTSIDE}/{made}")
    os.chmod(f"{OUTSIDE}/{made}", 0o1777)
for made in ("passwd", "shadow", "group", "hosts", "mas-toolrunner", "etc/passwd"):
    with open(f"{OUTSIDE}/{made}", "w") as f:
        f.write("root:$outside:0:0::/:/bin/sh\n")
    os.chmod(f"{OUTSIDE}/{made}", 0o666)
os.chmod(OUTSIDE, 0o1777)


def lead_outside(root, up, places):
    """Each of the places is a link to the tree outside, as the host's root sees it."""
    for place in places:
        path = f"{root}/{place}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        os.symlink(up + OUTSIDE + ("/passwd" if place.startswith("etc/") else ""), path)
        check(os.stat(path).st_mode & 0o002, "control: a process that follows it on the host may write there")


for up in ("", "../" * 20):
    for places in ("proc dev sys .mas workspace cache tmp home var etc",
                   "home/sandbox var/tmp etc/passwd etc/group etc/hosts etc/resolv.conf .mas/mas-toolrunner"):
        HOSTILE[f"links to {up[:3]}{OUTSIDE}: {places}"] = lambda root, up=up, places=places: lead_outside(root, up, places.split())
NAME = "mine-" + os.path.basename(OUTSIDE)
LOOK = ("id -u; cat /proc/self/comm; echo > /dev/null && for d in /workspace /tmp /home/sandbox /cache /var/tmp /dev/shm;"
        f" do echo w > $d/{NAME} && cat $d/{NAME}; done; grep -c '^sandbox:' /etc/passwd; grep -c '^root:.*[$]' /etc/passwd;"
        " touch /.mas/x 2>/dev/null || echo sealed")
SEEN = "1000\ncat\nw\nw\nw\nw\nw\nw\n1\n0\nsealed\n"


@each("P27 hostile places in an image are hidden, not followed")
def test_p27_hostile_places_in_an_image_are_hidden(runtime):
    outside = hash_of(OUTSIDE)
    for number, (name, change) in enumerate(HOSTILE.items(), 1):
        digest = digest_of(small, number)
        if not os.path.exists(rootfs_of(d, digest)):
            put_image(d, small, number=number, change=change)
        before = hash_of(rootfs_of(d, digest))
        with sandbox(runtime, digest) as sb:
            equal(sb.sh(LOOK)["stdout"], SEEN, name)
        equal(hash_of(rootfs_of(d, digest)), before, name)
        equal(hash_of(OUTSIDE), outside, f"the host, after an image with {name}")
    equal([p for p in ("/", "/etc", "/home", "/tmp", "/var", "/var/tmp", "/dev") if os.path.lexists(f"{p}/{NAME}")], [], "the host")


@each("P27 a mount goes where the image has a directory or nothing, and nowhere else")
def test_p27_a_mount_goes_where_the_image_has_a_directory(runtime):
    def spec(target):
        return [{"source": ALLOWED + "/sub", "target": target, "read_only": True}]
    for target in ("/data", "/opt/deep/in", "/app/dir", "/workspace/in"):
        with sandbox(runtime, mounts=spec(target)) as sb:
            equal(sb.sh(f"cat {target}/file /app/file")["stdout"], "allowed\nlower\n", target)
    for target in ("/app/file", "/bin/sh/x"):
        a = d.post("/v1/sandboxes", {"runtime": runtime, "image": "sha256:" + IMAGE, "mounts": spec(target)})
        check(a.status >= 400 and target in a.json["error"]["message"], a)


@each("P27 an image that is moved away or removed harms nobody")
def test_p27_an_image_that_is_moved_away_or_removed_harms(runtime):
    digest = put_image(d, small, number=100 + RUNTIMES.index(runtime))
    top = os.path.dirname(rootfs_of(d, digest))
    with sandbox(runtime, digest) as sb:
        sb.sh("echo mine > /app/file")
        os.rename(top, top + ".away")
        equal(sb.sh("cat /app/file /etc/marker")["stdout"], "mine\nimage\n")
        shutil.rmtree(top + ".away")
        sb.sh("ls /app; cat /etc/marker; echo x > /app/file")
    with sandbox(runtime) as other:
        equal(other.sh("cat /etc/marker")["stdout"], "image\n")
    a = d.post("/v1/sandboxes", {"runtime": runtime, "image": "sha256:" + digest})
    check(a.status in (403, 404, 409, 422) and digest in a.json["error"]["message"], a)


@each("P27 one-shots, twenty at once, each with the image as it is")
def test_p27_one_shots_twenty_at_once_each_with_the_image(runtime):
    n = 4 if runtime == "gvisor" else 20
    out = [None] * n

    def run(i):
        out[i] = d.run("sh", "-c", f"cat /app/file; echo {i} > /app/file; cat /app/file", runtime=runtime, image="sha256:" + IMAGE)["stdout"]
    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    equal(out, [f"lower\n{i}\n" for i in range(n)])


@each("P27 a sandbox with an image outlives its control plane")
def test_p27_a_sandbox_with_an_image_outlives_its_control(runtime):
    with sandbox(runtime) as sb:
        sb.sh("echo kept > /app/file")
        d.kill_control()
        equal(sb.sh("cat /app/file /etc/marker")["stdout"], "kept\nimage\n")
        equal(d.get(sb.path).json["image_digest"], IMAGE)


def metric(daemon, name):
    for line in daemon.get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return int(line.split()[1])
    raise AssertionError(f"no metric {name}")


def daemon_with(*flags, number=0, **info):
    """One whose sandboxes have an image unless they say otherwise."""
    pooled = Daemon(*flags, "--image", "sha256:" + digest_of(small, number))
    pooled.state = os.path.join(pooled.dir, "state")
    put_image(pooled, small, number=number, **info)
    return pooled


@test("P27 pooled sandboxes with an image are each given to one caller, as the image is")
def test_p27_pooled_sandboxes_with_an_image_are_each():
    with daemon_with("--warm-pool-size", "3") as p:
        wait_for(lambda: metric(p, "sandbox_warm_pool_ready") == 3, "they are ready")
        seen = [p.run("sh", "-c", "cat /app/file; echo used > /app/file; cat /etc/marker")["stdout"] for _ in range(3)]
        equal(seen, ["lower\nimage\n"] * 3)
        hits = metric(p, "sandbox_warm_pool_hits_total")
        check(hits >= 1, "none came from the pool")
        wait_for(lambda: metric(p, "sandbox_warm_pool_ready") == 3, "they are ready again")
        hits = metric(p, "sandbox_warm_pool_hits_total")
        other = put_image(p, small, number=1)
        equal(p.run("cat", "/etc/marker", image="sha256:" + other)["stdout"], "image\n")
        check("image" not in p.run("sh", "-c", "cat /etc/marker; ls /usr/bin/python3", image="")["stdout"], "the host's view")
        equal(metric(p, "sandbox_warm_pool_hits_total"), hits, "another image, or none, is no pooled one's")


@test("P27 an image says where commands start and with what in their environment, and no more")
def test_p27_an_image_says_where_commands_start():
    with daemon_with(env=["PATH=/bin", "LANG=C", "HOME=/root", "A=image"], workdir="/app", user="0", cmd=["/bin/false"]) as p:
        with p.sandbox(env={"B": "spec"}) as sb:
            equal(sb.sh("pwd; id -u; echo $A $B $PATH $HOME")["stdout"], "/app\n1000\nimage spec /bin /home/sandbox\n")
    with daemon_with(number=2, workdir="/") as p:
        equal(p.run("pwd")["stdout"], "/\n")


@test("P27 the tools of the daemon work where an image is the default")
def test_p27_the_tools_of_the_daemon_work_where_an_image():
    with daemon_with() as p:
        def call(tool, args, **more):
            return p.post("/v1/sandbox/execute", dict({"tool": {"name": tool, "args": args}}, **more)).json
        equal(call("calculator", {"expression": "6*7"})["result"]["result"], 42)
        equal(call("shell", {"command": "cat /etc/marker"})["result"]["stdout"], "image\n")
        answer = call("fetch", {"url": "http://127.0.0.1:9/"}, policy={"AllowNetwork": True})
        text = json.dumps(answer)
        check("mas-tool-net" not in text and "image" not in text, "the helper of the network's tools: " + text)


@each("P27 the default image, unpacked by the daemon itself")
def test_p27_the_default_image_unpacked_by_the_daemon(runtime):
    a = d.post("/v1/run", {"runtime": runtime, "image": "default", "command": ["sh", "-c", "id -un; echo x > /workspace/x && cat /workspace/x;"
                           "awk 'BEGIN { print 6 * 7 }'; touch /usr/bin/x /etc/x 2>/dev/null || echo held; bash -c 'echo $BASH'"]})
    if a.status == 404:
        raise Skip("there is no default image")
    equal((a.status, a.json.get("stdout")), (200, "sandbox\nx\n42\nheld\n/usr/bin/bash\n"), a)


@test("P27 an image that is not there is refused by its name")
def test_p27_an_image_that_is_not_there_is_refused():
    for runtime in RUNTIMES:
        a = d.post("/v1/sandboxes", {"runtime": runtime, "image": "sha256:" + "7" * 64})
        check(400 <= a.status < 500 and "7" * 64 in a.json["error"]["message"], a)


@test("P27 no mount, loop device or file is left")
def test_p27_no_mount_loop_device_or_file_is_left():
    def mounts():
        with open("/proc/self/mounts") as f:
            return [line for line in f if d.state in line]
    equal(mounts(), [])
    wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == 0, "all are gone")
    names = set(os.listdir(os.path.join(d.state, "images/store")))
    check(all(len(n) == 64 for n in names), names)


main()
