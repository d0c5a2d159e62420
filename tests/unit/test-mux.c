/* SPDX-License-Identifier: Apache-2.0 */
/* Several connections over one stream: every byte, every end, and another side that makes no sense.
 */
#include "link/mux.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/tap.h"

static struct mux host, guest;
static int accepted[64], n_accepted, refuse, n_opened;

static int on_accept(void *data)
{
    int pair[2];
    (void)data;
    if (refuse || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    accepted[n_accepted++] = pair[1];
    return pair[0];
}

static void on_opened(void *data, int fd)
{
    (void)data;
    (void)fd;
    n_opened++;
}

static bool turn(struct mux *m)
{
    struct pollfd fds[MUX_FDS];
    mux_prepare(m, fds);
    poll(fds, MUX_FDS, 0);
    return mux_turn(m, fds);
}

static bool turns(int n)
{
    bool good = true;
    for (int i = 0; i < n && good; i++)
        good = turn(&host) && turn(&guest);
    return good;
}

static void begin(void)
{
    int port[2];
    for (int i = 0; i < n_accepted; i++)
        close(accepted[i]);
    n_accepted = n_opened = refuse = 0;
    fd_close(&host.port_fd);
    fd_close(&guest.port_fd);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, port) < 0)
        exit(1);
    mux_init(&host, port[0]);
    mux_init(&guest, port[1]);
    guest.accept = on_accept;
    host.on_opened = on_opened;
}

static int client(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        exit(1);
    fd_set_nonblock(pair[1], true);
    mux_open(&host, pair[0]);
    return pair[1];
}

static void test_bytes(void)
{
    char text[16];
    begin();
    int a = client(), b = client();
    ok(turns(4) && n_accepted == 2 && n_opened == 2, "two are opened");
    ok(write(a, "hello", 5) == 5 && write(b, "world", 5) == 5 && turns(4), "they speak");
    ok(read(accepted[0], text, 16) == 5 && memcmp(text, "hello", 5) == 0, "the first is heard");
    ok(read(accepted[1], text, 16) == 5 && memcmp(text, "world", 5) == 0, "the second is heard");
    ok(shutdown(a, SHUT_WR) == 0 && turns(4) && read(accepted[0], text, 16) == 0, "one side ends");
    ok(write(accepted[0], "late", 4) == 4 && turns(4) && read(a, text, 16) == 4,
       "the other goes on");
    close(accepted[0]);
    accepted[0] = -1;
    ok(turns(4) && read(a, text, 16) == 0 && !host.streams[0].used && !guest.streams[0].used,
       "and ends; its place is free on both sides");
    close(a);
    close(b);
    ok(turns(4) && read(accepted[1], text, 16) == 0, "a client that goes is heard to go");
}

static void test_much(void)
{
    enum { MANY = 3000000 };
    static char block[10000], back[10000];
    size_t sent = 0, got = 0, wrong = 0;
    begin();
    int a = client();
    turns(2);
    fd_set_nonblock(accepted[0], true);
    while (got < MANY) {
        for (size_t i = 0; i < sizeof(block); i++)
            block[i] = (char)((sent + i) * 31 >> 3);
        ssize_t n = sent < MANY ? write(a, block, sizeof(block)) : 0;
        sent += n > 0 ? (size_t)n : 0;
        if (!turns(1))
            break;
        n = read(accepted[0], back, sizeof(back));
        for (ssize_t i = 0; i < n; i++)
            wrong += back[i] != (char)((got + (size_t)i) * 31 >> 3);
        got += n > 0 ? (size_t)n : 0;
    }
    ok(got >= MANY && wrong == 0, "three million bytes arrive in their order (%zu, %zu)", got,
       wrong);
    close(a);
}

static void test_refusals(void)
{
    char text[4];
    begin();
    refuse = 1;
    int a = client();
    ok(turns(4) && n_opened == 0 && read(a, text, 4) == 0 && !host.streams[0].used,
       "one that is not taken ends, and its place is free");
    close(a);
    refuse = 0;
    int all[MUX_STREAMS];
    for (size_t i = 0; i < MUX_STREAMS; i++)
        all[i] = client();
    ok(!mux_has_room(&host), "there is an end to how many");
    for (size_t i = 0; i < MUX_STREAMS; i++)
        close(all[i]);
}

static void test_nonsense(void)
{
    static const uint8_t cases[][8] = {
        {9, 0},             /* an unknown kind */
        {1, 0},             /* the side that accepts opens */
        {3, 5, 1, 0, 'x'},  /* bytes for a connection that there is not */
        {3, 0, 0xff, 0xff}, /* more bytes than a frame has */
        {2, 200},           /* a number that there is not */
        {4, 0, 1, 0},       /* an end with bytes */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        int a = client();
        turns(4);
        bool sent = write(guest.port_fd, cases[i], sizeof(cases[i])) == sizeof(cases[i]);
        ok(sent && !turn(&host), "case %zu makes no sense, and ends the port", i);
        close(a);
    }
}

int main(void)
{
    host.port_fd = guest.port_fd = -1;
    test_bytes();
    test_much();
    test_refusals();
    test_nonsense();
    return tap_done();
}
