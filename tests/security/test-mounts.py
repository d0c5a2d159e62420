#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Host directories in sandboxes: only what the operator listed, and nothing that is hidden in it."""
import struct

from attempt import *

HOST = tempfile.mkdtemp(prefix="mas-mounts-")
OWNER = 12345  # of the host directory; nobody on this host
os.chmod(HOST, 0o755)
for name in ("project/sub", "other", "roots", "project/empty"):
    os.makedirs(os.path.join(HOST, name))
project = os.path.join(HOST, "project")


def put(path, text, mode=0o644, owner=OWNER):
    path = os.path.join(HOST, path)
    with open(path, "w") as f:
        f.write(text)
    os.chown(path, owner, owner)
    os.chmod(path, mode)
    return path


put("project/file", "of the project")
put("project/private-of-root", "root's own", 0o600, 0)
put("other/secret", "not listed")
put("roots/file", "root's", 0o644, 0)
os.symlink("/etc", project + "/etc-link")
os.symlink("../other", project + "/other-link")
os.symlink(HOST + "/other/secret", project + "/secret-link")
for p in (project, project + "/sub", project + "/empty"):
    os.chown(p, OWNER, OWNER)

d = Daemon(config=f"mounts:\n  allow:\n    - {project}\n    - {HOST}/roots\n").start()


def refuse(source, target="/workspace/in", code=None, word=None, **more):
    a = d.post("/v1/sandboxes", {"mounts": [dict(source=source, target=target, **more)]})
    check(400 <= a.status < 500, f"mount of {source} on {target} was not refused: {a}")
    if code:
        equal(a.json["error"]["code"], code, f"{source} on {target}: {a}")
    check(not word or word in a.json["error"]["message"], a)


def mounted(source=project, target="/workspace/in", read_only=False):
    read_only = read_only or GVISOR  # elsewhere tried with more rights
    sb = d.sandbox(mounts=[dict(source=source, target=target, read_only=read_only)])
    put_attack(sb)
    return sb


@test("P16 a listed directory is there (the control of what follows)")
def test_p16_a_listed_directory_is_there_the_control():
    with mounted() as sb:
        equal(sb.sh("cat /workspace/in/file")["stdout"], "of the project")
        if on_gvisor("who serves its files has ids that owner maps do not know: to write to, they are refused", True, False):
            return refuse(project, code="unsupported", word="read_only", read_only=False)
        equal(sb.sh("echo new > /workspace/in/sub/new && cat /workspace/in/sub/new")["stdout"],
              "new\n")
        equal(os.stat(project + "/sub/new").st_uid, OWNER, "the new file's owner on the host")


@test("P16 a directory that is not listed")
def test_p16_a_directory_that_is_not_listed():
    for path in (HOST + "/other", HOST, "/", "/etc", "/root", "/proc", project + "x"):
        refuse(path, code="policy_denied", word="mounts.allow")


@test("P16 up from a listed directory: ..")
def test_p16_up_from_a_listed_directory():
    for path in ("/..", "/../other", "/sub/../../other", "/./../other", "//..//other"):
        refuse(project + path)


@test("P16 a symlink in a listed directory, as the source")
def test_p16_a_symlink_in_a_listed_directory():
    for path in ("/etc-link", "/other-link", "/etc-link/ssl", "/secret-link"):
        refuse(project + path)


@test("P16 a symlink in a listed directory, followed from inside")
def test_p16_a_symlink_in_a_listed_directory_followed():
    with mounted() as sb:
        for link in ("other-link/secret", "secret-link"):
            works("read", f"{project}/{link}")
            refused(sb, "read", f"/workspace/in/{link}", errors="ENOENT EACCES")


@test("P16 a directory that becomes a symlink after it was checked")
def test_p16_a_directory_that_becomes_a_symlink():
    for _ in range(5):
        path = project + "/swap"
        os.mkdir(path)
        os.chown(path, OWNER, OWNER)
        with mounted(path) as sb:
            os.rename(path, path + "-away")
            os.symlink(HOST + "/other", path)
            equal(sb.sh("find /workspace/in -mindepth 1")["stdout"], "", "the sandbox keeps what it was given")
            refuse(path)
        os.unlink(path)
        os.rmdir(path + "-away")


