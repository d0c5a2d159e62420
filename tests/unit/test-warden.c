/* SPDX-License-Identifier: Apache-2.0 */
/* The warden with a real control socket and real sandboxes: test-warden RUNNER. As root, and with
 * --user as an ordinary user; what needs root is then left out. --without-programs: on a host that
 * has no compilers and the like. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/unit/tap.h"
#include "tests/unit/warden-client.h"

#define MIB (1024ull * 1024)

static char state_dir[64], allowed_dir[64];
static struct client c;
static struct plan_reply can;
static int64_t started_ns;

static bool contains(const char *text, const char *part)
{
    bool found = strstr(text, part) != NULL;
    if (!found)
        printf("# wanted '%s' in: %.600s\n", part, text);
    return found;
}

static struct plan_reply create(struct plan *p, int *ret_fd)
{
    struct plan_reply r = client_call(&c, p, ret_fd);
    if (r.error)
        printf("# create: error %d wall %d: %s\n", r.error, r.wall, r.message);
    return r;
}

static int create_plain(const char *id)
{
    struct plan p = client_plan(PLAN_CREATE, id);
    int fd = -1;
    create(&p, &fd);
    return fd;
}

static void end(const char *id, int fd)
{
    struct plan p = client_plan(PLAN_KILL, id);
    struct plan_reply r = client_call(&c, &p, NULL);
    ok(r.error == 0 && client_wait_exited(&c, id, &r), "%s is killed and reported", id);
    close(fd);
}

static void test_life(void)
{
    struct plan p = client_plan(PLAN_CREATE, "life");
    struct plan_reply r;
    int fd = -1;
    strcpy(p.hostname, "my-box");
    r = create(&p, &fd);
    ok(r.error == 0 && r.pid > 0 && fd >= 0, "a sandbox is created");
    ok(contains(client_shell(fd, "uname -n; id -u; id -un; echo $$; cat /proc/1/comm"),
                "my-box\n1000\nsandbox\n"),
       "hostname and user are the sandbox's");
    p.tag = 0;
    r = client_call(&c, &p, NULL);
    ok(r.error == EEXIST, "the same id again is refused");
    p = client_plan(PLAN_STATS, "life");
    r = client_call(&c, &p, NULL);
    ok(r.error == 0 && r.disk_used_bytes < 10 * MIB, "stats are answered");
    ok(!can.mechanism[WALL_MEMORY] || r.memory_bytes > 0, "memory is counted");
    p = client_plan(PLAN_CONNECT, "life");
    int second = -1;
    r = client_call(&c, &p, &second);
    ok(r.error == 0 && second >= 0, "a second connection is handed out");
    ok(contains(client_shell(second, "echo again"), "again\nexit=0"), "it reaches the same runner");
    close(second);
    p = client_plan(PLAN_KILL, "life");
    client_call(&c, &p, NULL);
    ok(client_wait_exited(&c, "life", &r) && WIFSIGNALED(r.wait_status) &&
           WTERMSIG(r.wait_status) == SIGKILL,
       "its end is reported with the wait status");
    r = client_call(&c, &p, NULL);
    ok(r.error == ENOENT, "killing it again is ENOENT");
    close(fd);
    fd = create_plain("life");
    client_shell(fd, "!exit");
    ok(client_wait_exited(&c, "life", &r) && WIFEXITED(r.wait_status) &&
           WEXITSTATUS(r.wait_status) == 7,
       "a runner that exits is reported with its code");
    close(fd);
}

static void test_walls(void)
{
    int fd = create_plain("walls");
    const char *shared = can.mechanism[WALL_USERS] == MECHANISM_UID_SHARED ? "shared" : "";
    ok(contains(client_shell(fd, "ls /; ls /etc; cat /etc/shadow"), "No such file"),
       "the host's shadow file is not there");
    ok(contains(client_shell(fd, "ls -A /home /root /srv /opt /mnt /var; ls /sys"), "sandbox"),
       "other directories are empty");
    ok(contains(client_shell(
                    fd, "touch /usr/x /etc/x /x /bin/x /dev/x; echo a > /proc/sys/kernel/hostname"),
                "exit="),
       "system directories were tried");
    ok(contains(client_shell(fd, "touch /usr/x 2>&1; touch /x"), "Read-only file system"),
       "system directories are read-only");
    ok(contains(client_shell(fd, "for d in /workspace /tmp /home/sandbox /cache /dev/shm /var/tmp; "
                                 "do echo x > $d/f && cat $d/f; done"),
                "x\nx\nx\nx\nx\nx\nexit=0"),
       "the disk's places are writable");
    ok(contains(client_shell(fd, "cat /proc/net/dev | grep -c :"), "1\n"), "loopback is alone");
    ok(contains(client_shell(fd, "unshare -U true; unshare -m true"), "not permitted"),
       "no namespaces inside");
    ok(contains(client_shell(fd, "cat /proc/sys/user/max_user_namespaces"), "0\n"),
       "user namespaces are limited to 0");
    ok(contains(
           client_shell(fd, "grep -E 'CapEff|CapPrm|NoNewPrivs|Seccomp:' /proc/self/status"),
           "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"),
       "the tool has no capabilities, no new privileges and a filter");
    ok(contains(client_shell(fd, "!pid1 grep -E 'CapPrm|CapBnd' /proc/self/status"),
                shared[0] ? "CapPrm:\t0000000000000000\nCapBnd:\t0000000000000000"
                          : "CapPrm:\t00000000000000e0\nCapBnd:\t00000000000000e0"),
       "the runner has three capabilities at most");
    ok(contains(
           client_shell(
               fd, "mount -t tmpfs x /tmp; ls /proc/1/root/ /proc/1/fd; kill -9 1; echo alive"),
           "alive"),
       "mounting, looking into PID 1 and killing it were tried");
    ok(contains(client_shell(fd, "cat /proc/kcore /proc/keys /proc/timer_list | wc -c"), "0\n"),
       "masked files are empty");
    ok(contains(client_shell(fd, "ls /proc/self/fd | wc -l"), "4\n"), "no stray descriptors");
    end("walls", fd);
}

/* A small guest may lack some of these; make check's host has them all. */
static const struct {
    const char *program, *command, *wanted;
} programs[] = {
    {"python3",
     "python3 -c 'import socket,subprocess,threading,multiprocessing as m;p=m.Pool(2);"
     "print(sum(p.map(abs,[-1,-2])))'",
     "3\nexit=0"},
    {"node",
     "node -e 'require(\"fs\").promises.readFile(\"/etc/hosts\").then(b=>console.log(b.length>5))'",
     "true\nexit=0"},
    {"gcc", "cd /tmp && echo 'int main(){return 5;}' > a.c && gcc a.c -o a && ./a; echo $?", "5\n"},
    {"git",
     "cd /workspace && git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty "
     "-m x && git log --oneline | wc -l",
     "1\nexit=0"},
    {"script", "script -qc 'tty' /dev/null", "/dev/pts/0"},
    {"python3",
     "python3 - <<'X'\nimport socket\ns=socket.create_server(('127.0.0.1',0))\n"
     "c=socket.create_connection(s.getsockname());a,_=s.accept()\n"
     "c.send(b'hi');print(a.recv(9))\nX",
     "b'hi'"},
    {"strace", "strace -f true 2>&1 | tail -1", "exited with 0"},
    {"gdb", "gdb -q -batch -ex run -ex bt --args /bin/true 2>&1 | grep -c 'exited normally'",
     "1\n"},
};

