/* SPDX-License-Identifier: Apache-2.0 */
/* A taken-over control plane: everything it can send the warden that goes beyond the ceiling, or is
 * no plan at all. Each must be refused, and the warden must live on: test-plans RUNNER INTERCEPTOR.
 * P18 and P26 of SECURITY.md. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "proto/intercept.h"
#include "tests/unit/tap.h"
#include "tests/unit/warden-client.h"

#define MIB           (1024ull * 1024)
#define SANDBOXES_MAX 4
#define MUTATIONS     250
#define FLOOD         20000

static char base_dir[64], state_dir[96], allowed_dir[96], secret_dir[96];
static struct client c;

static bool warden_lives(void)
{
    struct plan p = client_plan(PLAN_PROBE, "");
    struct plan_reply r = client_call(&c, &p, NULL);
    return r.error == 0 && kill(c.warden_pid, 0) == 0;
}

static void kill_sandbox(const char *id)
{
    struct plan p = client_plan(PLAN_KILL, id);
    struct plan_reply r = client_call(&c, &p, NULL);
    if (r.error == 0)
        client_wait_exited(&c, id, &r);
}

/* The plan is refused with a text, no descriptor comes back, and the warden answers on. */
static void refused(struct plan *p, int error, const char *what)
{
    int fd = -1;
    struct plan_reply r = client_call(&c, p, &fd);
    bool alive = warden_lives();
    ok(r.error != 0 && (!error || r.error == error) && fd < 0 && r.message[0] && alive,
       "P18 %s: error %d, %s", what, r.error, r.message);
    if (fd >= 0)
        kill_sandbox(p->id);
    fd_close(&fd);
}

/* The control of all refusals: a plan within the ceiling works. */
static void test_within(void)
{
    struct plan p = client_plan(PLAN_CREATE, "within");
    int fd = -1;
    p.limits = (struct limits){.memory_bytes = 64 * MIB,
                               .disk_bytes = 16 * MIB,
                               .processes = 50,
                               .open_files = 128,
                               .cpu_millicores = 500};
    p.n_mounts = 1;
    strcpy(p.mounts[0].subpath, "sub");
    strcpy(p.mounts[0].target, "/workspace/in");
    struct plan_reply r = client_call(&c, &p, &fd);
    ok(r.error == 0 && fd >= 0, "P18 control: a plan within the ceiling works: %s", r.message);
    ok(strstr(client_shell(fd, "cat /workspace/in/file"), "allowed") != NULL,
       "P18 control: its mount is there");
    refused(&p, EEXIST, "an id that is in use");
    kill_sandbox("within");
    fd_close(&fd);
}

static void test_limits(void)
{
    static const struct {
        const char *what;
        struct limits limits;
    } over[] = {
        {"memory over the ceiling", {.memory_bytes = 257 * MIB}},
        {"all the memory there is", {.memory_bytes = UINT64_MAX}},
        {"disk over the ceiling", {.disk_bytes = 65 * MIB}},
        {"inodes over the ceiling", {.disk_inodes = UINT64_MAX}},
        {"processors over the ceiling", {.cpu_millicores = UINT32_MAX}},
        {"processes over the ceiling", {.processes = 101}},
        {"open files over the ceiling", {.open_files = UINT32_MAX}},
    };
    for (size_t i = 0; i < ELEMENTS(over); i++) {
        struct plan p = client_plan(PLAN_CREATE, "limits");
        p.limits = over[i].limits;
        memset(p.weaker, 1, sizeof(p.weaker)); /* weaker is no way around the ceiling */
        refused(&p, EPERM, over[i].what);
    }
}

