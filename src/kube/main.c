/* SPDX-License-Identifier: Apache-2.0 */
/* mas-kube: the broker of a Kubernetes cluster, and the only process that has its credential.
 *
 *   settings   read: how the server is reached, and what may be made; nothing of either changes
 *   identity   where links are reached directly: the key that they know is read, or made
 *   plugin     where a program fetches the credential: a process that runs it is forked
 *   socket     the one that the warden gave, or one of its own to listen at
 *   rights     given up (kube/confine.h)
 *   relay      where the broker runs elsewhere, this process only passes records on (kube/relay.h)
 *   loop       orders are carried out; its death ends nothing in the cluster */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "kube/broker.h"
#include "kube/client.h"
#include "kube/confine.h"
#include "kube/direct.h"
#include "kube/plugin.h"
#include "kube/relay.h"
#include "kube/settings.h"
#include "loop/loop.h"
#include "proto/handover.h"

#define EXIT_USAGE 2
#define BACKLOG    4

/* Leak checking traces the process, which is not dumpable; everything else of the sanitizers works.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

struct program {
    struct kube_settings settings;
    struct kube_plugin plugin;
    struct kube_identity identity; /* without a context where there is no direct carrier */
    struct kube_client *client;
    struct kube_broker *broker; /* of the control plane that is connected; NULL */
    uv_loop_t loop;
    int sock;      /* the warden's; -1 */
    int listen_fd; /* our own; -1 */
    int client_fd; /* of the broker, which closes it; -1 before the first */
    int relay_fd;  /* to the broker that runs elsewhere; -1 */
    uv_poll_t listener;
    bool stop;
};

static void serve_socket(struct program *p, int sock);

/* A control plane that comes again replaces the one that is gone. */
static void on_broker_end(void *data)
{
    struct program *p = data;
    kube_broker_free(steal_ptr(p->broker));
    if (p->listen_fd < 0)
        p->stop = true; /* the warden has gone */
    else
        log_info("the control plane has gone");
}

static void serve_socket(struct program *p, int sock)
{
    struct kube_broker_options options = {.loop = &p->loop,
                                          .client = p->client,
                                          .ceiling = &p->settings.ceiling,
                                          .holder = p->settings.holder,
                                          .identity = p->identity.context ? &p->identity : NULL,
                                          .sock = sock,
                                          .on_end = on_broker_end,
                                          .data = p};
    p->broker = kube_broker_new(&options);
}

/* The end of one that died may lie in the same turn of the loop as the next one's connection. */
static bool peer_has_gone(int sock)
{
    struct pollfd p = {.fd = sock};
    return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

/* A control plane that lives is not displaced by another one, which tries again: a relay ends, and
 * the warden starts the next. */
static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct program *p = poll->data;
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    (void)status;
    (void)events;
    _cleanup_close_ int fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
        log_warn("a connection is closed: the kernel does not say whose it is");
        return;
    }
    if (p->broker && !peer_has_gone(p->client_fd)) {
        log_warn("a connection is closed, because a control plane is connected pid=%d uid=%u",
                 (int)peer.pid, (unsigned)peer.uid);
        return;
    }
    log_info("a control plane is connected pid=%d uid=%u", (int)peer.pid, (unsigned)peer.uid);
    kube_broker_free(steal_ptr(p->broker));
    p->client_fd = fd_steal(&fd);
    serve_socket(p, p->client_fd);
}

/* --- beginning */

static int listen_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    if (strlen(path) >= sizeof(a.sun_path))
        return -ENAMETOOLONG;
    strcpy(a.sun_path, path);
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path); /* of one that died */
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Only the owner and the group may connect: a client can give the broker every order. */
    mode_t mask = umask(0117);
    int r = fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0
                ? -errno
                : 0;
    umask(mask);
    return r < 0 ? r : fd_steal(&fd);
}

static int read_settings(struct program *p, int fd, struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(KUBE_SETTINGS_MAX);
    int r = fd < 0 ? fd : fd_read_from_start(fd, &text);
    if (r < 0)
        return error_set(err, ERROR_INVALID, -r, "its settings");
    return kube_settings_parse(&p->settings, text.data ? text.data : "", text.len, err);
}

/* Before rights are given up, because the socket may be for others; its end is the process's, and
 * the warden starts another. */
static int relay_open(struct program *p, bool by_warden, struct error *err)
{
    if (!by_warden)
        return error_set(err, ERROR_INVALID, 0,
                         "relay: only a mas-kube that mas-warden started can have it");
    p->sock = KUBE_SOCK;
    fd_set_cloexec(p->sock, true);
    p->relay_fd = kube_relay_connect(p->settings.relay, err);
    return p->relay_fd < 0 ? p->relay_fd : kube_confine(&p->settings.access, by_warden, err);
}