static void test_programs(void)
{
    int fd = create_plain("programs");
    for (size_t i = 0; i < ELEMENTS(programs); i++) {
        const char *program = programs[i].program;
        if (!strstr(client_shell(fd, "command -v %s", program), "exit=0"))
            ok(true, "%s works # SKIP not installed", program);
        else
            ok(contains(client_shell(fd, "%s", programs[i].command), programs[i].wanted),
               "%s works", program);
    }
    end("programs", fd);
}

static void test_limits(void)
{
    struct plan p = client_plan(PLAN_CREATE, "limits");
    struct plan_reply r;
    int fd = -1;
    if (!can.mechanism[WALL_MEMORY]) {
        p.limits.memory_bytes = 64 * MIB;
        r = client_call(&c, &p, &fd);
        ok(r.error == EOPNOTSUPP && r.wall == WALL_MEMORY, "memory fails by name: %s", r.message);
        p.weaker[WALL_MEMORY] = 1;
        r = create(&p, &fd);
        ok(r.error == 0 && r.mechanism[WALL_MEMORY] == MECHANISM_NONE, "unless weaker is accepted");
        end("limits", fd);
        return;
    }
    p.limits = (struct limits){.memory_bytes = 128 * MIB,
                               .disk_bytes = 16 * MIB,
                               .disk_inodes = 256,
                               .cpu_millicores = 500,
                               .processes = 20,
                               .open_files = 64};
    r = create(&p, &fd);
    ok(r.error == 0 && r.mechanism[WALL_MEMORY] && r.mechanism[WALL_CPU] &&
           r.mechanism[WALL_PROCESSES] && r.mechanism[WALL_DISK] == MECHANISM_TMPFS,
       "limits are enforced by %s", mechanism_name(r.mechanism[WALL_MEMORY]));
    ok(contains(
           client_shell(fd, "head -c 40M /dev/zero > /workspace/big; stat -c %%s /workspace/big"),
           "No space left"),
       "the disk is full at its limit");
    ok(contains(
           client_shell(fd, "rm /workspace/big; for i in $(seq 400); do : > /tmp/f$i; done; echo"),
           "No space left"),
       "inodes run out at their limit");
    ok(contains(client_shell(fd, "rm -f /tmp/f*; for i in $(seq 40); do sleep 5 & done; wait"),
                "fork"),
       "processes run out at their limit");
    ok(contains(client_shell(fd, "ulimit -n; ulimit -c"), "64\n0\n"), "rlimits are set");
    ok(contains(client_shell(fd, "python3 -c 'b=bytearray(300<<20)'"), "exit=137"),
       "memory over the limit is an OOM kill");
    p = client_plan(PLAN_STATS, "limits");
    r = client_call(&c, &p, NULL);
    ok(r.oom_kills >= 1 && r.memory_peak_bytes > 64 * MIB && r.cpu_us > 0, "and is counted");
    p = client_plan(PLAN_FREEZE, "limits");
    r = client_call(&c, &p, NULL);
    ok(r.error == 0 || !(can.features & FEATURE_FREEZER), "it can be frozen");
    p.op = PLAN_THAW;
    r = client_call(&c, &p, NULL);
    ok(contains(client_shell(fd, "echo thawed"), "thawed"), "and thawed");
    p.op = PLAN_FREEZE;
    client_call(&c, &p, NULL);
    end("limits", fd);
}