/* Not asking for a limit gives the ceiling's, not none. */
static void test_unasked(void)
{
    struct plan p = client_plan(PLAN_CREATE, "unasked");
    int fd = -1;
    memset(p.weaker, 1, sizeof(p.weaker));
    struct plan_reply r = client_call(&c, &p, &fd);
    ok(r.error == 0, "P18 a plan without limits is made: %s", r.message);
    ok(strstr(client_shell(fd, "ulimit -n"), "256\n") != NULL, "P18 with the ceiling's open files");
    const char *out = client_shell(fd, "python3 -c 'b=bytearray(400<<20)'");
    ok(strstr(out, "exit=137") != NULL, "P18 with the ceiling's memory");
    out = client_shell(fd, "for i in $(seq 300); do sleep 9 >/dev/null 2>&1 & done");
    ok(strstr(out, "fork") != NULL, "P18 with the ceiling's processes");
    kill_sandbox("unasked");
    fd_close(&fd);
}

static void test_tiny(void)
{
    static const struct limits tiny[] = {
        {.memory_bytes = 1}, {.memory_bytes = 4096}, {.processes = 1},
        {.open_files = 1},   {.disk_bytes = 1},      {.disk_inodes = 1},
        {.open_files = 4},   {.cpu_millicores = 1},  {.io_bytes_per_s = 1},
    };
    for (size_t i = 0; i < ELEMENTS(tiny); i++) {
        struct plan p = client_plan(PLAN_CREATE, "tiny");
        int fd = -1;
        p.limits = tiny[i];
        struct plan_reply r = client_call(&c, &p, &fd);
        ok(warden_lives(), "P18 an absurdly small limit (%zu) harms nobody: error %d %s", i,
           r.error, r.message);
        fd_close(&fd);
        kill_sandbox("tiny");
    }
}

static struct plan with_mount(int index, const char *subpath, const char *target)
{
    struct plan p = client_plan(PLAN_CREATE, "mounts");
    p.n_mounts = 1;
    p.mounts[0].allow_index = index;
    snprintf(p.mounts[0].subpath, sizeof(p.mounts[0].subpath), "%s", subpath);
    snprintf(p.mounts[0].target, sizeof(p.mounts[0].target), "%s", target);
    return p;
}

static void test_mount_sources(void)
{
    static const struct {
        int index;
        const char *subpath;
    } sources[] = {
        {1, ""},
        {-1, ""},
        {INT32_MAX, ""},
        {INT32_MIN, ""},
        {0, ".."},
        {0, "sub/.."},
        {0, "sub/../.."},
        {0, "../secret"},
        {0, "/etc"},
        {0, "/"},
        {0, "."},
        {0, "./sub"},
        {0, "sub/"},
        {0, "sub//x"},
        {0, "to-secret"},
        {0, "to-root/etc"},
        {0, "to-secret/x"},
        {0, "absent"},
        {0, "sub/file"},
        {0, "to-proc/1/root"},
    };
    for (size_t i = 0; i < ELEMENTS(sources); i++) {
        char what[96];
        struct plan p = with_mount(sources[i].index, sources[i].subpath, "/workspace/in");
        snprintf(what, sizeof(what), "mount of '%s' in directory %d", sources[i].subpath,
                 sources[i].index);
        refused(&p, 0, what);
    }
}

static void test_mount_targets(void)
{
    static const char *const targets[] = {
        "",
        "/",
        "usr",
        "/usr",
        "/usr/bin",
        "/etc",
        "/proc",
        "/proc/1",
        "/dev",
        "/dev/shm",
        "/.mas",
        "/.mas/mas-toolrunner",
        "/sys",
        "/run",
        "/home",
        "/lib64",
        "/workspace/../usr",
        "/workspace//x",
        "/./x",
        "/workspace/",
    };
    for (size_t i = 0; i < ELEMENTS(targets); i++) {
        char what[96];
        struct plan p = with_mount(0, "sub", targets[i]);
        snprintf(what, sizeof(what), "mount over '%s'", targets[i]);
        refused(&p, 0, what);
    }
    struct plan p = with_mount(0, "sub", "/workspace/in");
    p.n_mounts = 2;
    p.mounts[1] = p.mounts[0];
    refused(&p, EINVAL, "two mounts on one place");
    p.n_mounts = PLAN_MOUNTS_MAX + 1;
    refused(&p, EINVAL, "too many mounts");
    p.n_mounts = UINT32_MAX;
    refused(&p, EINVAL, "far too many mounts");
    p = with_mount(0, "sub", "/workspace/in");
    p.mounts[0].read_only = 7;
    refused(&p, EINVAL, "a read_only of 7");
}

