/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/program.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "keeper/internal.h"

#define TICK_MS        100
#define EXIT_NOT_FOUND 127
#define EXIT_CONFINED  126
#define OPEN_FILES     256

#define FS_READ (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
#define FS_OWN                                                                                     \
    (FS_READ | LANDLOCK_WRITE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REMOVE_FILE |                  \
     LANDLOCK_MAKE_DIR | LANDLOCK_MAKE_REG | LANDLOCK_REFER | LANDLOCK_TRUNCATE)

static const char *const places[] = {"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"};

/* --- in the child */

/* Becoming root again is tried on purpose: if that worked, the change of user has not taken
 * effect, and the program must not run. */
static int become_nobody(const struct worker *w)
{
    uid_t id = KEEPER_USER_ID;
    if (!w->o->own_ids)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return -errno;
    return setuid(0) == 0 ? -EPERM : 0;
}

static int limit_resources(const struct worker *w, const struct program *p)
{
    uint64_t largest = p->file_bytes ? p->file_bytes : w->o->config.limits.layer_bytes;
    struct rlimit none = {0, 0}, file = {largest, largest}, files = {OPEN_FILES, OPEN_FILES};
    if (setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_FSIZE, &file) < 0 ||
        setrlimit(RLIMIT_NOFILE, &files) < 0)
        return -errno;
    return 0;
}

/* A path that is not there needs no rule. Rights that this kernel does not know were taken out
 * of `refused`, and a rule may not name them. */
static int allow_path(int ruleset, const struct landlock_rights *refused, const char *path,
                      uint64_t rights)
{
    _cleanup_close_ int fd = path ? open(path, O_PATH | O_CLOEXEC) : -1;
    return fd < 0 ? 0 : landlock_ruleset_allow(ruleset, fd, rights & refused->fs);
}

/* Its own directory and nothing else to write to; the network is what it is for. */
static int restrict_files(const struct program *p)
{
    static const char *const shown[] = {"/usr", "/lib", "/lib64", "/etc"};
    int abi = landlock_abi();
    struct landlock_rights refused = landlock_known(abi);
    refused.net = 0;
    _cleanup_close_ int ruleset = landlock_ruleset_open(abi, &refused);
    int r = ruleset < 0 ? ruleset : allow_path(ruleset, &refused, p->dir, FS_OWN);
    for (size_t i = 0; r == 0 && i < ELEMENTS(shown); i++)
        r = allow_path(ruleset, &refused, shown[i], FS_READ | LANDLOCK_EXECUTE);
    if (r == 0)
        r = allow_path(ruleset, &refused, "/dev/null", LANDLOCK_READ_FILE | LANDLOCK_WRITE_FILE);
    if (r == 0)
        r = allow_path(ruleset, &refused, "/dev/urandom", LANDLOCK_READ_FILE);
    if (r == 0)
        r = allow_path(ruleset, &refused, p->readable, LANDLOCK_READ_FILE);
    return r == 0 ? landlock_restrict(ruleset) : r;
}

/* Threads and no processes: the signal that ends the program with its worker is not a child's, so
 * a child would outlive both. Without the flags of clone3() to look at, the C library uses clone().
 */
static int forbid_children(void)
{
    static const struct {
        int call;
        uint32_t action;
    } refused[] = {
        {SCMP_SYS(fork), SCMP_ACT_ERRNO(EPERM)},
        {SCMP_SYS(vfork), SCMP_ACT_ERRNO(EPERM)},
        {SCMP_SYS(clone3), SCMP_ACT_ERRNO(ENOSYS)},
    };
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx)
        return -ENOMEM;
    int r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    for (size_t i = 0; r == 0 && i < ELEMENTS(refused); i++)
        r = seccomp_rule_add(ctx, refused[i].action, refused[i].call, 0);
    if (r >= 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    return r;
}

