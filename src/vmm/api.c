/* SPDX-License-Identifier: Apache-2.0 */
/* See api.h. There is one machine per process, and so one connection. */
#include "vmm/api.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/http-head.h"
#include "vmm/vmm.h"

#define ANSWER_MAX     (64 * 1024)
#define LISTEN_WAIT_MS 5 /* between two looks whether the emulator listens */

static struct {
    const struct vm *vm;
    int fd;
    size_t have;
    char message[160];
    char answer[ANSWER_MAX];
} api = {.fd = -1};

const char *api_message(void)
{
    return api.message;
}

void api_close(void)
{
    fd_close(&api.fd);
}

static int connect_to(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
        return -errno;
    return fd_steal(&fd);
}

/* -EPIPE: the emulator is gone. The emulator is watched beside its socket: one that died would
 * otherwise be waited for until the deadline. What it has sent before its end is read first,
 * because that says why. */
static int wait_for_emulator(int64_t until_ms, int fd, int most_ms)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = api.vm->emulator_pidfd, .events = POLLIN}};
    int64_t left = until_ms - clock_mono_ms();
    if (left <= 0)
        return -ETIMEDOUT;
    int n = poll(fds, ELEMENTS(fds), left < most_ms ? (int)left : most_ms);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    return fds[1].revents && !fds[0].revents ? -EPIPE : 0;
}

int api_open(struct vm *vm, const char *path)
{
    int64_t until_ms = clock_mono_ms() + API_TIMEOUT_MS;
    api.vm = vm;
    api.have = 0;
    api.message[0] = 0;
    fd_close(&api.fd);
    for (;;) {
        api.fd = connect_to(path);
        if (api.fd >= 0 || (api.fd != -ENOENT && api.fd != -ECONNREFUSED))
            break;
        int r = wait_for_emulator(until_ms, -1, LISTEN_WAIT_MS);
        if (r < 0)
            return r;
    }
    return api.fd < 0 ? api.fd : 0;
}

static int receive_more(int64_t until_ms)
{
    if (api.have == sizeof(api.answer))
        return -EMSGSIZE;
    int r = wait_for_emulator(until_ms, api.fd, API_TIMEOUT_MS);
    if (r < 0)
        return r;
    ssize_t n = recv(api.fd, api.answer + api.have, sizeof(api.answer) - api.have, MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    if (n == 0)
        return -EPIPE;
    api.have += (size_t)n;
    return 0;
}

static void keep_message(const char *body, size_t len)
{
    json_t *o = json_loadb(body, len, 0, NULL);
    const char *text = json_string_value(json_object_get(o, "fault_message"));
    snprintf(api.message, sizeof(api.message), "%s", text ? text : "");
    json_decref(o);
}

/* An answer without a length has no body: Firecracker's 204, and its 100 that others send. */
static int receive_answer(void)
{
    int64_t until_ms = clock_mono_ms() + API_TIMEOUT_MS;
    struct http_head head = {0};
    const struct http_header *length;
    uint64_t body = 0;
    size_t head_len;
    int r = 0;
    while (!(head_len = http_head_length(api.answer, api.have)) && r == 0)
        r = receive_more(until_ms);
    if (r < 0)
        return r;
    if (http_head_parse_answer(&head, api.answer, head_len) ||
        http_head_find_length(&head, &length, &body) || body > sizeof(api.answer) - head_len)
        return -EPROTO;
    while (api.have < head_len + body && r == 0)
        r = receive_more(until_ms);
    if (r < 0)
        return r;
    bool good = head.status >= 200 && head.status < 300;
    if (!good)
        keep_message(api.answer + head_len, (size_t)body);
    api.have -= head_len + (size_t)body;
    memmove(api.answer, api.answer + head_len + body, api.have);
    return good ? 0 : -EIO; /* our fault, and not the caller's */
}

int api_call(const char *method, const char *path, json_t *body)
{
    char head[256];
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return -ENOMEM;
    api.message[0] = 0;
    int n = snprintf(head, sizeof(head),
                     "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                     method, path, strlen(text));
    int r = n < 0 || (size_t)n >= sizeof(head) ? -E2BIG : fd_write_all(api.fd, head, (size_t)n);
    r = r < 0 ? r : fd_write_all(api.fd, text, strlen(text));
    free(text);
    return r < 0 ? r : receive_answer();
}
