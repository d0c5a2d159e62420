/* SPDX-License-Identifier: Apache-2.0 */
/* However many children have ended, the runner collects a bounded number of them in one turn and
 * comes back for the others. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"
#include "toolrunner/runner.h"

/* Makes n children and returns once all of them have ended and wait to be collected. */
static bool make_ended(int n)
{
    siginfo_t info;
    bool good = true;
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        good = good && pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0;
    }
    return good;
}

static int count_ended(void)
{
    int n = 0;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        n++;
    return n;
}

/* Whether there was one; takes it. */
static bool take_signal(void)
{
    sigset_t set;
    struct timespec now = {0};
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return sigtimedwait(&set, NULL, &now) == SIGCHLD;
}

int main(void)
{
    static struct runner r;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    runner_init_state(&r, &(struct runner_config){.conn_fd = -1, .channel_fd = -1});

    ok(make_ended(RUNNER_REAP_MAX + 20), "more children than one turn collects");
    take_signal();
    runner_reap(&r);
    ok(take_signal(), "it comes back");
    ok(count_ended() == 20, "and has left the others for that");

    ok(make_ended(RUNNER_REAP_MAX + 20), "the same again");
    take_signal();
    runner_reap(&r);
    take_signal();
    runner_reap(&r);
    ok(!take_signal() && count_ended() == 0, "two turns collect all of them");

    ok(make_ended(3), "a few children");
    take_signal();
    runner_reap(&r);
    ok(!take_signal() && count_ended() == 0, "are collected in one turn");
    return tap_done();
}
