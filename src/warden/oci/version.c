#include "warden/oci/version.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/helper.h"
#include "warden/control.h"
#include "warden/state.h"

#define ASK_LIMIT_MS 5000
#define ANSWER_MAX   512
#define NOBODY_ID    65534

void oci_versions_init(struct warden *w)
{
    for (int b = 0; b < _OCI_BACKEND_MAX; b++)
        w->oci_versions[b] =
            (struct oci_version){.warden = w, .backend = (enum oci_backend)b, .fd = -1};
}

/* Never returns. Its program is the host's, but has no business with the host's files. */
static void ask(const char *program, int out) __attribute__((noreturn));

static void ask(const char *program, int out)
{
    static char *const env[] = {(char *)"PATH=/usr/sbin:/usr/bin", NULL};
    char *const argv[] = {(char *)program, (char *)"--version", NULL};
    const struct rlimit cpu = {2, 2}, core = {0, 0};
    pid_t warden = getppid();
    child_reset_signals();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0 || setsid() < 0 ||
        setrlimit(RLIMIT_CPU, &cpu) < 0 || setrlimit(RLIMIT_CORE, &core) < 0 ||
        setgroups(0, NULL) < 0 || setresgid(NOBODY_ID, NOBODY_ID, NOBODY_ID) < 0 ||
        setresuid(NOBODY_ID, NOBODY_ID, NOBODY_ID) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        _exit(126);
    fd_close_from(3);
    helper_tie(warden); /* the change of ids undid it */
    execve(program, argv, env);
    _exit(127);
}

/* "crun version 1.8.1", "kata-runtime  : 3.2.0": the last word of the first line. */
static void take_version(char *answer, char *ret)
{
    answer[strcspn(answer, "\r\n")] = 0;
    size_t end = strlen(answer);
    while (end && answer[end - 1] == ' ')
        answer[--end] = 0;
    const char *word = strrchr(answer, ' ');
    snprintf(ret, OCI_VERSION_SIZE, "%s", word ? word + 1 : answer);
    for (char *p = ret; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

static void tell(const struct oci_version *v)
{
    struct plan_reply event;
    warden_probe(v->warden, CELL_OCI, v->backend, &event);
    event.event = EVENT_PROBED;
    control_send(v->warden, &event, -1);
}

static void on_answer(pid_t pid, int wait_status, void *data)
{
    struct oci_version *v = data;
    char answer[ANSWER_MAX + 1];
    (void)pid;
    ssize_t n = read(v->fd, answer, ANSWER_MAX);
    bool well = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    answer[n > 0 ? n : 0] = 0;
    watch_remove(v->timer);
    v->child_watch = v->timer = NULL;
    v->pid = 0;
    fd_close(&v->fd);
    if (well && n > 0)
        take_version(answer, v->text);
    v->error = v->text[0] ? 0 : ENOEXEC;
    if (v->error && WIFEXITED(wait_status))
        snprintf(v->text, sizeof(v->text), "ends with %d when asked for its version",
                 WEXITSTATUS(wait_status));
    else if (v->error)
        snprintf(v->text, sizeof(v->text), "does not answer when asked for its version");
    tell(v);
}

static void on_too_long(void *data)
{
    struct oci_version *v = data;
    v->timer = NULL;
    kill(v->pid, SIGKILL);
}

static void start(struct oci_version *v)
{
    struct warden *w = v->warden;
    int pair[2];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    pid_t pid = helper_fork(&pair[1], 1);
    if (pid == 0) {
        fd_set_nonblock(pair[1], false);
        ask(w->oci.path[v->backend], pair[1]);
    }
    close(pair[1]);
    v->fd = pair[0];
    v->child_watch = pid > 0 ? warden_watch_child(w, pid, on_answer, v) : NULL;
    if (!v->child_watch) {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        fd_close(&v->fd);
        return;
    }
    v->pid = pid;
    v->timer = warden_watch_timer(w, ASK_LIMIT_MS, on_too_long, v);
}

void oci_versions_ask(struct warden *w)
{
    for (int b = OCI_NONE + 1; b < _OCI_BACKEND_MAX; b++)
        if (w->oci.path[b][0])
            start(&w->oci_versions[b]);
}

void oci_versions_done(struct warden *w)
{
    for (int b = 0; b < _OCI_BACKEND_MAX; b++) {
        struct oci_version *v = &w->oci_versions[b];
        watch_remove(v->child_watch);
        watch_remove(v->timer);
        if (v->pid > 0) {
            kill(v->pid, SIGKILL);
            waitpid(v->pid, NULL, 0);
        }
        fd_close(&v->fd);
        v->pid = 0;
        v->child_watch = v->timer = NULL;
    }
}

void oci_version_describe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    ret->error = w->oci_versions[b].error;
    snprintf(ret->message, sizeof(ret->message), "%s", w->oci_versions[b].text);
}