static void test_strings(void)
{
    struct plan p = client_plan(PLAN_CREATE, "strings");
    memset(p.id, 'a', sizeof(p.id));
    refused(&p, EINVAL, "an id without end");
    p = client_plan(PLAN_CREATE, "strings");
    memset(p.hostname, 'a', sizeof(p.hostname));
    refused(&p, EINVAL, "a hostname without end");
    p = client_plan(PLAN_CREATE, "strings");
    memset(p.workdir, '/', sizeof(p.workdir));
    refused(&p, EINVAL, "a working directory without end");
    p = with_mount(0, "sub", "/workspace/in");
    memset(p.mounts[0].subpath, 'a', sizeof(p.mounts[0].subpath));
    refused(&p, EINVAL, "a mount's source without end");
    p = with_mount(0, "sub", "/workspace/in");
    memset(p.mounts[0].target, 'a', sizeof(p.mounts[0].target));
    refused(&p, EINVAL, "a mount's target without end");
    static const char *const ids[] = {"",   "../x", "a/b", "A",  "1a",   "a b",
                                      "-a", "a\n",  "a.b", "..", "a\xff"};
    for (size_t i = 0; i < ELEMENTS(ids); i++) {
        p = client_plan(PLAN_CREATE, ids[i]);
        refused(&p, EINVAL, "an id that is none");
    }
    p = client_plan(PLAN_CREATE, "strings");
    strcpy(p.hostname, "a/../b");
    refused(&p, EINVAL, "a hostname that is none");
    p = client_plan(PLAN_CREATE, "strings");
    strcpy(p.workdir, "/workspace/../../etc");
    refused(&p, EINVAL, "a working directory that climbs");
}

static void test_images(void)
{
    static const char digest[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    static const char *const wrong[] = {
        "..",
        "a",
        "../../../../../../etc",
        "00112233445566778899aabbccddeeff/../../../../../../../etc",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeF",
        "/0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};
    struct plan p;
    for (size_t i = 0; i < ELEMENTS(wrong); i++) {
        p = client_plan(PLAN_CREATE, "images");
        snprintf(p.image, sizeof(p.image), "%s", wrong[i]);
        refused(&p, EINVAL, "an image that is no digest");
    }
    p = client_plan(PLAN_CREATE, "images");
    memset(p.image, 'a', sizeof(p.image));
    refused(&p, EINVAL, "an image without end");
    p = client_plan(PLAN_CREATE, "images");
    strcpy(p.image, digest);
    refused(&p, 0, "an image that is not there");
    p.flags = PLAN_PROCESS;
    refused(&p, EINVAL, "an image without walls");
}

static void test_records(void)
{
    struct plan p = client_plan(PLAN_CREATE, "records");
    struct plan_reply r;
    p.version = PLAN_VERSION + 1;
    refused(&p, EINVAL, "another version");
    p = client_plan(PLAN_CREATE, "records");
    p.flags = 0xffffffff;
    refused(&p, EINVAL, "flags that do not exist");
    p.flags = PLAN_PROCESS;
    refused(&p, 0, "a sandbox without walls");
    p = client_plan((enum plan_op)0, "records");
    refused(&p, EINVAL, "operation 0");
    p = client_plan((enum plan_op)0x7fffffff, "records");
    refused(&p, EINVAL, "an unknown operation");
    p = client_plan(PLAN_KILL, "never-made");
    refused(&p, ENOENT, "killing what is not there");
    p = client_plan(PLAN_CONNECT, "never-made");
    refused(&p, ENOENT, "connecting to what is not there");
    p = client_plan(PLAN_CREATE, "records");
    for (size_t size = 1; size < sizeof(p); size += 997) {
        fd_send_msg(c.sock, &p, size, NULL, 0);
        ok(client_receive(&c, &r, NULL) && r.error == EINVAL && warden_lives(),
           "P18 a record of %zu bytes: %s", size, r.message);
    }
    char large[sizeof(p) * 4] = {0};
    memcpy(large, &p, sizeof(p));
    fd_send_msg(c.sock, large, sizeof(large), NULL, 0);
    ok(client_receive(&c, &r, NULL) && r.error == EINVAL && warden_lives(),
       "P18 a large record: %s", r.message);
}

static int open_files_of(pid_t pid)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n++;
    if (d)
        closedir(d);
    return n;
}

/* No plan carries descriptors: what comes along is closed, not kept and not used. */
static void test_descriptors(void)
{
    struct plan p = client_plan(PLAN_PROBE, "");
    int fds[FD_PASS_MAX], before = open_files_of(c.warden_pid);
    struct plan_reply r;
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fds[i] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 100; i++) {
        p.tag = 100000 + (uint64_t)i;
        fd_send_msg(c.sock, &p, sizeof(p), fds, FD_PASS_MAX);
        client_receive(&c, &r, NULL);
    }
    int after = open_files_of(c.warden_pid);
    ok(warden_lives() && after < before + 100,
       /* blanks come and go */ "P18 descriptors nobody asked for: %d open, %d before", after,
       before);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
}

