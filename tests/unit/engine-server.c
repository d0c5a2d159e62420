/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/engine-server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_S 20 /* for a client that says nothing, which is a bug */

static void must(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

/* Whole: by its length, or by the last of its chunks. */
static bool is_whole(const char *text, size_t len)
{
    const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\nContent-Length:");
    if (!end)
        return false;
    size_t head = (size_t)(end - text) + 4;
    if (strcasestr(text, "\r\nTransfer-Encoding: chunked"))
        return len >= head + 5 && memcmp(text + len - 5, "0\r\n\r\n", 5) == 0;
    size_t body = length && length < end ? strtoull(length + 17, NULL, 10) : 0;
    return len >= head + body;
}

static char *read_request(int fd)
{
    char *text = calloc(1, SERVER_TEXT_MAX);
    size_t len = 0;
    must(text, "calloc");
    while (len < SERVER_TEXT_MAX - 1 && !is_whole(text, len)) {
        ssize_t n = read(fd, text + len, SERVER_TEXT_MAX - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    return text;
}

bool server_write(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static void serve(struct engine_server *s, int fd)
{
    char *text = read_request(fd);
    if (!text[0]) { /* one that was only looked at */
        free(text);
        return;
    }
    pthread_mutex_lock(&s->lock);
    const char *const *answer = s->answers;
    void (*fn)(int) = s->answer;
    if (s->n_requests < SERVER_REQUESTS_MAX)
        s->requests[s->n_requests++] = text;
    else
        free(text);
    if (answer && answer[0] && answer[1])
        s->answers++;
    pthread_mutex_unlock(&s->lock);
    if (fn)
        fn(fd);
    else if (answer && answer[0])
        server_write(fd, answer[0], strlen(answer[0]));
}

static void *run(void *data)
{
    struct engine_server *s = data;
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    for (;;) {
        int fd = accept(s->listen_fd, NULL, NULL);
        if (fd < 0 && errno == EINTR)
            continue;
        if (fd < 0)
            return NULL;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        serve(s, fd);
        close(fd);
    }
}

void server_start(struct engine_server *s)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    *s = (struct engine_server){.dir = "/tmp/mas-engine-test-XXXXXX"};
    pthread_mutex_init(&s->lock, NULL);
    must(mkdtemp(s->dir), "mkdtemp");
    snprintf(s->path, sizeof(s->path), "%s/sock", s->dir);
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", s->path);
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(s->listen_fd, (const struct sockaddr *)&sun, sizeof(sun)) == 0, "bind");
    must(listen(s->listen_fd, 16) == 0, "listen");
    must(pthread_create(&s->thread, NULL, run, s) == 0, "pthread_create");
}

static void forget(struct engine_server *s)
{
    for (size_t i = 0; i < s->n_requests; i++)
        free(s->requests[i]);
    s->n_requests = 0;
}

void server_stop(struct engine_server *s)
{
    shutdown(s->listen_fd, SHUT_RDWR); /* which ends accept() */
    pthread_join(s->thread, NULL);
    close(s->listen_fd);
    forget(s);
    unlink(s->path);
    rmdir(s->dir);
}

void server_set(struct engine_server *s, const char *const *answers, void (*answer)(int fd))
{
    pthread_mutex_lock(&s->lock);
    forget(s);
    s->answers = answers;
    s->answer = answer;
    pthread_mutex_unlock(&s->lock);
}

const char *server_request(struct engine_server *s, size_t n)
{
    pthread_mutex_lock(&s->lock);
    const char *text = n < s->n_requests ? s->requests[n] : "";
    pthread_mutex_unlock(&s->lock);
    return text;
}

bool server_was_asked(struct engine_server *s, size_t n, const char *method_and_path)
{
    const char *text = server_request(s, n);
    size_t len = strlen(method_and_path);
    return strncmp(text, method_and_path, len) == 0 &&
           strncmp(text + len, " HTTP/1.1\r\n", 11) == 0;
}