@test("P16 a target over the system's directories")
def test_p16_a_target_over_the_system_directories():
    for target in ("/usr", "/usr/bin", "/etc", "/etc/ssl", "/proc", "/proc/1", "/dev", "/dev/shm",
                   "/.mas", "/.mas/run", "/sys", "/run", "/", "/workspace/../usr", "/bin"):
        refuse(project, target)


@test("P16 a target over a parent of the disk's places, which it would hide")
def test_p16_a_target_over_a_parent_of_the_disk_places():
    with d.sandbox() as sb:
        places = [line.split()[1] for line in sb.sh("cat /proc/mounts")["stdout"].splitlines()]
    parents = {p for place in places for p in [os.path.dirname(place)] if p not in ("/", "/proc", "/dev")}
    check({"/var", "/home"} <= parents, f"control: {parents}")
    for target in parents:
        refuse(project, target)


@test("P16 a target that runs through a link of the system's")
def test_p16_a_target_that_runs_through_a_link():
    refuse(project, "/var/run/x")


@test("P9 a set-user-ID program in a listed directory")
def test_p9_a_set_user_id_program_in_a_listed_directory():
    shutil.copy(ATTACK, project + "/suid")
    os.chown(project + "/suid", 0, 0)
    os.chmod(project + "/suid", 0o4755)
    p = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                        project + "/suid", "euid-root"])
    equal(p.returncode, 0, "control: outside it is root")
    with mounted() as sb:
        equal(inside(sb, "euid-root", path="/workspace/in/suid")[0], 1)
    os.unlink(project + "/suid")


@test("P9 a program with file capabilities in a listed directory")
def test_p9_a_program_with_file_capabilities_in_a_listed():
    path = project + "/capable"
    shutil.copy(ATTACK, path)
    os.chmod(path, 0o755)
    # struct vfs_cap_data, version 2, effective: CAP_NET_RAW
    os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", path]
    equal(subprocess.run(argv + ["has-capability"]).returncode, 0, "control: outside it has it")
    with mounted() as sb:
        equal(inside(sb, "has-capability", path="/workspace/in/capable")[0], 1)
        equal(inside(sb, "socket", 17, 3, 0x300, path="/workspace/in/capable")[0], 1)
    os.unlink(path)


@test("P8 a device node in a listed directory")
def test_p8_a_device_node_in_a_listed_directory():
    path = project + "/zero"
    os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))
    os.chmod(path, 0o666)
    works("read", path, user=65534)
    with mounted() as sb:
        refused(sb, "read", "/workspace/in/zero", errors="EACCES EPERM")
        refused(sb, "mknod", "/workspace/in/mine", "c", 1, 5, errors="EPERM EACCES")
    os.unlink(path)


@test("P16 read-only is read-only")
def test_p16_read_only_is_read():
    with mounted(read_only=True) as sb:
        refused(sb, "create", "/workspace/in/new", errors="EROFS EACCES")
        refused(sb, "write", "/workspace/in/file", "x", errors="EROFS EACCES")
        refused(sb, "remount", "/workspace/in", errors="EPERM")
        refused(sb, "umount", "/workspace/in", errors="EPERM")
    with open(project + "/file") as f:
        equal(f.read(), "of the project")


@test("P16 root's files in a listed directory stay root's")
def test_p16_root_files_in_a_listed_directory_stay_roots():
    with mounted() as sb:
        refused(sb, "read", "/workspace/in/private-of-root", errors="EACCES EPERM")
    with mounted(HOST + "/roots") as sb:
        equal(inside(sb, "read", "/workspace/in/file")[0], 0, "what all may read can be read")
        refused(sb, "write", "/workspace/in/file", "x", errors="EACCES EPERM EROFS")
        refused(sb, "create", "/workspace/in/new", errors="EACCES EPERM EROFS")


@test("P16 what is mounted below a listed directory does not come along")
def test_p16_what_is_mounted_below_a_listed_directory():
    p = subprocess.run(["mount", "-t", "tmpfs", "mas-below", project + "/empty"])
    equal(p.returncode, 0, "mount")
    try:
        with open(project + "/empty/below", "w") as f:
            f.write("x")
        with mounted() as sb:
            equal(sb.sh("find /workspace/in/empty -mindepth 1")["stdout"], "")
    finally:
        subprocess.run(["umount", project + "/empty"])


