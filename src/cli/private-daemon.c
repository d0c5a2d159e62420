/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/private-daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "libsbx/sbx.h"

#define START_TIMEOUT_MS 15000
#define START_STEP_MS    5
#define STOP_TIMEOUT_MS  10000
#define LOG_MAX          (1u << 20)

struct private_daemon {
    char *dir;
    char *address;
    pid_t pid; /* 0 when there is none */
};

const char *private_daemon_address(const struct private_daemon *d)
{
    return d->address;
}

static int make_own_dir(struct private_daemon *d, struct sbx_error *err)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (!base || access(base, W_OK) < 0)
        base = getenv("TMPDIR");
    if (!base || !*base)
        base = "/tmp";
    d->dir = xasprintf("%s/sbx-XXXXXX", base);
    if (mkdtemp(d->dir))
        return 0;
    int e = errno;
    cli_set_error(err, NULL, "make a directory in '%s': %s", base, strerror(e));
    free(d->dir);
    d->dir = NULL;
    return -1;
}

/* In the child, between fork and exec. Its death signal makes it end with us; its log goes to a
 * file, which is shown only if it does not start. */
static void become_daemon(const struct private_daemon *d, const char *path, pid_t parent)
{
    _cleanup_free_ char *log = xasprintf("%s/log", d->dir);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC),
        out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (null < 0 || out < 0)
        _exit(EXIT_SBX_FAILED);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    close_range(3, ~0U, 0);
    setsid(); /* Ctrl-C is for the command, which we pass it on to */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_SBX_FAILED);
    signal(SIGPIPE, SIG_DFL);
    execlp(path, path, "--listen", d->address, "--state-dir", d->dir, (char *)NULL);
    dprintf(STDERR_FILENO, "start '%s': %s\n", path, strerror(errno));
    _exit(127);
}

/* The log's last line says why it ended. */
static void explain_start(const struct private_daemon *d, const char *path, struct sbx_error *err)
{
    _cleanup_strbuf_ struct strbuf log = STRBUF_INIT(LOG_MAX);
    _cleanup_free_ char *file = xasprintf("%s/log", d->dir);
    fd_read_file_at(AT_FDCWD, file, &log);
    while (log.len && log.data[log.len - 1] == '\n')
        log.data[--log.len] = 0;
    const char *line = log.len ? strrchr(log.data, '\n') : NULL;
    line = line ? line + 1 : log.len ? log.data : "it said nothing";
    cli_set_error(err, "unavailable", "no daemon answers, and '%s' does not start: %s", path, line);
}

static bool has_ended(struct private_daemon *d)
{
    if (waitpid(d->pid, NULL, WNOHANG) == 0)
        return false;
    d->pid = 0;
    return true;
}

static int wait_ready(struct private_daemon *d, const char *path, struct sbx_error *err)
{
    int64_t deadline = clock_mono_ms() + START_TIMEOUT_MS;
    struct sbx_client *c = sbx_client_new(d->address, "", err);
    if (!c)
        return -1;
    int r = -1;
    for (;;) {
        if (sbx_call(c, "GET", "/healthz", NULL, NULL, NULL) == 0) {
            r = 0;
            break;
        }
        if (has_ended(d) || clock_mono_ms() > deadline) {
            explain_start(d, path, err);
            break;
        }
        poll(NULL, 0, START_STEP_MS);
    }
    sbx_client_free(c);
    return r;
}

struct private_daemon *private_daemon_start(struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_find_daemon(err);
    if (!path)
        return NULL;
    signals_fd(); /* a directory to remove, even when interrupted */
    struct private_daemon *d = new0(struct private_daemon);
    if (make_own_dir(d, err) < 0)
        goto fail;
    d->address = xasprintf("unix:%s/sock", d->dir);
    pid_t parent = getpid();
    d->pid = fork();
    if (d->pid == 0)
        become_daemon(d, path, parent);
    if (d->pid < 0) {
        d->pid = 0;
        cli_set_error(err, NULL, "fork: %s", strerror(errno));
        goto fail;
    }
    if (wait_ready(d, path, err) == 0)
        return d;
fail:
    private_daemon_stop(d);
    return NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

/* True when it ended within the time. */
static bool wait_end(struct private_daemon *d, int timeout_ms)
{
    int fd = (int)syscall(SYS_pidfd_open, d->pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = fd >= 0 ? poll(&p, 1, timeout_ms) : 1;
    fd_close(&fd);
    if (n > 0)
        waitpid(d->pid, NULL, 0);
    return n > 0;
}

static void end_process(struct private_daemon *d)
{
    /* The first asks it to drain, the second to stop. */
    kill(d->pid, SIGTERM);
    if (wait_end(d, STOP_TIMEOUT_MS))
        return;
    kill(d->pid, SIGTERM);
    if (wait_end(d, STOP_TIMEOUT_MS))
        return;
    cli_warn("the private daemon (pid %d) does not end; killing it", (int)d->pid);
    kill(d->pid, SIGKILL);
    waitpid(d->pid, NULL, 0);
}

void private_daemon_stop(struct private_daemon *d)
{
    if (!d)
        return;
    if (d->pid)
        end_process(d);
    if (d->dir && nftw(d->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0)
        cli_warn("'%s' is left behind: %s", d->dir, strerror(errno));
    free(d->dir);
    free(d->address);
    free(d);
}
