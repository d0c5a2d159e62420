/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "kube/access.h"

#define END_MS 5000 /* how long the end of a killed program is waited for */

/* What the program gets: the server that the credential is for, and that no person can be asked. */
static char *format_info(const struct kube_access *a)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KUBE_FILE_MAX);
    _cleanup_json_ json_t *info =
        json_pack("{s:s, s:s, s:{s:b, s:{s:s}}}", "apiVersion", a->plugin_version, "kind",
                  "ExecCredential", "spec", "interactive", 0, "cluster", "server", a->server);
    json_format(info, &b);
    return xasprintf("KUBERNETES_EXEC_INFO=%s", b.data ? b.data : "{}");
}

/* --- the process that runs it */

static void run_program(const struct kube_access *a, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0)
        _exit(126);
    fd_close_from(3);
    for (char **env = a->plugin_env; env && *env; env++)
        putenv(*env);
    putenv(format_info(a));
    execvp(a->plugin[0], a->plugin);
    _exit(127);
}

/* Up to its end of output, its limit or its deadline. */
static void read_output(int fd, struct strbuf *b, int64_t deadline)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char bytes[4096];
        int64_t left = deadline - clock_mono_ms();
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return;
        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n <= 0 || strbuf_append(b, bytes, (size_t)n) < 0)
            return;
    }
}

/* Ends the program, and what it started in its group. It may have left that group, and one that
 * hangs in the kernel ends when that lets it go: then it is reaped by a later request. */
static void end_program(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    int64_t deadline = clock_mono_ms() + END_MS;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, WNOHANG) == 0 && clock_mono_ms() < deadline)
        nanosleep(&pause, NULL);
}

static void answer_request(const struct kube_access *a, int sock)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KUBE_PLUGIN_OUTPUT_MAX);
    int fds[2];
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    if (pipe2(fds, O_CLOEXEC) < 0)
        _exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        run_program(a, fds[1]);
    }
    close(fds[1]);
    if (pid > 0) {
        read_output(fds[0], &b, clock_mono_ms() + KUBE_PLUGIN_TIMEOUT_MS);
        end_program(pid); /* nothing of it stays */
    }
    close(fds[0]);
    if (send(sock, b.len ? b.data : "-", b.len ? b.len : 1, MSG_NOSIGNAL) < 0)
        _exit(1);
}

static void serve_requests(const struct kube_access *a, int sock)
{
    char request;
    prctl(PR_SET_NAME, "mas-kube-plugin", 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (recv(sock, &request, 1, 0) == 1)
        answer_request(a, sock);
    _exit(0);
}

int kube_plugin_start(struct kube_plugin *ret, const struct kube_access *access)
{
    int socks[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid < 0) {
        int r = -errno;
        close(socks[0]);
        close(socks[1]);
        return r;
    }
    if (pid == 0) {
        int sock = fcntl(socks[1], F_DUPFD_CLOEXEC, 3);
        const int kept[] = {sock};
        fd_keep_only(kept, 1);
        serve_requests(access, sock);
    }
    close(socks[1]);
    ret->fd = socks[0];
    return 0;
}

void kube_plugin_stop(struct kube_plugin *p)
{
    fd_close(&p->fd); /* which ends its loop */
}

int kube_plugin_ask(struct kube_plugin *p)
{
    return send(p->fd, "?", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -errno;
}

/* --- what it printed */

void kube_credential_done(struct kube_credential *c)
{
    free(c->token);
    free(c->certificate);
    free(c->key);
    *c = (struct kube_credential){0};
}

static bool is_token(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~')
            return false;
    return *text != 0;
}

/* "2026-11-15T18:48:12Z"; 0 for anything else. */
static int64_t parse_time(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!end || (*end != 'Z' && *end != '.'))
        return 0;
    time_t t = timegm(&tm);
    return t > 0 && t < (1ll << 33) ? (int64_t)t * 1000000000ll : 0;
}

static char *dup_nonempty(const char *text)
{
    return *text ? xstrdup(text) : NULL;
}

int kube_credential_parse(struct kube_credential *ret, const char *text, size_t len,
                          const char *version, struct error *err)
{
    _cleanup_json_ json_t *o = json_parse_any(text, len, err);
    const json_t *status = json_object_get(o, "status");
    if (!o)
        return -EINVAL;
    if (strcmp(json_member_text(o, "kind"), "ExecCredential") != 0 ||
        strcmp(json_member_text(o, "apiVersion"), version) != 0)
        return error_set(err, ERROR_INVALID, 0, "it is no ExecCredential of %s", version);
    const char *token = json_member_text(status, "token");
    _cleanup_kube_credential_ struct kube_credential c = {
        .token = dup_nonempty(token),
        .certificate = dup_nonempty(json_member_text(status, "clientCertificateData")),
        .key = dup_nonempty(json_member_text(status, "clientKeyData")),
        .expires_real_ns = parse_time(json_member_text(status, "expirationTimestamp")),
    };
    if ((c.token && !is_token(c.token)) || !c.certificate != !c.key || (!c.token && !c.key))
        return error_set(err, ERROR_INVALID, 0, "it has no usable token or certificate");
    *ret = c;
    c = (struct kube_credential){0};
    return 0;
}