/* An interceptor is asked for with a file of sealed pairs, which anything may be in. */
static int ask_interceptor(const char *id, int file_fd, struct plan_reply *ret)
{
    static uint64_t tag = 200000;
    struct plan p = client_plan(PLAN_INTERCEPT, id);
    int fd = -1;
    p.tag = ++tag;
    fd_send_msg(c.sock, &p, sizeof(p), &file_fd, file_fd >= 0);
    if (!client_receive(&c, ret, &fd))
        ret->error = ETIMEDOUT;
    return fd;
}

static void interceptor_refused(int file_fd, const char *what)
{
    struct plan_reply r;
    int fd = ask_interceptor("intercepted", file_fd, &r);
    ok(r.error == EINVAL && fd < 0 && r.message[0] && warden_lives(), "P18 %s: error %d, %s", what,
       r.error, r.message);
    fd_close(&fd);
    fd_close(&file_fd);
}

static int pairs_file(const struct intercept_pairs *head, size_t len)
{
    char file[4096] = {0};
    memcpy(file, head, sizeof(*head));
    return fd_sealed_memory("pairs", file, len);
}

static void test_interceptor_files(void)
{
    const struct intercept_pairs good = {.version = INTERCEPT_VERSION, .generation = "one"};
    struct intercept_pairs bad = good;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        abort();
    interceptor_refused(-1, "an interceptor without a file");
    interceptor_refused(ends[0], "with a pipe, which would never end");
    interceptor_refused(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                        "with a file that can still change");
    interceptor_refused(pairs_file(&good, 4), "with half a file");
    interceptor_refused(pairs_file(&good, sizeof(good) + 1), "with more than the pairs");
    bad.version++;
    interceptor_refused(pairs_file(&bad, sizeof(bad)), "of another version");
    bad = good;
    bad.n_pairs = INTERCEPT_PAIRS_MAX + 1;
    interceptor_refused(pairs_file(&bad, sizeof(bad)), "with too many pairs");
    bad.n_pairs = 1;
    bad.sealed_len[0] = UINT32_MAX;
    interceptor_refused(pairs_file(&bad, 4096), "with a pair without end");
    bad.sealed_len[0] = 100;
    interceptor_refused(pairs_file(&bad, sizeof(bad) + 100), "with a seal of zeros");
    bad = good;
    memset(bad.generation, 'x', sizeof(bad.generation));
    interceptor_refused(pairs_file(&bad, sizeof(bad)), "of a generation without end");
    fd_close(&ends[1]);
}

