/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of the rows about networks (network.py): a server, a client, and the barest proxy that
 * a client can be compared with.
 *
 *   net-peer serve ADDRESS PORT               answers each line "N" with N bytes
 *   net-peer proxy ADDRESS PORT               CONNECT and nothing else, one connection at a time
 *   net-peer fetch TIMES N HOST PORT [PROXY]  asks for N bytes, each time by a new connection,
 * directly or through the proxy at that port of the loopback; prints the least of the times in
 * microseconds: a busy moment only ever adds to one */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE 262144

static char piece[PIECE];

static int die(const char *what)
{
    perror(what);
    exit(1);
}

static void send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            die("send");
        data += n;
        len -= (size_t)n;
    }
}

static int set_nodelay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static int dial(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *list;
    if (getaddrinfo(host, port, &hints, &list) != 0)
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, list->ai_addr, list->ai_addrlen) < 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd < 0 ? fd : set_nodelay(fd);
}

static int listen_at(const char *address, const char *port)
{
    int one = 1;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    inet_pton(AF_INET, address, &sa.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 128) < 0)
        die("listen");
    return fd;
}

/* Up to and with the end that is looked for; 0 where there is none. */
static size_t receive_until(int fd, char *text, size_t size, const char *end)
{
    size_t len = 0;
    while (len < size - 1) {
        ssize_t n = recv(fd, text + len, size - 1 - len, 0);
        if (n <= 0)
            return 0;
        len += (size_t)n;
        text[len] = 0;
        if (strstr(text, end))
            return len;
    }
    return 0;
}

static void serve_one(int fd)
{
    char line[64];
    if (!receive_until(fd, line, sizeof(line), "\n"))
        return;
    for (long long left = atoll(line); left > 0; left -= PIECE)
        send_all(fd, piece, left < PIECE ? (size_t)left : PIECE);
}

static void relay(int a, int b)
{
    struct pollfd fds[] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            return;
        for (int i = 0; i < 2; i++) {
            if (!fds[i].revents)
                continue;
            ssize_t n = recv(fds[i].fd, piece, sizeof(piece), 0);
            if (n <= 0)
                return;
            send_all(fds[!i].fd, piece, (size_t)n);
        }
    }
}

static void proxy_one(int fd)
{
    static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    char head[4096], host[256], port[8];
    if (!receive_until(fd, head, sizeof(head), "\r\n\r\n") ||
        sscanf(head, "CONNECT %255[^:]:%7[0-9] ", host, port) != 2)
        return;
    int remote = dial(host, port);
    if (remote < 0)
        return;
    send_all(fd, ok, sizeof(ok) - 1);
    relay(fd, remote);
    close(remote);
}

static void accept_all(int listener, void (*serve)(int fd))
{
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        serve(set_nodelay(fd));
        close(fd);
    }
}

static void ask_proxy(int fd, const char *host, const char *port)
{
    char head[1024];
    int n = snprintf(head, sizeof(head), "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", host,
                     port, host, port);
    send_all(fd, head, (size_t)n);
    if (!receive_until(fd, head, sizeof(head), "\r\n\r\n") ||
        strncmp(head, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "the proxy answers: %.200s\n", head);
        exit(1);
    }
}

static long long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

static long long fetch_once(const char *bytes, const char *host, const char *port,
                            const char *proxy)
{
    char line[64];
    long long began = now_us(), left = atoll(bytes);
    int fd = dial(proxy ? "127.0.0.1" : host, proxy ? proxy : port);
    if (fd < 0)
        die("connect");
    if (proxy)
        ask_proxy(fd, host, port);
    send_all(fd, line, (size_t)snprintf(line, sizeof(line), "%s\n", bytes));
    for (ssize_t n; (n = recv(fd, piece, sizeof(piece), 0)) > 0;)
        left -= n;
    close(fd);
    if (left) {
        fprintf(stderr, "%lld bytes are missing\n", left);
        exit(1);
    }
    return now_us() - began;
}

static int fetch(int argc, char **argv)
{
    long long least = -1;
    for (int i = 0; i < atoi(argv[2]); i++) {
        long long took = fetch_once(argv[3], argv[4], argv[5], argc > 6 ? argv[6] : NULL);
        least = least < 0 || took < least ? took : least;
    }
    printf("%lld\n", least);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 6 && strcmp(argv[1], "fetch") == 0)
        return fetch(argc, argv);
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        accept_all(listen_at(argv[2], argv[3]), serve_one);
    if (argc == 4 && strcmp(argv[1], "proxy") == 0)
        accept_all(listen_at(argv[2], argv[3]), proxy_one);
    fprintf(stderr,
            "usage: net-peer serve|proxy ADDRESS PORT, or fetch TIMES BYTES HOST PORT [PROXY]\n");
    return 2;
}
