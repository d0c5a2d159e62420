/* SPDX-License-Identifier: Apache-2.0 */
/* Which version of an OCI runtime is there. The program is the host's, but has no business with the
 * host's files, so it is asked by a process without rights; what it prints is bounded and made
 * harmless. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/helper.h"
#include "oci/launcher.h"

#define ASK_LIMIT_MS 5000
#define ANSWER_MAX   512
#define NOBODY_ID    65534

static int drop_rights(void)
{
    const struct rlimit core = {0, 0};
    if (setrlimit(RLIMIT_CORE, &core) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(NOBODY_ID, NOBODY_ID, NOBODY_ID) < 0 ||
        setresuid(NOBODY_ID, NOBODY_ID, NOBODY_ID) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return child_die_with_warden(); /* the change of ids undid it */
}

static void exec_program(const char *program, int out) __attribute__((noreturn));

static void exec_program(const char *program, int out)
{
    static char *const env[] = {(char *)"PATH=/usr/sbin:/usr/bin", NULL};
    char *const argv[] = {(char *)program, (char *)"--version", NULL};
    const struct rlimit cpu = {2, 2};
    if (setpgid(0, 0) < 0 || dup2(out, 1) < 0 || dup2(0, 2) < 0 || setrlimit(RLIMIT_CPU, &cpu) < 0)
        _exit(126);
    fd_close_from(3);
    execve(program, argv, env);
    _exit(127);
}

/* Its wait status, once it has ended by itself or for having taken too long. What it started ends
 * with it: its process group has its number, which no other process can have until it is waited
 * for. */
static int wait_for_end(pid_t pid)
{
    _cleanup_close_ int pidfd = pidfd_open(pid, 0);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int status = 0;
    if (pidfd < 0 || poll(&p, 1, ASK_LIMIT_MS) < 1)
        kill(pid, SIGKILL);
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return status;
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

static void ask_program(const char *program, struct oci_report *ret)
{
    char answer[ANSWER_MAX + 1];
    int pair[2];
    pid_t pid = pipe2(pair, O_CLOEXEC) < 0 ? -errno : helper_fork(&pair[1], 1);
    if (pid == 0)
        exec_program(program, pair[1]);
    ret->error = ENOEXEC;
    if (pid < 0)
        return;
    int status = wait_for_end(pid);
    fd_set_nonblock(pair[0], true);
    ssize_t n = read(pair[0], answer, ANSWER_MAX);
    answer[n > 0 ? n : 0] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        take_version(answer, ret->text);
    ret->error = ret->text[0] ? 0 : ENOEXEC;
    if (ret->error && WIFEXITED(status))
        snprintf(ret->text, sizeof(ret->text), "ends with %d when asked for its version",
                 WEXITSTATUS(status));
}

int version_report(const struct oci_start *start, int run_fd)
{
    const char *program = start->programs[start->backend];
    const char *const *platforms = oci_flavour((enum oci_backend)start->backend)->platforms;
    struct oci_report report = {.backend = start->backend};
    report.platform_known = platforms && platform_load(run_fd, program, platforms);
    int r = drop_rights();
    if (r < 0)
        return r;
    ask_program(program, &report);
    if (report.error && !report.text[0])
        snprintf(report.text, sizeof(report.text), "does not answer when asked for its version");
    ssize_t n = fd_send_msg(CHILD_CHANNEL_FD, &report, sizeof(report), NULL, 0);
    return n < 0 ? (int)n : 0;
}