static void test_unenforceable(void)
{
    struct plan p = client_plan(PLAN_CREATE, "weak");
    int fd = -1;
    if (can.mechanism[WALL_IO])
        return;
    p.limits.io_bytes_per_s = MIB;
    struct plan_reply r = client_call(&c, &p, &fd);
    ok(r.error == EOPNOTSUPP && r.wall == WALL_IO, "io fails by name: %s", r.message);
    p.weaker[WALL_IO] = 1;
    r = create(&p, &fd);
    ok(r.error == 0 && !r.mechanism[WALL_IO], "io is not claimed when weaker is accepted");
    end("weak", fd);
}

static void test_loop_disk(void)
{
    struct plan p = client_plan(PLAN_CREATE, "image");
    int fd = -1;
    p.limits.memory_bytes = 64 * MIB;
    p.limits.disk_bytes = 200 * MIB;
    struct plan_reply r = client_call(&c, &p, &fd);
    if (!(can.features & FEATURE_LOOP)) {
        ok(r.error == EOPNOTSUPP, "a disk beyond memory fails by name: %s", r.message);
        return;
    }
    ok(r.error == 0 && r.mechanism[WALL_DISK] == MECHANISM_LOOP, "a large disk is an image: %s",
       r.message);
    ok(contains(client_shell(fd, "head -c 150M /dev/zero > /workspace/big && echo fits; "
                                 "head -c 100M /dev/zero > /tmp/more"),
                "fits\n"),
       "more than memory fits on it");
    ok(contains(client_shell(fd, "head -c 100M /dev/zero > /tmp/more"), "No space left"),
       "and it is full at its limit");
    ok(contains(client_shell(fd, "stat -c '%%U %%a' /workspace /tmp /home/sandbox"),
                "sandbox 755\nroot 1777\nsandbox 755"),
       "owners are right");
    end("image", fd);
    fd = -1;
    r = client_call(&c, &p, &fd);
    ok(r.error == 0, "a second one comes from the template");
    ok(contains(client_shell(fd, "ls -A /workspace /tmp | grep -c -v :"), "1\n"), "and is empty");
    end("image", fd);
}

