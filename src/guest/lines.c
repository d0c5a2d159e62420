/* SPDX-License-Identifier: Apache-2.0 */
/* A process of its own beside the guest's first: takes the connections that mas-vmm has from the
 * machine's vsock socket and gives them to the runner, which tells JSON lines and frames apart. */
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/internal.h"
#include "proto/channel.h"
#include "link/mux.h"

static int give_to_runner(void *data)
{
    const struct guest *g = data;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    if (fd_send_msg(g->channel_fd, CHANNEL_CLIENT, 1, &pair[1], 1) < 0)
        fd_close(&pair[0]);
    close(pair[1]);
    return pair[0];
}

static void __attribute__((noreturn)) serve_lines(struct guest *g)
{
    static struct mux m;
    struct pollfd fds[MUX_FDS];
    mux_init(&m, g->lines_fd);
    m.accept = give_to_runner;
    m.data = g;
    do {
        mux_prepare(&m, fds);
        poll(fds, MUX_FDS, m.stuck_since_ms ? MUX_LOOK_MS : -1);
    } while (mux_turn(&m, fds));
    _exit(0);
}

void guest_start_lines(struct guest *g)
{
    g->lines = fork();
    if (g->lines == 0)
        serve_lines(g);
}

/* Its clients are those of the machine that this one is a copy of. */
void guest_restart_lines(struct guest *g)
{
    if (g->lines > 0) {
        kill(g->lines, SIGKILL);
        waitpid(g->lines, NULL, 0);
    }
    guest_start_lines(g);
}
