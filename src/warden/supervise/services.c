/* SPDX-License-Identifier: Apache-2.0 */
/* Gateway, image keeper and the broker of a cluster, which are started again for as long as it
 * takes: what needs them fails meanwhile, and nothing else. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/log.h"
#include "keeper/keeper-proto.h"
#include "warden/startup.h"
#include "warden/supervise/child.h"
#include "warden/supervise/internal.h"

#define BACKOFF_FIRST_MS 10
#define BACKOFF_MAX_MS   5000

/* Doubles for as long as crashes come soon after one another. */
int service_next_backoff(struct service *service)
{
    service->backoff_ms = service->backoff_ms ? 2 * service->backoff_ms : BACKOFF_FIRST_MS;
    if (service->backoff_ms > BACKOFF_MAX_MS)
        service->backoff_ms = BACKOFF_MAX_MS;
    return (int)service->backoff_ms;
}

void service_end(struct service *service)
{
    watch_remove(service->exit);
    watch_remove(service->again);
    if (service->pid) {
        kill(service->pid, SIGKILL);
        waitpid(service->pid, NULL, 0);
    }
    *service = (struct service){0};
}

void service_log_death(const char *who, pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        log_error("%s died pid=%d signal=%d", who, (int)pid, WTERMSIG(status));
    else
        log_error("%s failed pid=%d exit_code=%d", who, (int)pid, WEXITSTATUS(status));
}

/* Without it some calls fail, and nothing else: worth trying for ever, at the slowest pace. */
static void start_later(struct supervisor *s, struct service *service, const char *who,
                        void (*start)(void *data))
{
    service->again = warden_watch_timer(s->o->warden, service_next_backoff(service), start, s);
    if (!service->again)
        log_error("%s is not started again", who);
}

/* A process that cannot be watched is ended again: its end would never be seen. */
static void watch_service(struct supervisor *s, struct service *service, const char *who, pid_t pid,
                          void (*on_exit)(pid_t, int, void *), void (*start)(void *data))
{
    int error = pid < 0 ? -pid : 0;
    if (pid > 0) {
        service->pid = pid;
        service->exit = warden_watch_child(s->o->warden, pid, on_exit, s);
        error = service->exit ? 0 : errno;
    }
    if (!error)
        return;
    log_error("%s cannot be started: %s", who, strerror(error));
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        service->pid = 0;
    }
    start_later(s, service, who, start);
}

/* --- gateway */

static void on_gateway_exit(pid_t pid, int status, void *data)
{
    struct supervisor *s = data;
    s->gateway.pid = 0;
    s->gateway.exit = NULL;
    if (s->signals)
        return;
    service_log_death("gateway", pid, status);
    start_later(s, &s->gateway, "gateway", gateway_start);
}

void gateway_start(void *data)
{
    struct supervisor *s = data;
    s->gateway.again = NULL;
    pid_t pid = child_start_gateway(s->o, s->program.fd, s->gateway_socks[0]);
    watch_service(s, &s->gateway, "gateway", pid, on_gateway_exit, gateway_start);
}

/* --- the broker of a cluster */

static void on_kube_exit(pid_t pid, int status, void *data)
{
    struct supervisor *s = data;
    s->kube.pid = 0;
    s->kube.exit = NULL;
    if (s->signals)
        return;
    service_log_death("mas-kube", pid, status);
    start_later(s, &s->kube, "mas-kube", kube_start);
}

void kube_start(void *data)
{
    struct supervisor *s = data;
    s->kube.again = NULL;
    if (s->startup->kube_settings_fd < 0)
        return;
    pid_t pid = child_start_kube(s->o, s->kube_socks[0]);
    watch_service(s, &s->kube, "mas-kube", pid, on_kube_exit, kube_start);
}

/* --- image keeper: no process until it is asked for something, none when it has been idle */

static void await_keeper(void *data);

/* The control plane would wait in vain for the answer of a keeper that died. */
static void tell_keeper_gone(struct supervisor *s)
{
    if (send(s->keeper_sock, KEEPER_GONE, strlen(KEEPER_GONE), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_warn("the control plane cannot be informed that the image keeper died: %s",
                 strerror(errno));
}

static void on_keeper_exit(pid_t pid, int status, void *data)
{
    struct supervisor *s = data;
    s->keeper.pid = 0;
    s->keeper.exit = NULL;
    warden_forget_claims(s->o->warden);
    bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (s->signals || s->keeper_sock < 0)
        return;
    if (clean) {
        s->keeper.backoff_ms = 0;
        await_keeper(s);
        return;
    }
    service_log_death("image keeper", pid, status);
    tell_keeper_gone(s);
    s->keeper.again =
        warden_watch_timer(s->o->warden, service_next_backoff(&s->keeper), await_keeper, s);
}

static void start_keeper(struct supervisor *s)
{
    pid_t pid = child_start_keeper(s->o, s->program.fd, s->keeper_sock, s->gateway_socks[1]);
    if (pid < 0) {
        log_error("image keeper cannot be started: %s", strerror(-pid));
        tell_keeper_gone(s);
        s->keeper.again = warden_watch_timer(s->o->warden, BACKOFF_MAX_MS, await_keeper, s);
        return;
    }
    s->keeper.pid = pid;
    s->keeper.exit = warden_watch_child(s->o->warden, pid, on_keeper_exit, s);
}

static void on_keeper_wanted(int fd, uint32_t events, void *data)
{
    struct supervisor *s = data;
    (void)fd;
    watch_remove(s->keeper_wanted);
    s->keeper_wanted = NULL;
    if (events & EPOLLIN)
        start_keeper(s);
}

static void await_keeper(void *data)
{
    struct supervisor *s = data;
    s->keeper.again = NULL;
    s->keeper_wanted = warden_watch(s->o->warden, s->keeper_sock, EPOLLIN, on_keeper_wanted, s);
    if (!s->keeper_wanted)
        log_error("image keeper is not started again");
}

int keeper_open_socks(struct supervisor *s)
{
    int socks[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return -errno;
    s->keeper_sock = socks[0];
    if (s->startup->images)
        await_keeper(s);
    return socks[1];
}

/* It ends with its control plane, because no call waits for its work any more. */
void keeper_stop(struct supervisor *s)
{
    watch_remove(s->keeper_wanted);
    s->keeper_wanted = NULL;
    service_end(&s->keeper);
    warden_forget_claims(s->o->warden);
    fd_close(&s->keeper_sock);
}