static int count_entries(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    if (d)
        closedir(d);
    return n;
}

/* Sends a create and, when the helper that formats its disk has made a file, a kill. */
static void cut_short(unsigned round, const char *prefix)
{
    struct plan p = client_plan(PLAN_CREATE, "cut");
    p.limits.memory_bytes = 64 * MIB;
    p.limits.disk_bytes = (300 + round) * MIB; /* of which there is no template */
    p.limits.disk_inodes = 65536;
    p.tag = ++c.tag;
    fd_send_msg(c.sock, &p, sizeof(p), NULL, 0);
    for (int i = 0; i < 1000000 && count_entries(state_dir, prefix) == 0; i++)
        continue;
    p = client_plan(PLAN_KILL, "cut");
    client_call(&c, &p, NULL);
    p = client_plan(PLAN_STATS, "cut");
    for (int i = 0; i < 6000 && client_call(&c, &p, NULL).error != ENOENT; i++)
        usleep(5 * 1000);
}

static void test_disk_cut_short(const char *prefix)
{
    if (!(can.features & FEATURE_LOOP))
        return;
    for (unsigned round = 0; round < 10; round++)
        cut_short(round, prefix);
    for (int i = 0; i < 1000 && count_entries(state_dir, prefix) > 0; i++)
        usleep(10 * 1000);
    ok(count_entries(state_dir, prefix) == 0,
       "creates that are cut short while their disks are formatted leave no file");
}

static struct plan mount_plan(const char *id, const char *subpath, const char *target, bool ro)
{
    struct plan p = client_plan(PLAN_CREATE, id);
    p.n_mounts = 1;
    p.mounts[0].read_only = ro;
    snprintf(p.mounts[0].subpath, sizeof(p.mounts[0].subpath), "%s", subpath);
    snprintf(p.mounts[0].target, sizeof(p.mounts[0].target), "%s", target);
    return p;
}

static void mount_refused(const char *subpath, const char *target, int error)
{
    struct plan p = mount_plan("mounts", subpath, target, false);
    int fd = -1;
    struct plan_reply r = client_call(&c, &p, &fd);
    ok(r.error == error && fd < 0, "mount of '%s' on '%s' is refused: %s", subpath, target,
       r.message);
    fd_close(&fd);
}

