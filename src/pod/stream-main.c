/* SPDX-License-Identifier: Apache-2.0 */
/* mas-stream: what the environment says, then one connection after another (pod/stream.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/url.h"
#include "pod/stream.h"

#define EXIT_USAGE  2
#define AGAIN_MS    500
#define LOOK_MS     1000 /* where nothing tells of changes in time */
#define OUT_ENOUGH  (256 * 1024)
#define EVENT_MAX   (512 * 1024)
#define EVENTS_DIR  "/sbx-events"
#define CHANGES     (IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_DELETE)
#define CHANGE_SIZE 8192

static const char help[] =
    "mas-stream\n"
    "Brings the output of a sandbox's commands to the control plane, in a container of its pod.\n"
    "  SBX_STREAM_ENDPOINT  http://ADDRESS:PORT?token=TOKEN of the control plane\n"
    "  SBX_SANDBOX_ID       the sandbox\n"
    "  SBX_EVENTS_DIR       where its runner files output (" EVENTS_DIR ")\n"
    "  --help, --version\n";

struct stream {
    struct url url;
    const char *id;
    struct stream_files *files;
    int changes; /* inotify, or -1 */
};

/* As the first process of a container it has no default actions. */
static void on_end_signal(int sig)
{
    (void)sig;
    _exit(EXIT_SUCCESS);
}

static void stream_protect(void)
{
    struct sigaction end = {.sa_handler = on_end_signal};
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* As much as the connection has room for. */
static int stream_fill(struct stream *t, struct stream_socket *s, struct strbuf *event)
{
    int r = 0;
    while (r >= 0 && s->out.len < OUT_ENOUGH && stream_files_next(t->files, event))
        r = stream_socket_put(s, event->data, event->len);
    return r;
}

static int stream_wait(struct stream *t, struct stream_socket *s)
{
    char scrap[CHANGE_SIZE];
    struct pollfd p[] = {{.fd = s->fd, .events = (short)(POLLIN | (s->out.len ? POLLOUT : 0))},
                         {.fd = t->changes, .events = POLLIN}};
    if (poll(p, 2, LOOK_MS) < 0 && errno != EINTR)
        return -errno;
    if (p[1].revents)
        (void)!read(t->changes, scrap, sizeof(scrap));
    int r = p[0].revents & ~POLLOUT ? stream_socket_read(s) : 0;
    return r < 0 ? r : stream_socket_write(s);
}

/* Until the connection ends. */
static int stream_serve(struct stream *t, struct stream_socket *s)
{
    _cleanup_strbuf_ struct strbuf event = STRBUF_INIT(EVENT_MAX);
    stream_files_rewind(t->files);
    for (int r = stream_socket_read(s);;) { /* frames may have come with the answer */
        r = r < 0 ? r : stream_files_scan(t->files);
        r = r < 0 ? r : stream_fill(t, s, &event);
        r = r < 0 ? r : stream_socket_write(s);
        r = r < 0 ? r : stream_wait(t, s);
        if (r < 0)
            return r;
    }
}

static void __attribute__((noreturn)) stream_run(struct stream *t)
{
    char why[STREAM_WHY_SIZE], said[STREAM_WHY_SIZE] = "";
    for (;; usleep(AGAIN_MS * 1000)) {
        struct stream_socket s;
        if (stream_socket_open(&s, &t->url, t->id, why) < 0) {
            if (strcmp(why, said) != 0) /* once, however often it is tried */
                log_warn("the control plane is not reached reason=\"%s\"", why);
            memcpy(said, why, sizeof(said));
            continue;
        }
        log_info("connected");
        said[0] = 0;
        int r = stream_serve(t, &s);
        log_warn("the connection ended reason=\"%s\"", strerror(-r));
        stream_socket_close(&s);
    }
}

static int stream_refuse(const char *why)
{
    log_error("%s", why);
    return EXIT_USAGE;
}

/* The token is never logged. */
static int stream_start(struct stream *t)
{
    const char *endpoint = getenv("SBX_STREAM_ENDPOINT"), *dir = getenv("SBX_EVENTS_DIR");
    t->id = getenv("SBX_SANDBOX_ID");
    if (!endpoint || url_parse(endpoint, &t->url) < 0)
        return stream_refuse("SBX_STREAM_ENDPOINT is no URL");
    if (t->url.tls)
        return stream_refuse("SBX_STREAM_ENDPOINT: this program speaks http:// and not https://");
    if (!t->url.target.is_address)
        return stream_refuse("SBX_STREAM_ENDPOINT: it has a name, and needs an address");
    if (!t->id || !*t->id || t->id[strspn(t->id, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
        return stream_refuse("SBX_SANDBOX_ID is no id");
    int fd = open(dir && *dir ? dir : EVENTS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return stream_refuse("SBX_EVENTS_DIR is no directory that can be read");
    t->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (t->changes >= 0 &&
        inotify_add_watch(t->changes, dir && *dir ? dir : EVENTS_DIR, CHANGES) < 0)
        fd_close(&t->changes);
    t->files = stream_files_new(fd, t->id);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct stream t = {.changes = -1};
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("mas-stream " MAS_VERSION) < 0;
    if (argc > 1) {
        bool asked = strcmp(argv[1], "--help") == 0;
        fputs(help, asked ? stdout : stderr);
        return asked ? EXIT_SUCCESS : EXIT_USAGE;
    }
    log_setup("mas-stream", LOG_INFO, false);
    stream_protect();
    int r = stream_start(&t);
    if (r == EXIT_SUCCESS)
        stream_run(&t);
    return r;
}
