/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"

static int pipe_fds[2] = {-1, -1};
static volatile sig_atomic_t n_quits;

static void on_signal(int signo)
{
    unsigned char byte = (unsigned char)signo;
    if (signo != SIGWINCH && ++n_quits > SIGNALS_TO_QUIT)
        _exit(128 + signo);
    /* A full pipe means that plenty are waiting already. */
    if (write(pipe_fds[1], &byte, 1) < 0)
        return;
}

int signals_fd(void)
{
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    if (pipe_fds[0] >= 0)
        return pipe_fds[0];
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        abort();
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < ELEMENTS(watched); i++)
        sigaction(watched[i], &sa, NULL);
    return pipe_fds[0];
}

int signals_read(void)
{
    unsigned char byte;
    return read(signals_fd(), &byte, 1) == 1 ? byte : 0;
}