static void test_mounts(void)
{
    int fd = -1;
    struct plan p = mount_plan("mounts", "sub", "/workspace/in", false);
    ok(create(&p, &fd).error == 0, "an allowed directory is mounted below the disk");
    ok(contains(client_shell(fd, "cat /workspace/in/file; echo new > /workspace/in/made && cat "
                                 "/workspace/in/made; ls /workspace"),
                "content\nnew\nin\n"),
       "and can be read and written");
    end("mounts", fd);
    p = mount_plan("mounts", "", "/srv/project/deep", true);
    fd = -1;
    ok(create(&p, &fd).error == 0, "one is mounted where the template has no directory");
    ok(contains(client_shell(fd, "cat /srv/project/deep/sub/file; touch /srv/project/deep/sub/x"),
                "content\ntouch: cannot touch '/srv/project/deep/sub/x': Read-only"),
       "read-only as asked");
    ok(contains(client_shell(fd, "touch /x /srv/x; echo a > /workspace/a && cat /workspace/a; "
                                 "python3 -c 'print(1)'; ls /mnt /.mas/disk"),
                "a\n1\n/.mas/disk:\n\n/mnt:\nexit=0"),
       "the rest of the root is as ever");
    ok(contains(client_shell(fd, "touch /x"), "Read-only"), "and sealed");
    end("mounts", fd);
    p = mount_plan("mounts", "sub", "/workspace", false);
    fd = -1;
    ok(create(&p, &fd).error == 0, "one replaces /workspace");
    ok(contains(client_shell(fd, "cat file"), "content"), "as the working directory");
    end("mounts", fd);
    if (can.features & FEATURE_ROOT) {
        p = mount_plan("mounts", "owned", "/workspace", false);
        fd = -1;
        ok(create(&p, &fd).error == 0, "one of another user's, closed to strangers");
        ok(contains(client_shell(fd, "echo x > made && stat -c '%%U %%a' . made"),
                    "sandbox 700\nsandbox 644\nexit=0"),
           "is the tool's inside");
        struct stat st;
        char path[128];
        snprintf(path, sizeof(path), "%s/owned/made", allowed_dir);
        ok(stat(path, &st) == 0 && st.st_uid == 12345 && st.st_gid == 12345,
           "and what it makes is the owner's outside");
        end("mounts", fd);
    }
    mount_refused("link", "/workspace/in", ELOOP);
    mount_refused("link/x", "/workspace/in", ELOOP);
    mount_refused("absent", "/workspace/in", ENOENT);
    mount_refused("sub/file", "/workspace/in", ENOTDIR);
    mount_refused("sub", "/usr/in", EPERM);
    mount_refused("sub", "/etc", EPERM);
    mount_refused("sub", "/proc/x", EPERM);
    mount_refused("sub", "/.mas", EPERM);
    mount_refused("sub", "/home", EPERM);
    mount_refused("sub", "/var", EPERM);
    p = mount_plan("mounts", "sub", "/workspace/in", false);
    p.mounts[0].allow_index = 1;
    ok(client_call(&c, &p, NULL).error == EPERM, "an index beyond the list is refused");
}

static void test_ceiling(void)
{
    struct plan p = client_plan(PLAN_CREATE, "ceiling");
    p.limits.processes = 100000;
    struct plan_reply r = client_call(&c, &p, NULL);
    ok(r.error == EPERM && contains(r.message, "ceiling"), "a limit over the ceiling: %s",
       r.message);
    char junk[17] = "junk";
    fd_send_msg(c.sock, junk, sizeof(junk), NULL, 0);
    ok(client_receive(&c, &r, NULL) && r.error == EINVAL, "a record of the wrong size: %s",
       r.message);
    struct {
        struct plan p;
        char more[100];
    } large = {.p = p};
    fd_send_msg(c.sock, &large, sizeof(large), NULL, 0);
    ok(client_receive(&c, &r, NULL) && r.error == EINVAL, "a record too large: %s", r.message);
    p = client_plan(PLAN_CREATE, "ceiling");
    p.version = 9;
    ok(client_call(&c, &p, NULL).error == EINVAL, "a plan of another version");
}

