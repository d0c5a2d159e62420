/* SPDX-License-Identifier: Apache-2.0 */
#include "pod/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "proto/witness.h"

#define WITNESS_BACKLOG 64
#define OPEN_MS         30000
#define CLOSED_MS       15000 /* how late a cluster may be with its enforcement */
#define TRY_MS          1200  /* longer than it takes until a lost first packet is sent again */
#define PAUSE_MS        200
#define CLOSED_TRIES    2 /* in a row, so that one lost packet is no wall */

/* Every address of both families; of one alone where the node has no IPv6. */
static int witness_listen(void)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(WITNESS_PORT)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(WITNESS_PORT)};
    int off = 0;
    _cleanup_close_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
                 bind(fd, (const struct sockaddr *)&v6, sizeof(v6)) == 0;
    if (!bound) {
        fd_close(&fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, (const struct sockaddr *)&v4, sizeof(v4)) < 0)
            return -errno;
    }
    return listen(fd, WITNESS_BACKLOG) < 0 ? -errno : fd_steal(&fd);
}

int reach_serve(const char **ret_what)
{
    *ret_what = "listen as a witness";
    _cleanup_close_ int listener = witness_listen();
    if (listener < 0)
        return listener;
    *ret_what = "take a connection";
    for (;;) {
        _cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            (void)!write(fd, WITNESS_GREETING, strlen(WITNESS_GREETING));
        else if (errno != EINTR && errno != ECONNABORTED && errno != EMFILE && errno != ENFILE)
            return -errno;
    }
}

static void reach_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000l}, NULL);
}

int reach_until_open(const char *address)
{
    int64_t end_ms = clock_mono_ms() + OPEN_MS;
    while (witness_try(address, true, TRY_MS) != WITNESS_REACHED) {
        if (clock_mono_ms() > end_ms)
            return REACH_NEVER_OPEN;
        reach_pause();
    }
    return REACH_DONE;
}

int reach_until_closed(const char *address)
{
    int64_t end_ms = clock_mono_ms() + CLOSED_MS;
    for (int closed = 0; closed < CLOSED_TRIES;) {
        closed = witness_try(address, false, TRY_MS) == WITNESS_CLOSED ? closed + 1 : 0;
        if (!closed && clock_mono_ms() > end_ms)
            return REACH_STILL_OPEN;
        reach_pause();
    }
    return REACH_DONE;
}