static void test_interceptors(void)
{
    const struct intercept_pairs good = {.version = INTERCEPT_VERSION, .generation = "one"};
    struct plan create = client_plan(PLAN_CREATE, "intercepted");
    struct plan_reply r;
    char id[16];
    _cleanup_close_ int file = pairs_file(&good, sizeof(good));
    create.flags = PLAN_PROXY | PLAN_AUTHORITY;
    refused(&create, 0, "the authority of an interceptor that is not there");
    test_interceptor_files();
    for (int i = 0; i < SANDBOXES_MAX; i++) {
        snprintf(id, sizeof(id), "box%d", i);
        int fd = ask_interceptor(id, file, &r);
        ok(r.error == 0 && fd >= 0, "P18 control: an interceptor for %s: %s", id, r.message);
        fd_close(&fd);
    }
    int fd = ask_interceptor("onemore", file, &r);
    ok(r.error == EAGAIN && fd < 0 && warden_lives(), "P18 more interceptors than sandboxes: %s",
       r.message);
    create = client_plan(PLAN_CREATE, "box0");
    create.flags = PLAN_AUTHORITY;
    refused(&create, EOPNOTSUPP, "an authority without a network");
    for (int i = 0; i < SANDBOXES_MAX; i++) {
        snprintf(id, sizeof(id), "box%d", i);
        kill_sandbox(id);
    }
    fd = ask_interceptor("onemore", file, &r);
    ok(r.error == 0 && fd >= 0, "P18 those whose sandboxes never came have made room");
    kill_sandbox("onemore");
    fd_close(&fd);
}

static void test_too_many(void)
{
    char id[16];
    int fds[SANDBOXES_MAX] = {-1, -1, -1, -1};
    for (int i = 0; i < SANDBOXES_MAX; i++) {
        snprintf(id, sizeof(id), "many-%d", i);
        struct plan p = client_plan(PLAN_CREATE, id);
        client_call(&c, &p, &fds[i]);
    }
    struct plan p = client_plan(PLAN_CREATE, "one-more");
    refused(&p, EAGAIN, "more sandboxes than there may be");
    for (int i = 0; i < SANDBOXES_MAX; i++) {
        ok(fds[i] >= 0, "P18 control: sandbox %d of %d was made", i + 1, SANDBOXES_MAX);
        snprintf(id, sizeof(id), "many-%d", i);
        kill_sandbox(id);
        fd_close(&fds[i]);
    }
}

/* Valid plans with a few bytes changed: refused or made, and the warden lives. */
static void test_mutations(void)
{
    unsigned made = 0, seed = 1;
    bool lives = true;
    for (int i = 0; i < MUTATIONS && lives; i++) {
        struct plan p = with_mount(0, "sub", "/workspace/in");
        int fd = -1;
        for (int k = 0; k < 3; k++) {
            size_t at = (size_t)rand_r(&seed) % offsetof(struct plan, mounts[1]);
            if (at >= offsetof(struct plan, limits) || at < offsetof(struct plan, tag))
                ((unsigned char *)&p)[at] = (unsigned char)rand_r(&seed);
        }
        if (p.op == PLAN_LIST) /* answered by events too */
            continue;
        uint64_t tag = p.tag = ++c.tag;
        struct plan_reply r = {.error = EPIPE};
        fd_send_msg(c.sock, &p, sizeof(p), NULL, 0);
        do {
            fd_close(&fd);
            lives = client_receive(&c, &r, &fd);
        } while (lives && (r.event != EVENT_NONE || (r.tag != tag && r.tag != 0)));
        if (fd >= 0) {
            made++;
            kill_sandbox("mounts");
        }
        fd_close(&fd);
    }
    ok(lives && warden_lives(),
       "P18 %d plans with changed bytes, %u of them good: the warden lives", MUTATIONS, made);
}