static int kube_program_open(struct program *p, const char *settings, const char *path,
                             struct error *err)
{
    bool by_warden = !settings;
    _cleanup_close_ int fd = by_warden ? KUBE_SETTINGS : open(settings, O_RDONLY | O_CLOEXEC);
    int r = read_settings(p, fd < 0 ? -errno : fd, err);
    if (r < 0)
        return r;
    log_setup("mas-kube", p->settings.log_level, p->settings.log_json);
    if (p->settings.relay)
        return relay_open(p, by_warden, err);
    if (p->settings.holder_made_up)
        log_warn("the settings have no holder: when this broker is started again, it counts as "
                 "another control plane, and waits for its own Lease to run out");
    if (p->settings.direct_key) {
        r = kube_identity_load(&p->identity, p->settings.direct_key, err);
        if (r < 0)
            return r;
        strcpy(p->settings.ceiling.direct_peer, p->identity.pin_text);
    }
    if (by_warden) {
        p->sock = KUBE_SOCK;
        fd_set_cloexec(p->sock, true);
    } else {
        p->listen_fd = listen_at(path);
        if (p->listen_fd < 0)
            return error_set(err, ERROR_INVALID, -p->listen_fd, "listen at '%s'", path);
    }
    if (p->settings.access.plugin) {
        r = kube_plugin_start(&p->plugin, &p->settings.access);
        if (r < 0)
            return error_set(err, ERROR_INTERNAL, -r, "the process for the credential's program");
    }
    return kube_confine(&p->settings.access, by_warden, err);
}

static int kube_program_serve(struct program *p)
{
    uv_loop_init(&p->loop);
    p->client =
        kube_client_new(&p->loop, &p->settings.access, p->plugin.fd < 0 ? NULL : &p->plugin);
    const struct kube_ceiling *c = &p->settings.ceiling;
    log_info("broker serves server=%s namespaces=%s%s instance=%s", p->settings.access.server,
             c->shared_namespace ? c->shared_namespace : c->prefix, c->shared_namespace ? "" : "*",
             c->instance);
    if (p->sock >= 0) {
        serve_socket(p, p->sock);
    } else {
        p->listener.data = p;
        uv_poll_init(&p->loop, &p->listener, p->listen_fd);
        uv_poll_start(&p->listener, UV_READABLE, on_connection);
    }
    loop_run(&p->loop, 0, &p->stop);
    return EXIT_SUCCESS;
}

/* --- options */

static const char help[] =
    "mas-kube --settings FILE --listen SOCKET\n"
    "The broker of a Kubernetes cluster: takes orders of one control plane, checks each against\n"
    "what the settings allow, and makes pods of them. mas-sandboxd starts it by itself.\n"
    "  --settings FILE   how the cluster is reached, and what may be made (JSON)\n"
    "  --listen SOCKET   a Unix socket, which owner and group may connect to\n"
    "  --warden          started by mas-warden, with its descriptors\n"
    "  --help, --version\n";

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"settings", required_argument, NULL, 's'}, {"listen", required_argument, NULL, 'l'},
        {"warden", no_argument, NULL, 'w'},         {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},        {0}};
    static struct program p = {
        .plugin = {.fd = -1}, .sock = -1, .listen_fd = -1, .client_fd = -1, .relay_fd = -1};
    const char *settings = NULL, *path = NULL;
    bool by_warden = false;
    struct error err = {0};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 's')
            settings = optarg;
        else if (c == 'l')
            path = optarg;
        else if (c == 'w')
            by_warden = true;
        else if (c == 'v')
            return puts("mas-kube " MAS_VERSION) < 0;
        else {
            fputs(help, c == 'h' ? stdout : stderr);
            return c == 'h' ? EXIT_SUCCESS : EXIT_USAGE;
        }
    }
    if (optind < argc || by_warden == (settings || path) || (!by_warden && !(settings && path))) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    prctl(PR_SET_NAME, "mas-kube", 0, 0, 0);
    log_setup("mas-kube", LOG_INFO, false);
    if (kube_program_open(&p, settings, path, &err) < 0) {
        log_error("cannot start: %s", err.message);
        return EXIT_FAILURE;
    }
    if (p.relay_fd < 0)
        return kube_program_serve(&p);
    kube_relay_run(p.sock, p.relay_fd);
    log_info("the broker has gone");
    return EXIT_SUCCESS;
}
