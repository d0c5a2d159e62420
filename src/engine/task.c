/* SPDX-License-Identifier: Apache-2.0 */
/* What a broker is started for. Whatever fails in a create ends it with a report to the warden,
 * which then has another broker remove what there is. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/capability.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "engine/engine.h"
#include "builder/flavour.h"
#include "filter/filter-table.h"
#include "filter/filter.h"

#define LINK_BACKLOG     4
#define END_TIMEOUT_MS   3000 /* for the engine to say how a container ended */
#define DEATH_TIMEOUT_MS 10000
#define LATE_MS          4000 /* for a container whose create was cut short to turn up */
#define LATE_TURN_MS     200

static void send_message(const struct engine_message *m, int fd)
{
    fd_send_msg(CHILD_CHANNEL_FD, m, sizeof(*m), &fd, fd >= 0);
}

static int task_listen(const struct engine *e)
{
    char dir[2 * ENGINE_PATH_SIZE];
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    snprintf(dir, sizeof(dir), "%s/" ENGINE_LINK, e->order.dir);
    _cleanup_close_ int at = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st; /* the directory is the runner's, whichever user that is on the host */
    if (at < 0 || fd < 0 || fstat(at, &st) < 0 ||
        (unlinkat(at, OCI_LINK_NAME, 0) < 0 && errno != ENOENT))
        return -errno;
    /* The directory's own path may be longer than an address. */
    snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/" OCI_LINK_NAME, at);
    if (bind(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0 ||
        fchmodat(at, OCI_LINK_NAME, 0600, 0) < 0 ||
        fchownat(at, OCI_LINK_NAME, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        listen(fd, LINK_BACKLOG) < 0)
        return -errno;
    return fd_steal(&fd);
}

/* Accept only the runner's own connection. The peer must be the container's first process. Under
 * gVisor or kata a process of the sandbox's own kernel connects instead, so there the pid is not
 * checked. */
static bool is_runner(const struct engine *e, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (engine_own_kernel(e) || peer.pid == e->mark.pid);
}

static int pass_connection(const struct engine *e, int listen_fd)
{
    const struct engine_message m = {.kind = ENGINE_LINKED};
    _cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (!is_runner(e, fd))
        return -EPERM;
    send_message(&m, fd);
    return 0;
}

/* --- create */

static void task_serve(struct engine *e, int listen_fd) __attribute__((noreturn));

static void require_step(const struct engine *e, int r, const char *step)
{
    char text[160];
    snprintf(text, sizeof(text), "%s: %s: %s", oci_backend_name((enum oci_backend)e->order.backend),
             step, e->rest.why);
    child_must(r, e->rest.why[0] ? text : step, -1);
}

static void wait_for_runner(struct engine *e, int listen_fd)
{
    struct pollfd p[] = {{.fd = listen_fd, .events = POLLIN}, {.fd = e->pidfd, .events = POLLIN}};
    const struct engine_runtime *runtime = engine_runtime(e);
    char step[128] = "wait for the runner";
    int n;
    if (runtime && runtime->advice)
        snprintf(step, sizeof(step), "wait for the runner (%s)", runtime->advice);
    do
        n = poll(p, 2, (int)e->order.start_timeout_ms);
    while (n < 0 && errno == EINTR);
    e->rest.why[0] = 0;
    require_step(e, n == 0 ? -ETIMEDOUT : p[1].revents ? -ECHILD : 0, step);
}

static bool null_is_roots(void)
{
    struct stat st;
    return stat("/dev/null", &st) < 0 || st.st_uid == 0;
}

/* Some runtimes give a container its standard streams, even where one is a device of the host's:
 * that is taken back whatever else went wrong, and is the end of it. */
static int start_container(struct engine *e)
{
    bool before = null_is_roots();
    int r = api_start(e);
    if (!before || null_is_roots())
        return r;
    child_must(chown("/dev/null", 0, 0) < 0 ? -errno : 0, "take /dev/null back from the container",
               WALL_FILESYSTEM);
    child_must(-EOPNOTSUPP, "the engine did not do as asked: leave the host's /dev/null alone",
               WALL_FILESYSTEM);
    return -EOPNOTSUPP;
}

static void create_container(struct engine *e)
{
    const struct engine_dialect *d = engine_dialect(e);
    require_step(e, d->prepare ? d->prepare(e) : 0, "import an image");
    _cleanup_json_ json_t *body = d->body(e);
    require_step(e, body ? 0 : -EINVAL, "say what is wanted");
    require_step(e, api_create(e, body), "create a container");
    require_step(e, start_container(e), "start a container");
}

/* The container's network, for a sandbox that gets a link of its own in it; -1: it gets none. The
 * process was still there when its namespace was open, so that it is no other's. */
static int open_network(const struct engine *e)
{
    char path[64];
    if (!(e->order.child.flags & PLAN_ADDRESSES))
        return -1;
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)e->mark.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && process_started(e->mark.pid) == e->mark.started;
    child_must(good ? 0 : -ESRCH, "open the container's network", WALL_NETWORK);
    return fd;
}

/* The order matters. Everything that is mounted for the container is there before the engine is
 * asked, because an engine binds what it finds and makes a directory of what it does not. The
 * socket listens before the container starts, because the runner dials at once. What was mounted is
 * taken away only after verify() has seen it inside. The record says RUNNING before the warden
 * hears of it: a warden that is killed in between finds a container that it can adopt. The runner's
 * connection is the last, so that no command runs before all of this. */
void task_create(struct engine *e, int view_fd, const struct child_trees *trees)
{
    struct engine_message ready = {.kind = ENGINE_READY};
    require_step(e, engine_find_users(e), "find out whose ids it has");
    /* Their owners are the warden's block of ids, which a range of docker's own does not know. */
    bool foreign =
        e->users == MECHANISM_UID_ENGINE && (e->order.child.n_mounts || trees->image >= 0);
    child_must(foreign ? -EOPNOTSUPP : 0, "docker's userns-remap allows no mounts and images here",
               WALL_FILESYSTEM);
    io_find(e, view_fd, trees);
    require_step(e, place_enter(e), "enter the engine's view");
    child_must(place_disk(e, trees->disk), "mount the disk", WALL_DISK);
    child_must(place_root(e, view_fd), "mount the root", WALL_FILESYSTEM);
    place_image(e, trees);
    child_must(place_mounts(e, trees->mounts), "attach a mount", WALL_FILESYSTEM);
    child_must(place_files(e), "write what the runner needs", -1);
    child_must(place_authorities(e, trees->authority), "add a certificate authority",
               WALL_FILESYSTEM);
    int listen_fd = task_listen(e);
    child_must(listen_fd, "listen for the runner", -1);
    create_container(e);
    require_step(e, process_find(e), "find the container");
    wait_for_runner(e, listen_fd);
    verify(e, ready.mechanism);
    place_clear(e);
    ready.mechanism[WALL_DISK] = e->order.record.mechanism[WALL_DISK]; /* the warden's */
    ready.mark = e->order.record.mark = e->mark;
    memcpy(e->order.record.mechanism, ready.mechanism, sizeof(ready.mechanism));
    child_must(record_save(e, ENGINE_RECORD_RUNNING), "write a record", -1);
    _cleanup_close_ int network = open_network(e);
    send_message(&ready, network);
    fd_close(&network);
    child_must(pass_connection(e, listen_fd), "take the runner's connection", -1);
    child_report_running();
    task_serve(e, listen_fd);
}

/* --- serve */

void task_ask_end(struct engine *e, uint64_t oom_kills, struct engine_message *ret)
{
    _cleanup_json_ json_t *container = NULL;
    *ret = (struct engine_message){
        .kind = ENGINE_ENDED, .wait_status = SIGKILL, .oom_kills = oom_kills};
    e->rest.timeout_ms = END_TIMEOUT_MS;
    if (api_inspect(e, &container) < 0)
        return;
    const json_t *state = json_object_get(container, "State"),
                 *exit_code = json_object_get(state, "ExitCode");
    json_int_t code = json_integer_value(exit_code);
    if (json_is_false(json_object_get(state, "Running")) && json_is_integer(exit_code) &&
        code >= 0 && code < 256)
        ret->wait_status = code > 128 && code < 128 + NSIG ? (int)code - 128 : (int)code << 8;
    if (json_is_true(json_object_get(state, "OOMKilled")) && !ret->oom_kills)
        ret->oom_kills = 1;
}

static void report_end(struct engine *e, uint64_t oom_kills)
{
    struct engine_message m;
    task_ask_end(e, oom_kills, &m);
    send_message(&m, -1);
}

static void answer_stats(const struct engine *e, struct engine_message *m)
{
    struct group_numbers g;
    struct statfs fs;
    char path[64];
    group_read(e->mark.pid, &g);
    m->memory_bytes = g.memory;
    m->memory_peak_bytes = g.memory_peak;
    m->cpu_us = g.cpu_us;
    m->processes = g.pids;
    m->oom_kills = g.oom_kills;
    snprintf(path, sizeof(path), "/proc/%d/root/var/tmp", (int)e->mark.pid);
    if (statfs(path, &fs) == 0)
        m->disk_used_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
}

/* Engines refuse to pause what is paused and to resume what runs; a container that is as it was
 * asked to be is no failure. */
static bool is_paused_as(struct engine *e, bool on)
{
    _cleanup_json_ json_t *container = NULL;
    if (api_inspect(e, &container) < 0)
        return false;
    const json_t *paused = json_object_get(json_object_get(container, "State"), "Paused");
    return json_is_boolean(paused) && json_is_true(paused) == on;
}

static void answer_freeze(struct engine *e, bool on, struct engine_message *m)
{
    int r = e->api[0] ? 0 : api_connect(e);
    if (r >= 0)
        r = api_pause(e, on);
    if (r < 0 && is_paused_as(e, on))
        r = 0;
    m->error = r < 0 ? -r : 0;
    if (r < 0)
        snprintf(m->text, sizeof(m->text), "%.150s", e->rest.why);
}

static void on_request(struct engine *e, uint64_t *oom_kills)
{
    struct engine_request q;
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(CHILD_CHANNEL_FD, &q, sizeof(q), fds);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (n == 0)
        _exit(0); /* the warden is gone */
    if (n != sizeof(q))
        return;
    struct engine_message m = {.kind = ENGINE_DONE, .tag = q.tag};
    if (q.kind == ENGINE_ASK_STATS)
        answer_stats(e, &m);
    else
        answer_freeze(e, q.kind == ENGINE_ASK_FREEZE, &m);
    if (m.oom_kills)
        *oom_kills = m.oom_kills;
    send_message(&m, -1);
}

/* Only those that it has: a broker of an ordinary user's warden has none. */
static int keep_capabilities(uint64_t keep)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2] = {{0}};
    if (syscall(SYS_capget, &header, have) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        have[i].permitted &= (uint32_t)(keep >> 32 * i);
        have[i].effective = have[i].permitted;
        have[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, have) < 0 ? -errno : 0;
}