/* A create and its kill before the create is answered. */
static void test_overtaking(void)
{
    struct plan_reply r;
    for (int i = 0; i < 20; i++) {
        struct plan p = client_plan(PLAN_CREATE, "hasty");
        p.tag = ++c.tag;
        fd_send_msg(c.sock, &p, sizeof(p), NULL, 0);
        p.op = PLAN_KILL;
        uint64_t last = p.tag = ++c.tag;
        fd_send_msg(c.sock, &p, sizeof(p), NULL, 0);
        do {
            int fd = -1;
            if (!client_receive(&c, &r, &fd))
                break;
            fd_close(&fd);
        } while (r.tag != last);
        p = client_plan(PLAN_STATS, "hasty"); /* gone before the id is used again */
        for (int k = 0; k < 6000 && client_call(&c, &p, NULL).error != ENOENT; k++)
            usleep(5 * 1000);
    }
    struct plan p = client_plan(PLAN_STATS, "hasty");
    ok(client_call(&c, &p, NULL).error == ENOENT && warden_lives(),
       "P18 kills that overtake their creates leave nothing");
}

/* Version 1 of control groups does not let a frozen process die: a pause that follows a kill, as
 * one that was on its way does, must not keep the sandbox. */
static void test_freeze_after_kill(void)
{
    bool gone = true;
    for (int i = 0; i < 20 && gone; i++) {
        struct plan p = client_plan(PLAN_CREATE, "frozen");
        int fd = -1;
        if (client_call(&c, &p, &fd).error)
            break;
        p = client_plan(PLAN_KILL, "frozen");
        p.tag = ++c.tag;
        fd_send_msg(c.sock, &p, sizeof(p), NULL, 0);
        p = client_plan(PLAN_FREEZE, "frozen");
        client_call(&c, &p, NULL);
        p = client_plan(PLAN_STATS, "frozen");
        for (int k = 0; k < 1000 && client_call(&c, &p, NULL).error != ENOENT; k++)
            usleep(5 * 1000);
        gone = client_call(&c, &p, NULL).error == ENOENT;
        fd_close(&fd);
    }
    ok(gone && warden_lives(), "P18 a sandbox that is paused after it was killed ends");
}

/* Thousands of requests without reading one answer: cut off, and the warden lives. */
static void test_flood(void)
{
    struct plan p = client_plan(PLAN_PROBE, "");
    struct timeval limit = {.tv_sec = 2};
    int sent = 0;
    p.tag = 1;
    setsockopt(c.sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    while (sent < FLOOD && fd_send_msg(c.sock, &p, sizeof(p), NULL, 0) > 0)
        sent++;
    usleep(100 * 1000);
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)c.warden_pid);
    FILE *f = fopen(path, "re");
    unsigned long pages = 0;
    if (f && fgets(text, sizeof(text), f))
        sscanf(text, "%*u %lu", &pages);
    if (f)
        fclose(f);
    ok(kill(c.warden_pid, 0) == 0 && waitpid(c.warden_pid, NULL, WNOHANG) == 0 && pages &&
           pages * 4096 < 64 * MIB,
       "P18 %d requests and no answer read: the warden lives in %lu KiB", sent, pages * 4);
}

static void test_empty_record(void)
{
    if (send(c.sock, "", 0, MSG_NOSIGNAL) < 0)
        printf("# send: %s\n", strerror(errno));
    usleep(50 * 1000);
    ok(waitpid(c.warden_pid, NULL, WNOHANG) == 0, "P18 an empty record: the warden lives");
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0)
        exit(3);
    fclose(f);
}

static void prepare_dirs(void)
{
    char path[128];
    snprintf(base_dir, sizeof(base_dir), "/tmp/test-plans-%d", (int)getpid());
    snprintf(state_dir, sizeof(state_dir), "%s/state", base_dir);
    snprintf(allowed_dir, sizeof(allowed_dir), "%s/allow", base_dir);
    snprintf(secret_dir, sizeof(secret_dir), "%s/secret", base_dir);
    mkdir(base_dir, 0755);
    mkdir(state_dir, 0700);
    mkdir(allowed_dir, 0755);
    mkdir(secret_dir, 0755);
    snprintf(path, sizeof(path), "%s/sub", allowed_dir);
    mkdir(path, 0755);
    write_file(path, "file", "allowed\n");
    write_file(secret_dir, "x", "secret\n");
    static const char *const links[][2] = {
        {"../secret", "to-secret"}, {"/", "to-root"}, {"/proc", "to-proc"}};
    for (size_t i = 0; i < ELEMENTS(links); i++) {
        snprintf(path, sizeof(path), "%s/%s", allowed_dir, links[i][1]);
        if (symlink(links[i][0], path) < 0)
            exit(3);
    }
}

