/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps CLIENTS requests under way for SECONDS, each on a connection of its own, and prints how
 * many were answered a second, how many with 200, 429 and anything else, and the median and 99th
 * percentile of the latency of the 200s in microseconds. A 429 is asked again after PAUSE_MS.
 *
 *   load PORT PATH BODY CLIENTS SECONDS */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX  65536
#define SAMPLES_MAX 1000000
#define PAUSE_MS    20

struct client {
    int fd;
    double sent_us, again_us; /* again_us: waits after a 429; else 0 */
    size_t have;
    char answer[ANSWER_MAX];
};

static char *request;
static size_t request_len;
static double samples[SAMPLES_MAX];
static size_t n_samples, n_limited, n_other;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void ask(struct client *c)
{
    c->have = 0;
    c->again_us = 0;
    c->sent_us = now_us();
    if (write(c->fd, request, request_len) != (ssize_t)request_len)
        err(1, "write");
}

static void dial(struct client *c, int port, int epoll_fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((unsigned short)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        err(1, "connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
}

static bool whole(const struct client *c)
{
    const char *end = strstr(c->answer, "\r\n\r\n"),
               *length = strcasestr(c->answer, "Content-Length: ");
    return end && length &&
           c->have >= (size_t)(end + 4 - c->answer) + strtoul(length + 16, NULL, 10);
}

static void on_readable(struct client *c)
{
    ssize_t n = read(c->fd, c->answer + c->have, ANSWER_MAX - 1 - c->have);
    if (n <= 0)
        errx(1, "the server closed a connection");
    c->have += (size_t)n;
    c->answer[c->have] = 0;
    if (!whole(c))
        return;
    if (strncmp(c->answer, "HTTP/1.1 429", 12) == 0) {
        n_limited++;
        c->again_us = now_us() + PAUSE_MS * 1000.0;
        return;
    }
    if (strncmp(c->answer, "HTTP/1.1 200", 12) != 0)
        n_other++;
    else if (n_samples < SAMPLES_MAX)
        samples[n_samples++] = now_us() - c->sent_us;
    ask(c);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        errx(2, "usage: load PORT PATH BODY CLIENTS SECONDS");
    int n = atoi(argv[4]), epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    double seconds = atof(argv[5]), start = now_us();
    request_len = (size_t)asprintf(&request,
                                   "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                                   "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                   argv[2], strlen(argv[3]), argv[3]);
    struct client *clients = calloc((size_t)n, sizeof(*clients));
    for (int i = 0; i < n; i++) {
        dial(&clients[i], atoi(argv[1]), epoll_fd);
        ask(&clients[i]);
    }
    while (now_us() - start < seconds * 1e6) {
        struct epoll_event events[64];
        int ready = epoll_wait(epoll_fd, events, 64, 10);
        for (int i = 0; i < ready; i++)
            on_readable(events[i].data.ptr);
        for (int i = 0; i < n && n_limited; i++)
            if (clients[i].again_us && now_us() >= clients[i].again_us)
                ask(&clients[i]);
    }
    double took = (now_us() - start) / 1e6;
    qsort(samples, n_samples, sizeof(*samples), compare_doubles);
    printf("%.0f\t%zu\t%zu\t%zu\t%.0f\t%.0f\n", (double)n_samples / took, n_samples, n_limited,
           n_other, n_samples ? samples[n_samples / 2] : 0,
           n_samples ? samples[n_samples * 99 / 100] : 0);
    return 0;
}