static void test_isolation(void)
{
    int a = create_plain("iso-a"), b = create_plain("iso-b");
    ok(contains(client_shell(a, "echo secret > /tmp/s; ipcmk -M 64 >/dev/null; "
                                "(sleep 100 >/dev/null 2>&1 &); ipcs -m | grep -c 0x"),
                "1\n"),
       "one sandbox has files, memory and processes");
    ok(contains(client_shell(b, "cat /tmp/s; ipcs -m | grep -c 0x; ps -e | grep -c sleep"),
                "No such file or directory\n0\n0\n"),
       "the other sees none of them");
    if (can.mechanism[WALL_USERS] == MECHANISM_UID_RANGE) {
        char map_a[128];
        snprintf(map_a, sizeof(map_a), "%s", client_shell(a, "cat /proc/self/uid_map"));
        ok(strcmp(map_a, client_shell(b, "cat /proc/self/uid_map")) != 0, "their uids differ");
    }
    end("iso-a", a);
    end("iso-b", b);
}

static void test_list(void)
{
    struct plan p = client_plan(PLAN_LIST, "");
    struct plan_reply r;
    int fd = create_plain("listed");
    p.tag = 4242;
    fd_send_msg(c.sock, &p, sizeof(p), NULL, 0);
    ok(client_receive(&c, &r, NULL) && r.event == EVENT_ALIVE && strcmp(r.id, "listed") == 0,
       "a list names the living");
    ok(client_receive(&c, &r, NULL) && r.event == EVENT_NONE && r.tag == 4242, "and then ends");
    end("listed", fd);
}

static void test_reattach(void)
{
    struct plan_reply r;
    int fd = create_plain("survivor"), lost = create_plain("lost"), fresh = -1;
    close(c.sock);
    c.sock = -1;
    client_shell(lost, "!exit");
    close(fd);
    close(lost);
    usleep(50 * 1000);
    ok(client_reattach(&c), "a new control plane is attached");
    ok(client_receive(&c, &r, NULL) && r.event == EVENT_EXITED && strcmp(r.id, "lost") == 0 &&
           WEXITSTATUS(r.wait_status) == 7,
       "what ended in between is reported to it");
    struct plan p = client_plan(PLAN_CONNECT, "survivor");
    r = client_call(&c, &p, &fresh);
    ok(r.error == 0 && contains(client_shell(fresh, "echo still here"), "still here"),
       "what lives on answers on a fresh connection");
    end("survivor", fresh);
}

/* An ordered end removes everything before the process is gone. */
static void test_end(struct warden_options *o)
{
    char prefix[24];
    snprintf(prefix, sizeof(prefix), "mas-end-%d", (int)getpid());
    const char *before = o->cgroup_prefix;
    struct client first = c;
    o->cgroup_prefix = prefix;
    c = client_start(o);
    int fd = create_plain("last");
    close(c.side);
    waitpid(c.warden_pid, NULL, 0);
    char byte;
    ok(read(fd, &byte, 1) == 0, "an ordered end ends the sandboxes");
    ok(count_entries("/sys/fs/cgroup/memory", prefix) == 0 &&
           count_entries("/sys/fs/cgroup", prefix) == 0,
       "an ordered end leaves no cgroup");
    close(fd);
    close(c.sock);
    c = first;
    o->cgroup_prefix = before;
}

static bool process_has(const char *pid, const char *marker)
{
    char path[64], text[4096] = "";
    snprintf(path, sizeof(path), "/proc/%.16s/cmdline", pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    for (size_t i = 0; i < n; i++)
        if (!text[i])
            text[i] = ' ';
    return strstr(text, marker) != NULL;
}

static int count_processes(const char *marker)
{
    DIR *d = opendir("/proc");
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] >= '1' && e->d_name[0] <= '9' && process_has(e->d_name, marker);
    if (d)
        closedir(d);
    return n;
}

/* Whether there come to be some, or none; the limit is for a host that is busy. */
static bool wait_processes(const char *marker, bool some)
{
    for (int i = 0; i < 3000 && (count_processes(marker) > 0) != some; i++)
        usleep(10 * 1000);
    return (count_processes(marker) > 0) == some;
}

