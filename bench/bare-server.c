/* SPDX-License-Identifier: Apache-2.0 */
/* What everything else is compared with: an HTTP server that runs a program without any sandbox and
 * answers with its exit code and output as JSON. One thread, epoll, keep-alive, posix_spawn(),
 * pipes for stdout and stderr, a pidfd for the end; nothing is checked, logged or kept.
 *
 *   bare-server PORT PROGRAM [ARG...]       any POST runs it */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUT_MAX  65536
#define OUTPUT_MAX 65536

enum part { CLIENT, OUT, ERR, CHILD, _PARTS };

/* A client and the one command it may have running; an epoll event is one of its parts. */
struct client {
    struct source {
        struct client *client;
        int fd;
    } parts[_PARTS];
    pid_t pid;
    int open; /* of OUT, ERR and CHILD */
    int status;
    size_t n_in, n_out;
    char in[INPUT_MAX], out[OUTPUT_MAX];
};

static int epoll_fd, listener;
static char **program;
extern char **environ;

static void watch(struct client *c, enum part part, int fd)
{
    c->parts[part] = (struct source){c, fd};
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &c->parts[part]};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
        err(1, "epoll_ctl");
}

static void run(struct client *c)
{
    int out[2], fail[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(fail, O_CLOEXEC) < 0)
        err(1, "pipe2");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, fail[1], 2);
    int r = posix_spawn(&c->pid, program[0], &actions, NULL, program, environ);
    if (r)
        errx(1, "%s: %s", program[0], strerror(r));
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(fail[1]);
    c->n_out = 0;
    c->open = 3;
    watch(c, OUT, out[0]);
    watch(c, ERR, fail[0]);
    watch(c, CHILD, (int)syscall(SYS_pidfd_open, c->pid, 0));
}

static void answer(struct client *c)
{
    char body[OUTPUT_MAX + 256], head[256];
    int n = snprintf(body, sizeof(body),
                     "{\"status\":\"completed\",\"exit_code\":%d,\"stdout\":\"%.*s\"}",
                     WEXITSTATUS(c->status), (int)c->n_out, c->out);
    int h = snprintf(
        head, sizeof(head),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", n);
    char all[sizeof(head) + sizeof(body)];
    memcpy(all, head, (size_t)h);
    memcpy(all + h, body, (size_t)n);
    if (write(c->parts[CLIENT].fd, all, (size_t)(h + n)) != h + n)
        warn("answer");
}

/* Runs the program once a whole request is there. */
static void take_request(struct client *c)
{
    c->in[c->n_in] = 0;
    char *end = memmem(c->in, c->n_in, "\r\n\r\n", 4);
    char *length = end ? strcasestr(c->in, "\r\nContent-Length:") : NULL;
    if (!end || c->open)
        return;
    size_t whole =
        (size_t)(end + 4 - c->in) + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
    if (c->n_in < whole)
        return;
    memmove(c->in, c->in + whole, c->n_in - whole);
    c->n_in -= whole;
    run(c);
}

/* A child that is about to be its program still holds our descriptors for a moment, and epoll
 * watches what anybody holds: an event may come for what is closed already, so that clients are
 * never freed. There are few. */
static void close_part(struct source *s)
{
    close(s->fd);
    s->fd = -1;
}

static void on_client(struct client *c)
{
    ssize_t n = read(c->parts[CLIENT].fd, c->in + c->n_in, INPUT_MAX - 1 - c->n_in);
    if (n <= 0) {
        close_part(&c->parts[CLIENT]);
        return;
    }
    c->n_in += (size_t)n;
    take_request(c);
}

static void part_done(struct client *c, struct source *s)
{
    close_part(s);
    if (--c->open || c->parts[CLIENT].fd < 0)
        return;
    answer(c);
    take_request(c);
}

static void on_event(struct source *s)
{
    struct client *c = s->client;
    if (s->fd < 0)
        return;
    if (s == &c->parts[CLIENT]) {
        on_client(c);
    } else if (s == &c->parts[CHILD]) {
        waitpid(c->pid, &c->status, 0);
        part_done(c, s);
    } else {
        ssize_t n = read(s->fd, c->out + c->n_out, OUTPUT_MAX - c->n_out);
        if (n > 0)
            c->n_out += (size_t)n;
        else
            part_done(c, s);
    }
}

static void accept_client(void)
{
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        err(1, "accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct client *c = calloc(1, sizeof(*c));
    if (!c)
        err(1, "calloc");
    watch(c, CLIENT, fd);
}

static void start_listening(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((unsigned short)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 1024) < 0)
        err(1, "port %d", port);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        errx(2, "usage: bare-server PORT PROGRAM [ARG...]");
    program = argv + 2;
    start_listening(atoi(argv[1]));
    for (;;) {
        struct epoll_event event;
        /* One at a time: an event may close what a later one of the same batch belongs to. */
        if (epoll_wait(epoll_fd, &event, 1, -1) != 1)
            continue;
        if (event.data.ptr)
            on_event(event.data.ptr);
        else
            accept_client();
    }
}