static void become_program(const struct worker *w, const struct program *p, pid_t parent, int out,
                           int err)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (chdir(p->dir) < 0 || (!p->keeps_user && become_nobody(w) < 0) || limit_resources(w, p) < 0)
        _exit(EXIT_CONFINED);
    /* After the change of credentials, which clears it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
        restrict_files(p) < 0 || forbid_children() < 0)
        _exit(EXIT_CONFINED);
    if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(EXIT_CONFINED);
    /* PATH is not asked: the program comes from the host's own directories or not at all. An
     * execve() that fails falls through to the next place. */
    fd_close_from(3);
    for (size_t i = 0; i < ELEMENTS(places); i++) {
        char path[64];
        snprintf(path, sizeof(path), "%s/%s", places[i], p->argv[0]);
        execve(path, p->argv, p->env);
    }
    _exit(EXIT_NOT_FOUND);
}

/* --- in the worker */

/* Of complaints, the newest part is what says why it ended. */
static void keep_tail(struct strbuf *b, const char *data, size_t len)
{
    if (len > b->max) {
        data += len - b->max;
        len = b->max;
    }
    if (b->len + len > b->max)
        strbuf_consume(b, b->len + len - b->max);
    strbuf_append(b, data, len);
}

/* Too much output is an error, because half an answer could be mistaken for a whole one; of
 * complaints the end is kept. */
static int drain_pipe(int *fd, struct strbuf *b, bool tail)
{
    char chunk[16384];
    ssize_t n = read(*fd, chunk, sizeof(chunk));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0) {
        fd_close(fd);
        return 0;
    }
    if (!tail)
        return strbuf_append(b, chunk, (size_t)n);
    keep_tail(b, chunk, (size_t)n);
    return 0;
}

static int watch_until_closed(struct worker *w, struct program *p, int *out, int *err_fd,
                              struct error *err)
{
    while (*out >= 0 || *err_fd >= 0) {
        struct pollfd polls[] = {{.fd = *out, .events = POLLIN}, {.fd = *err_fd, .events = POLLIN}};
        if (poll(polls, ELEMENTS(polls), TICK_MS) < 0 && errno != EINTR)
            return error_set(err, ERROR_INTERNAL, errno, "poll");
        if (polls[0].revents && drain_pipe(out, &p->out, false) < 0)
            return error_set(err, ERROR_TOO_LARGE, 0, "%s answers with more than %zu bytes",
                             p->argv[0], p->out.max);
        if (polls[1].revents)
            drain_pipe(err_fd, &p->err, true);
        if (clock_mono_ms() > w->deadline_ms)
            return error_set(err, ERROR_TIMEOUT, 0,
                             "the image was not fetched in %u s (images_pull_timeout)",
                             w->o->config.pull_timeout_ms / 1000);
        int r = p->on_tick ? p->on_tick(p->data, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int program_run(struct worker *w, struct program *p, struct error *err)
{
    int out[2], complaints[2], status;
    if (pipe2(out, O_CLOEXEC) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "pipe");
    if (pipe2(complaints, O_CLOEXEC) < 0) {
        close(out[0]);
        close(out[1]);
        return error_set(err, ERROR_INTERNAL, errno, "pipe");
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_program(w, p, parent, out[1], complaints[1]);
    int fork_errno = errno;
    close(out[1]);
    close(complaints[1]);
    _cleanup_close_ int out_fd = out[0], err_fd = complaints[0];
    if (pid < 0)
        return error_set(err, ERROR_UNAVAILABLE, fork_errno, "start %s", p->argv[0]);
    /* The wait is for both pipes to close and not for the process, which may end while its last
     * output is still in them. A failure ends the program before it is waited for. */
    int r = watch_until_closed(w, p, &out_fd, &err_fd, err);
    if (r < 0)
        kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "wait for %s", p->argv[0]);
    if (r < 0)
        return r;
    if (WIFSIGNALED(status))
        return error_set(err, ERROR_UNAVAILABLE, 0, "%s was killed by signal %d", p->argv[0],
                         WTERMSIG(status));
    if (WEXITSTATUS(status) == EXIT_NOT_FOUND)
        return error_set(err, ERROR_UNAVAILABLE, 0, "the program '%s' is not installed: it %s",
                         p->argv[0],
                         p->keeps_user ? "makes disks of images (Debian: e2fsprogs)"
                                       : "fetches images from registries (Debian's package has the "
                                         "same name)");
    if (WEXITSTATUS(status) == EXIT_CONFINED)
        return error_set(err, ERROR_INTERNAL, 0, "%s could not be confined", p->argv[0]);
    return WEXITSTATUS(status);
}
