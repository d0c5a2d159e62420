/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile engine: the broker's questions over a real socket, each answered with the next part of
 * the input (parts end with "\n%%\n"; one that begins like JSON gets a head). The first byte
 * chooses which engine is expected. */
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PART_END   "\n%%\n"
#define HEAD       "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define TIMEOUT_MS 10000

/* A copy of the input: a client that has heard enough is gone while the server still writes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *input;
static const char *next, *end;
static char socket_path[64];
static int listen_fd;

static void expect(bool good)
{
    if (!good)
        abort();
}

static void send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

static char *take_part(size_t *ret_len)
{
    pthread_mutex_lock(&lock);
    const char *cut = memmem(next, (size_t)(end - next), PART_END, strlen(PART_END));
    size_t len = (size_t)((cut ? cut : end) - next);
    char *part = memcpy(malloc(len + 1), next, len);
    next = cut ? cut + strlen(PART_END) : end;
    pthread_mutex_unlock(&lock);
    *ret_len = len;
    return part;
}

static void send_part(int fd)
{
    size_t len;
    char *part = take_part(&len);
    if (len && (*part == '{' || *part == '['))
        send_all(fd, HEAD, strlen(HEAD));
    send_all(fd, part, len);
    free(part);
}

static void set_input(const uint8_t *data, size_t size)
{
    pthread_mutex_lock(&lock);
    free(input);
    input = memcpy(malloc(size + 1), data, size);
    next = input;
    end = input + size;
    pthread_mutex_unlock(&lock);
}

/* A request's head is enough to answer, as long as the rest is taken, too. */
static void *serve(void *data)
{
    char text[65536];
    (void)data;
    for (;;) {
        int fd = accept(listen_fd, NULL, NULL);
        if (fd < 0)
            continue;
        if (recv(fd, text, sizeof(text), 0) > 0)
            send_part(fd);
        shutdown(fd, SHUT_WR);
        while (recv(fd, text, sizeof(text), 0) > 0)
            ;
        close(fd);
    }
    return NULL;
}

static void remove_socket(void)
{
    unlink(socket_path);
}

static void start(void)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    pthread_t thread;
    if (socket_path[0])
        return;
    log_setup("fuzz", LOG_ERROR, false);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    snprintf(socket_path, sizeof(socket_path), "/tmp/fuzz-engine-%d", (int)getpid());
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", socket_path);
    unlink(socket_path);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    expect(bind(listen_fd, (const struct sockaddr *)&sun, sizeof(sun)) == 0);
    expect(listen(listen_fd, 16) == 0);
    atexit(remove_socket);
    expect(pthread_create(&thread, NULL, serve, NULL) == 0);
}

static void expect_printable(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    expect(len < size);
    for (size_t i = 0; i < len; i++)
        expect(text[i] >= ' ' && text[i] <= '~');
}

static void ask_all(struct engine *e)
{
    struct engine_message m;
    _cleanup_json_ json_t *body = json_pack("{s:s}", "a", "b");
    if (api_connect(e) == 0)
        expect(strncmp(e->api, "/v1.4", 5) == 0);
    probe_ask(e, &m);
    expect_printable(m.text, sizeof(m.text));
    expect_printable(e->version, sizeof(e->version));
    if (engine_find_users(e) == 0 && e->users == MECHANISM_UID_ENGINE)
        expect(e->runner_id > 0 && e->tool_id > e->runner_id);
    api_create(e, body);
    if (process_find(e) == 0)
        expect(e->mark.pid > 1 && e->mark.started && e->pidfd >= 0);
    e->rest.timeout_ms = TIMEOUT_MS;
    task_ask_end(e, 0, &m);
    expect(m.wait_status >= 0 && m.wait_status <= 0xff00);
    int r = api_pause(e, true);
    expect(r <= 0);
    if (r == -EIO)
        expect_printable(e->rest.why, sizeof(e->rest.why));
}

static void try_proc(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    mountinfo_has(text, "/a b", 0, "ro");
    io_max_holds(text, 0, 1);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct engine e = {.pidfd = -1, .name = "name"};
    start();
    if (!size)
        return 0;
    set_input(data + 1, size - 1);
    e.order.backend = data[0] & 1 ? OCI_DOCKER : OCI_PODMAN;
    snprintf(e.order.dir, sizeof(e.order.dir), "/nonexistent");
    snprintf(e.order.instance, sizeof(e.order.instance), "0123456789abcdef0123456789abcdef");
    rest_open(&e.rest, socket_path, TIMEOUT_MS);
    ask_all(&e);
    fd_close(&e.pidfd);
    try_proc(data, size);
    return 0;
}
