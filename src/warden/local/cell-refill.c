/* Blanks: how many there are, when more are made, and which one a plan gets. */
#include "warden/cell-internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "warden/local/blank.h"
#include "warden/local/root.h"

#define REFILL_QUIET_MS      20 /* since the last create, so that a burst is not slowed by it */
#define REFILL_DELAY_MS      3  /* when few are left, the burst must pay for its own */
#define REFILL_AFTER_FAIL_MS 1000
#define START_BLANKS         4 /* that a start waits for */
#define SETTLE_MAX_MS        2000

static struct cell *new_blank(struct warden *w, enum cell_kind kind, struct plan_reply *reply)
{
    struct cell *s = blank_new(w, kind, cell_on_child_exit, reply);
    if (s)
        s->channel_watch = watcher_add_fd(w->watcher, s->channel_fd, EPOLLIN, cell_on_ready, s);
    return s;
}

static unsigned count_blanks(const struct warden *w, enum cell_kind kind)
{
    return w->n_blanks[kind] + (kind == CELL_LOCAL ? w->n_armed : 0);
}

/* Launchers of OCI runtimes are kept only where they are used. */
static unsigned missing_blanks(const struct warden *w, enum cell_kind kind)
{
    unsigned wanted = kind == CELL_LOCAL ? w->options.blanks
                      : w->oci_used      ? w->options.oci_blanks
                                         : 0;
    unsigned have = count_blanks(w, kind);
    if (w->no_namespaces[0])
        return 0;
    return have < wanted ? wanted - have : 0;
}

void cell_read_failure(struct cell *s)
{
    struct child_failure f;
    if (s->failure_fd < 0 || read(s->failure_fd, &f, sizeof(f)) != sizeof(f))
        return;
    f.step[sizeof(f.step) - 1] = 0;
    s->failure = f;
}

/* When the very first blank fails for want of a right, all will. */
static void doubt_namespaces(struct warden *w, enum cell_kind kind, int error, const char *why)
{
    struct error err = {0};
    if (w->blanks_known || kind != CELL_LOCAL)
        return;
    root_refused(&err, error, why);
    if (err.code == ERROR_UNSUPPORTED)
        warden_set_no_namespaces(w, why);
}

static bool add_blank(struct warden *w, enum cell_kind kind)
{
    struct plan_reply reply = {0};
    struct cell *s = new_blank(w, kind, &reply);
    if (!s) {
        log_warn("cannot make a blank sandbox: %s", reply.message);
        doubt_namespaces(w, kind, reply.error, reply.message);
        return false;
    }
    list_append(&w->blanks[kind], &s->link);
    w->n_blanks[kind]++;
    return true;
}

static void plan_refill(struct warden *w, int delay_ms);

/* One at a time, so that a plan never waits for more than one. */
static void on_refill_timer(void *data)
{
    struct warden *w = data;
    w->refill_timer = NULL;
    enum cell_kind kind = missing_blanks(w, CELL_OCI) ? CELL_OCI : CELL_LOCAL;
    if (missing_blanks(w, kind) && add_blank(w, kind))
        plan_refill(w, REFILL_DELAY_MS);
}

/* Also after a doubt: what was missing at the start may have come back. */
void cell_trust_namespaces(struct warden *w)
{
    w->blanks_known = true;
    if (warden_has_own_root(w))
        w->no_namespaces[0] = 0;
}

void cell_settle_blanks(struct warden *w)
{
    char byte;
    if (w->blanks_known || list_empty(&w->blanks[CELL_LOCAL]))
        return;
    struct cell *s = container_of(w->blanks[CELL_LOCAL].next, struct cell, link);
    struct pollfd p = {.fd = s->channel_fd, .events = POLLIN};
    w->blanks_known = poll(&p, 1, SETTLE_MAX_MS) != 1 || recv(p.fd, &byte, 1, MSG_PEEK) != 0;
    if (w->blanks_known)
        return;
    cell_read_failure(s); /* its exit follows */
    _cleanup_free_ char *why =
        xasprintf("%s: %s", s->failure.step, error_errno_text(s->failure.error));
    doubt_namespaces(w, s->kind, s->failure.error, why);
}

void cell_fill_blanks(struct warden *w)
{
    for (int i = 0; i < START_BLANKS && missing_blanks(w, CELL_LOCAL); i++)
        if (!add_blank(w, CELL_LOCAL))
            return;
    plan_refill(w, REFILL_DELAY_MS);
}

static void plan_refill(struct warden *w, int delay_ms)
{
    if (!missing_blanks(w, CELL_LOCAL) && !missing_blanks(w, CELL_OCI))
        return;
    watch_remove(w->refill_timer);
    w->refill_timer = watcher_add_timer(w->watcher, delay_ms, on_refill_timer, w);
}

void cell_plan_refill(struct warden *w)
{
    bool few = count_blanks(w, CELL_LOCAL) <= w->options.blanks / 4;
    if (few && w->refill_few && w->refill_timer)
        return; /* creates that follow each other closely would put it off for ever */
    w->refill_few = few;
    plan_refill(w, few ? REFILL_DELAY_MS : REFILL_QUIET_MS);
}

/* One that is ready, or else the one that has been at it longest. */
struct cell *cell_take_blank(struct warden *w, enum cell_kind kind, struct plan_reply *reply)
{
    struct list *blanks = &w->blanks[kind];
    w->oci_used = w->oci_used || kind == CELL_OCI;
    if (list_empty(blanks))
        return new_blank(w, kind, reply);
    struct cell *taken = container_of(blanks->next, struct cell, link);
    list_for_each(s, blanks, struct cell, link)
    {
        if (!s->ready)
            continue;
        taken = s;
        break;
    }
    list_remove(&taken->link);
    w->n_blanks[kind]--;
    return taken;
}

void cell_refill_failed(struct warden *w, enum cell_kind kind, int error, const char *why)
{
    doubt_namespaces(w, kind, error, why);
    plan_refill(w, REFILL_AFTER_FAIL_MS);
}