def refused_whole(answer, secret):
    """Its kernel has no Landlock, which a call's paths need: such a call is not made at all."""
    check(answer["status"] == "error" and "(narrow)" in answer["error"]["message"], answer)
    equal(answer["exit_code"], 126)
    check(secret not in json.dumps(answer), answer)


@test("P16 policies: file_system keeps to its paths, whatever links say")
def test_p16_policies_file_system_keeps_to_its_paths():
    with d.sandbox() as sb:
        sb.sh("mkdir /workspace/ok; ln -s /etc/passwd /workspace/ok/link; ln -s / /workspace/ok/root;"
              " echo fine > /workspace/ok/file")

        def read(path):
            return d.post("/v1/sandbox/execute", {
                "sandbox_id": sb.id, "tool": {"name": "file_system",
                                              "args": {"action": "read", "path": path}},
                "policy": {"AllowedPaths": ["/workspace/ok"]}}).json
        if on_gvisor("its kernel has no Landlock", True, False):
            return refused_whole(read("/workspace/ok/file"), "fine")
        equal(read("/workspace/ok/file")["result"]["content"], "fine\n", "control")
        for path in ("/etc/passwd", "/workspace/ok/link", "/workspace/ok/root/etc/passwd",
                     "/workspace/ok/../../etc/passwd", "/proc/self/root/etc/passwd"):
            r = read(path)
            check(r["status"] == "error" and "root:x" not in json.dumps(r), f"{path}: {r}")


@test("P16 policies: a command cannot leave the paths of its call")
def test_p16_policies_a_command_cannot_leave_the_paths():
    with d.sandbox() as sb:
        sb.sh("mkdir /workspace/in /workspace/out; echo secret > /workspace/out/secret;"
              " ln -s /workspace/out/secret /workspace/in/link")

        def run(command):
            return d.post("/v1/sandbox/execute", {
                "sandbox_id": sb.id, "tool": {"name": "shell", "args": {"command": command}},
                "policy": {"AllowedPaths": ["/workspace/in"]}}).json
        if on_gvisor("its kernel has no Landlock", True, False):
            return refused_whole(run("cat /workspace/out/secret"), "secret\n")
        equal(run("echo x > /workspace/in/x && cat /workspace/in/x")["exit_code"], 0, "control")
        for command in ("cat /workspace/out/secret", "cat /workspace/in/link", "ls /workspace/out",
                        "cat /proc/1/root/workspace/out/secret",
                        "cd /workspace/in; cat ../out/secret", "echo x > /tmp/x",
                        "mv /workspace/in/x /workspace/out/x"):
            r = run(command)
            check(r.get("exit_code") != 0 and "secret\n" not in json.dumps(r), f"{command}: {r}")


@test("P16 policies: a command cannot borrow another process's view")
def test_p16_policies_a_command_cannot_borrow_another():
    with d.sandbox() as sb:
        put_attack(sb, "/workspace/in/attack")
        sb.sh("mkdir -p /workspace/out; echo secret > /workspace/out/secret")
        d.post(sb.path + "/exec", {"async": True, "command": [
            "/bin/sh", "-c", "cd /workspace/out; exec 3<secret; exec sleep 662607015"]})
        wait_for(lambda: running(sb, "sleep 662607015"), "the other process")
        pid = sb.sh("pgrep -f 662607015")["stdout"].split()[0]
        equal(sb.sh(f"cat /proc/{pid}/fd/3")["stdout"], "secret\n", "control: without a policy")
        for command in (f"cat /proc/{pid}/fd/3", f"cat /proc/{pid}/cwd/secret",
                        f"cat /proc/{pid}/root/workspace/out/secret",
                        f"/workspace/in/attack ptrace {pid}", f"/workspace/in/attack read /proc/{pid}/mem",
                        f"/workspace/in/attack pidfd-getfd {pid} 3"):
            r = d.post("/v1/sandbox/execute", {
                "sandbox_id": sb.id, "tool": {"name": "shell", "args": {"command": command}},
                "policy": {"AllowedPaths": ["/workspace/in"]}}).json
            check(r.get("exit_code") != 0 and "secret\n" not in json.dumps(r), f"{command}: {r}")
            if GVISOR:
                refused_whole(r, "secret\n")


try:
    main()
finally:
    d.__exit__()
    shutil.rmtree(HOST, ignore_errors=True)