void task_confine(const struct syscall_table *t, uint64_t capabilities)
{
    struct error err = {0};
    int r = capability_bound(BROKER_CAPABILITIES);
    if (r == -EPERM || r >= 0) /* not allowed, or done before: no_new_privs does the rest */
        r = keep_capabilities(capabilities);
    child_must(r, "give up the broker's capabilities", -1);
    r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : filter_enter(t, &err);
    child_must(r, "restrict the broker's system calls", -1);
}

static void task_serve(struct engine *e, int listen_fd)
{
    uint64_t oom_kills = 0;
    /* It reads and writes files of root's, and speaks with the engine, which takes root's word. */
    task_confine(&filter_broker_serving, 0);
    for (;;) {
        struct pollfd p[] = {{.fd = e->pidfd, .events = POLLIN},
                             {.fd = CHILD_CHANNEL_FD, .events = POLLIN},
                             {.fd = listen_fd, .events = POLLIN}};
        if (poll(p, ELEMENTS(p), -1) < 0)
            continue;
        if (p[0].revents)
            break;
        if (p[1].revents)
            on_request(e, &oom_kills);
        if (p[2].revents)
            pass_connection(e, listen_fd);
    }
    report_end(e, oom_kills);
    _exit(0);
}

/* A container of an earlier broker's: the runner dials again by itself. The engine is not asked;
 * it may be away. */
