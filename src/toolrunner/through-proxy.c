/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/through-proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/plan.h"

#define HEAD_MAX  4096
#define HOST_MAX  255
#define COPY_SIZE 65536
#define PROXY_URL "http://127.0.0.1:"

static int print_failure(const char *why, const char *more)
{
    fprintf(stderr, "mas-toolrunner: %s%s\n", why, more);
    return 1;
}

/* The port that this command's environment names: a command may have a proxy of its own. */
static uint16_t proxy_port(void)
{
    const char *url = getenv("HTTPS_PROXY");
    const char *text = url && strncmp(url, PROXY_URL, strlen(PROXY_URL)) == 0
                           ? url + strlen(PROXY_URL)
                           : PLAN_PROXY_PORT;
    return (uint16_t)strtoul(text, NULL, 10);
}

/* What is no host or port is the proxy's to refuse, but not what would end the line. */
static bool is_plain(const char *text)
{
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    return *text && strlen(text) <= HOST_MAX;
}

static int connect_proxy(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(proxy_port()),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        return -errno;
    return fd_steal(&fd);
}

/* Byte by byte: what follows the head is the connection's. Bytes, or -errno. */
static int read_head(int fd, char head[HEAD_MAX])
{
    int n = 0;
    while (n < HEAD_MAX - 1) {
        ssize_t got = read(fd, head + n, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n++;
        if (n >= 4 && memcmp(head + n - 4, "\r\n\r\n", 4) == 0)
            break;
    }
    head[n] = 0;
    return n;
}

/* The body of a refusal says why, in a line. */
static int tell_refusal(int fd, const char *head)
{
    char body[512];
    ssize_t n = read(fd, body, sizeof(body) - 1);
    body[n > 0 ? n : 0] = 0;
    body[strcspn(body, "\r\n")] = 0;
    if (*body)
        return print_failure(body, "");
    char status[128];
    snprintf(status, sizeof(status), "%.*s", (int)strcspn(head, "\r\n"), head);
    return print_failure("the proxy refused: ", *status ? status : "it closed the connection");
}

static void copy_all(int from, int to)
{
    char buffer[COPY_SIZE];
    ssize_t n;
    while ((n = read(from, buffer, sizeof(buffer))) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && fd_write_all(to, buffer, (size_t)n) < 0)
            break;
}

int through_proxy(const char *host, const char *port)
{
    char head[HEAD_MAX], request[2 * HOST_MAX + 128];
    bool v6 = strchr(host, ':') && *host != '[';
    if (!is_plain(host) || !is_plain(port))
        return print_failure("not a host and port", "");
    _cleanup_close_ int fd = connect_proxy();
    if (fd < 0)
        return print_failure("this sandbox has no network: ", strerror(-fd));
    int n = snprintf(request, sizeof(request), "CONNECT %s%s%s:%s HTTP/1.0\r\n\r\n", v6 ? "[" : "",
                     host, v6 ? "]" : "", port);
    if ((size_t)n >= sizeof(request) || fd_write_all(fd, request, (size_t)n) < 0)
        return print_failure("the proxy does not answer", "");
    read_head(fd, head);
    if (strncmp(head, "HTTP/1.", 7) != 0 || strncmp(head + 8, " 200 ", 5) != 0)
        return tell_refusal(fd, head);
    /* A process for each direction, so that neither waits for the other. */
    pid_t pid = fork();
    if (pid < 0)
        return print_failure("cannot start a process: ", strerror(errno));
    if (pid == 0) {
        copy_all(STDIN_FILENO, fd);
        shutdown(fd, SHUT_WR);
        _exit(0);
    }
    copy_all(fd, STDOUT_FILENO);
    /* The server has ended the connection: what standard input still has can reach nothing, and its
     * reader would wait for it for ever. */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}