/* --- the audit's signatures */

static struct plan sign_plan(uint64_t seq, uint8_t head)
{
    struct plan p = client_plan(PLAN_SIGN, "");
    p.sign = (struct plan_sign){.purpose = CHECKPOINT_PERIODIC, .seq = seq, .head = {head}};
    return p;
}

static void not_signed(struct plan p, const char *what)
{
    struct plan_reply r = client_call(&c, &p, NULL);
    static const uint8_t none[CHECKPOINT_SIGNATURE_SIZE];
    ok(r.error != 0 && memcmp(r.checkpoint.signature, none, sizeof(none)) == 0 && warden_lives(),
       "P26 %s: error %d, %s", what, r.error, r.message);
}

static void test_signing(void)
{
    struct plan p = sign_plan(10, 1);
    struct plan_reply first = client_call(&c, &p, NULL);
    ok(first.error == 0 && first.checkpoint.seq == 10, "P26 control: a head is signed");
    not_signed(sign_plan(10, 2), "another history of the same record");
    not_signed(sign_plan(9, 2), "an older record");
    p = sign_plan(10, 1);
    p.sign.purpose = CHECKPOINT_EXPORT;
    not_signed(p, "the same head for another purpose");
    p = sign_plan(11, 2);
    p.sign.purpose = 99;
    not_signed(p, "a purpose that is none");
    not_signed(sign_plan(UINT64_MAX, 2), "a number that ends all numbers");
    p = sign_plan(11, 2);
    struct plan_reply next = client_call(&c, &p, NULL);
    static const uint8_t none[CHECKPOINT_HASH_SIZE];
    ok(next.error == 0 && next.checkpoint.prev_seq == 10 &&
           memcmp(next.checkpoint.prev, none, sizeof(none)) != 0,
       "P26 the next signature names the one before");
}

/* A restart of the warden is no way around. */
static void test_signing_again(void)
{
    not_signed(sign_plan(11, 3), "another history after a restart");
    not_signed(sign_plan(10, 3), "an older one after a restart");
}

static void start(struct warden_options *o)
{
    c = client_start(o);
    ok(warden_lives(), "P18 a warden with a ceiling starts");
}

static void stop(void)
{
    close(c.sock);
    close(c.side);
    kill(c.warden_pid, SIGKILL);
    waitpid(c.warden_pid, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    prepare_dirs();
    struct warden_options o;
    char prefix[24], *allow[] = {allowed_dir, NULL};
    snprintf(prefix, sizeof(prefix), "mas-plans-%d", (int)getpid());
    warden_options_init(&o);
    o.state_dir = state_dir;
    o.mounts_allow = allow;
    o.cgroup_prefix = prefix;
    o.max_sandboxes = SANDBOXES_MAX;
    o.create_timeout_ms = 1500;
    o.ceiling = (struct limits){.memory_bytes = 256 * MIB,
                                .disk_bytes = 64 * MIB,
                                .disk_inodes = 4096,
                                .cpu_millicores = 2000,
                                .processes = 100,
                                .open_files = 256};
    o.sign_audit = true;
    o.runner_fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    o.intercept_fd = open(argv[2], O_RDONLY | O_CLOEXEC);
    start(&o);
    test_within();
    test_signing();
    test_limits();
    test_unasked();
    test_tiny();
    test_mount_sources();
    test_mount_targets();
    test_strings();
    test_images();
    test_records();
    test_descriptors();
    test_interceptors();
    test_too_many();
    test_mutations();
    test_overtaking();
    test_freeze_after_kill();
    test_flood();
    stop();
    start(&o);
    test_signing_again();
    test_empty_record();
    stop();
    warden_clean(&o);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", base_dir);
    if (system(command) != 0)
        printf("# rm failed\n");
    return tap_done();
}