void task_adopt(struct engine *e)
{
    place_enter(e);
    int listen_fd = task_listen(e);
    e->mark = e->order.mark;
    e->pidfd = process_open(&e->mark);
    if (e->pidfd < 0 || listen_fd < 0) {
        if (api_connect(e) == 0)
            report_end(e, 0);
        _exit(1);
    }
    api_connect(e); /* for later; where it fails it is tried again when it is needed */
    task_serve(e, listen_fd);
}

/* --- remove */

static int kill_process(struct engine *e)
{
    struct pollfd p = {.fd = e->pidfd, .events = POLLIN};
    group_thaw(e->mark.pid); /* version 1 does not let a frozen process die */
    if (pidfd_send_signal(e->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
        return -errno;
    return poll(&p, 1, DEATH_TIMEOUT_MS) == 1 ? 0 : -ETIMEDOUT;
}

/* One whose create was cut short may not be there yet. */
static int find_late(struct engine *e)
{
    int64_t end = clock_mono_ms() + LATE_MS;
    for (;;) {
        _cleanup_json_ json_t *container = NULL;
        int r = api_inspect(e, &container);
        if (r != -ENOENT || clock_mono_ms() >= end)
            return r;
        poll(NULL, 0, LATE_TURN_MS);
    }
}

static int forget_container(struct engine *e)
{
    int r = api_connect(e);
    if (r < 0)
        return r;
    if (!e->mark.container[0]) /* it never was ready */
        r = find_late(e);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    r = api_remove(e, e->mark.container);
    if (r < 0)
        return r;
    if (!e->order.mark.pid && engine_dialect(e)->end_remains)
        engine_dialect(e)->end_remains(e->mark.container);
    return r;
}

int task_remove(struct engine *e)
{
    const struct engine_message ended = {.kind = ENGINE_ENDED, .wait_status = SIGKILL};
    struct engine_message m = ended;
    struct group_numbers g = {0};
    int r = 0;
    place_clear(e); /* a directory that goes takes its mounts along, in whichever namespace */
    e->mark = e->order.mark;
    e->pidfd = process_open(&e->mark);
    if (e->pidfd >= 0) {
        group_read(e->mark.pid, &g);
        r = kill_process(e);
    }
    m.oom_kills = g.oom_kills;
    if (r == 0 && e->order.mark.pid)
        send_message(&m, -1);
    /* Before the engine is asked anything, which may take longer than the warden has: what is
     * mounted for a container that never was ready must not outlive an orderly stop. */
    const struct engine_message cleared = {.kind = ENGINE_CLEARED};
    if (place_enter(e) == 0)
        place_clear(e);
    send_message(&cleared, -1);
    if (r < 0)
        return r;
    r = forget_container(e);
    if (r == 0)
        record_remove(e);
    return r;
}