/* kill -9 of the warden: nothing of a sandbox outlives it, and the next start sweeps the rest. */
static void test_warden_dies(const struct warden_options *o)
{
    int fd = create_plain("orphan");
    char marker[32];
    snprintf(marker, sizeof(marker), "sleep 31%d", (int)getpid());
    client_shell(fd, "(setsid sleep 31%d >/dev/null 2>&1 &); sleep 0.3", (int)getpid());
    ok(wait_processes(marker, true), "a process runs in the sandbox");
    kill(c.warden_pid, SIGKILL);
    waitpid(c.warden_pid, NULL, 0);
    int64_t killed_ns = clock_mono_ns();
    ok(wait_processes(marker, false), "after kill -9 of the warden it is gone");
    printf("# after %lld ms\n", (long long)(clock_mono_ns() - killed_ns) / 1000000);
    close(fd);
    close(c.sock);
    /* What dies with the warden may be on its way still, with the lock that says that it lives. */
    int removed = 0, left = 1;
    for (int i = 0; i < 500 && removed >= 0 && left > 0; i++) {
        removed = warden_clean(o);
        left = count_entries("/sys/fs/cgroup/memory", o->cgroup_prefix) +
               count_entries("/sys/fs/cgroup", o->cgroup_prefix);
        if (left > 0)
            usleep(10 * 1000);
    }
    ok(removed >= 0, "leftovers are swept: %d", removed);
    ok(left == 0, "no cgroup of ours stays: %d", left);
}

static void prepare_dirs(void)
{
    snprintf(state_dir, sizeof(state_dir), "/tmp/test-warden-%d", (int)getpid());
    snprintf(allowed_dir, sizeof(allowed_dir), "%s-allow", state_dir);
    char path[128];
    mkdir(state_dir, 0700);
    mkdir(allowed_dir, 0755);
    snprintf(path, sizeof(path), "%s/sub", allowed_dir);
    mkdir(path, 0777);
    chmod(path, 0777); /* the tool's uid is nobody's on the host */
    snprintf(path, sizeof(path), "%s/sub/file", allowed_dir);
    FILE *f = fopen(path, "w");
    fputs("content\n", f);
    fclose(f);
    snprintf(path, sizeof(path), "%s/owned", allowed_dir);
    if (geteuid() == 0 && (mkdir(path, 0700) < 0 || chown(path, 12345, 12345) < 0))
        exit(3);
    snprintf(path, sizeof(path), "%s/link", allowed_dir);
    if (symlink("sub", path) < 0)
        exit(3);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        tap_skip_all("no runner given");
    prepare_dirs();
    struct warden_options o;
    char prefix[24], *allow[] = {allowed_dir, NULL};
    snprintf(prefix, sizeof(prefix), "mas-test-%d", (int)getpid());
    warden_options_init(&o);
    o.state_dir = state_dir;
    o.mounts_allow = allow;
    o.cgroup_prefix = prefix;
    o.ceiling.processes = 1000;
    o.runner_fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    started_ns = clock_mono_ns();
    c = client_start(&o);
    struct plan p = client_plan(PLAN_PROBE, "");
    can = client_call(&c, &p, NULL);
    ok(can.error == 0, "a warden starts and answers a probe");
    if (can.error)
        return tap_done();
    printf("# users by %s, memory by %s, landlock %u\n", mechanism_name(can.mechanism[WALL_USERS]),
           can.mechanism[WALL_MEMORY] ? mechanism_name(can.mechanism[WALL_MEMORY]) : "nothing",
           can.landlock_abi);
    test_life();
    test_walls();
    if (argc < 3 || strcmp(argv[2], "--without-programs") != 0)
        test_programs();
    test_limits();
    test_unenforceable();
    test_loop_disk();
    test_disk_cut_short(prefix);
    test_mounts();
    test_ceiling();
    test_isolation();
    test_list();
    test_reattach();
    test_end(&o);
    test_warden_dies(&o);
    char command[256];
    snprintf(command, sizeof(command), "rm -rf %s %s", state_dir, allowed_dir);
    if (system(command) != 0)
        printf("# rm failed\n");
    return tap_done();
}
