/* SPDX-License-Identifier: Apache-2.0 */
/* See blank.h. A blank is in one of the two lists of its kind from its clone until a plan takes it
 * or it ends; only this file changes them. */
#include "warden/blank.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "warden/ceiling.h"
#include "warden/cell-internal.h"
#include "warden/limits.h"

#define REFILL_QUIET_MS      20 /* since the last create, so that a burst is not slowed by it */
#define REFILL_PAUSE_MS      3  /* between two that no create has just asked for */
#define REFILL_AFTER_FAIL_MS 1000
#define START_BLANKS         4 /* that a start waits for */
#define SETTLE_MAX_MS        2000
#define FEW_PART             4 /* fewer than one in so many of the wanted ones are few */
#define PLAIN_PART           4 /* one in so many blanks is left plain, for other plans */

/* Blanks are armed for the plan that most creates send: the operator's defaults. Each wall may be
 * weaker in it, because arming is not the place to refuse; limits_check() holds the real plan to
 * what it demands. */
void blanks_init(struct warden *w)
{
    static const struct limits none;
    struct plan_reply reply = {.wall = -1};
    w->usual = (struct plan){.op = PLAN_CREATE, .limits = w->options.usual};
    memset(w->usual.weaker, 1, sizeof(w->usual.weaker));
    w->arms = memcmp(&w->options.usual, &none, sizeof(none)) != 0 &&
              ceiling_check(w, &w->usual, &w->usual_limits, &reply) == 0;
}

/* --- how many there are */

static unsigned wanted_blanks(const struct warden *w, int kind)
{
    const struct cell_ops *ops = cell_kinds[kind];
    if (!ops->wanted_blanks || w->ending || (ops->needs_namespaces && w->no_namespaces[0]))
        return 0;
    return ops->wanted_blanks(w);
}

static unsigned missing_blanks(const struct warden *w, int kind)
{
    unsigned have = w->blanks[kind].n_plain + w->blanks[kind].n_armed;
    unsigned wanted = wanted_blanks(w, kind);
    return have < wanted ? wanted - have : 0;
}

static void put_blank(struct cell *s, bool armed)
{
    struct blanks *b = &s->warden->blanks[s->kind];
    s->armed = armed;
    list_append(armed ? &b->armed : &b->plain, &s->link);
    ++*(armed ? &b->n_armed : &b->n_plain);
}

static void remove_blank(struct cell *s)
{
    struct blanks *b = &s->warden->blanks[s->kind];
    if (list_empty(&s->link))
        return;
    list_remove(&s->link);
    --*(s->armed ? &b->n_armed : &b->n_plain);
}

/* --- when more are made */

static void blank_failed(struct warden *w, enum cell_kind kind, int error, const char *why)
{
    if (cell_kinds[kind]->on_blank_failed)
        cell_kinds[kind]->on_blank_failed(w, error, why);
}

static struct cell *new_blank(struct warden *w, enum cell_kind kind, struct plan_reply *reply)
{
    struct cell *s = cell_spawn(w, kind, reply);
    if (s)
        s->channel_watch = watcher_add_fd(w->watcher, s->channel_fd, EPOLLIN, cell_on_ready, s);
    return s;
}

static bool add_blank(struct warden *w, int kind)
{
    struct plan_reply reply = {0};
    struct cell *s = new_blank(w, (enum cell_kind)kind, &reply);
    if (s) {
        put_blank(s, false);
        return true;
    }
    log_warn("cannot make a blank sandbox: %s", reply.message);
    blank_failed(w, (enum cell_kind)kind, reply.error, reply.message);
    return false;
}

static void plan_refill(struct warden *w, int delay_ms);

/* One at a time, so that a plan never waits for more than one. The first kind of the table is the
 * one that misses blanks most often, so it has its turn last. */
static void on_refill_timer(void *data)
{
    struct warden *w = data;
    w->refill_timer = NULL;
    for (int kind = _CELL_KIND_MAX - 1; kind >= 0; kind--) {
        if (!missing_blanks(w, kind))
            continue;
        if (add_blank(w, kind))
            plan_refill(w, REFILL_PAUSE_MS);
        return;
    }
}

static void plan_refill(struct warden *w, int delay_ms)
{
    bool missing = false;
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++)
        missing = missing || missing_blanks(w, kind);
    if (!missing)
        return;
    watch_remove(w->refill_timer);
    w->refill_timer = watcher_add_timer(w->watcher, delay_ms, on_refill_timer, w);
}

void blanks_plan_refill(struct warden *w)
{
    bool few = false, none = false;
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++) {
        unsigned wanted = wanted_blanks(w, kind), missing = missing_blanks(w, kind);
        few = few || (missing && wanted - missing <= wanted / FEW_PART);
        none = none || (missing && wanted == missing);
    }
    if (none && w->refill_timer)
        return; /* creates that follow each other closely would put it off for ever */
    /* When few are left, each create has one made in its place at once, so that a burst that goes
     * on pays for its own evenly. When none is left, creates make their own, and others made beside
     * them would only be in their way. */
    plan_refill(w, none ? REFILL_PAUSE_MS : few ? 0 : REFILL_QUIET_MS);
}

void blanks_fill(struct warden *w)
{
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++)
        for (int i = 0; i < START_BLANKS && missing_blanks(w, kind); i++)
            if (!add_blank(w, kind))
                return;
    plan_refill(w, REFILL_PAUSE_MS);
}

/* --- the first, and the last */

/* Waits for the first blank to say that it is ready, or to end. The byte is only looked at
 * (MSG_PEEK): the loop takes it later. An end means that this host does not let a blank be made,
 * and the kind hears why, before a probe answers what the host can do. */
static void settle_kind(struct warden *w, enum cell_kind kind)
{
    char byte;
    struct cell *s = container_of(w->blanks[kind].plain.next, struct cell, link);
    struct pollfd p = {.fd = s->channel_fd, .events = POLLIN};
    w->blanks_known = poll(&p, 1, SETTLE_MAX_MS) != 1 || recv(p.fd, &byte, 1, MSG_PEEK) != 0;
    if (w->blanks_known)
        return;
    cell_read_failure(s); /* its exit follows */
    _cleanup_free_ char *why =
        xasprintf("%s: %s", s->failure.step, error_errno_text(s->failure.error));
    blank_failed(w, kind, s->failure.error, why);
}

void blanks_settle(struct warden *w)
{
    for (int kind = 0; kind < _CELL_KIND_MAX && !w->blanks_known; kind++)
        if (cell_kinds[kind]->on_blank_failed && !list_empty(&w->blanks[kind].plain))
            settle_kind(w, (enum cell_kind)kind);
}

void blanks_kill_all(struct warden *w)
{
    w->ending = true;
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++) {
        list_for_each(s, &w->blanks[kind].plain, struct cell, link)
            cell_kill(s);
        list_for_each(s, &w->blanks[kind].armed, struct cell, link)
            cell_kill(s);
    }
}

bool blanks_are_gone(const struct warden *w)
{
    unsigned n = 0;
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++)
        n += w->blanks[kind].n_plain + w->blanks[kind].n_armed;
    return n == 0;
}

/* --- which one a plan gets */

/* Whether the plan would have made exactly what an armed blank is. All but a few fields must be as
 * in the usual plan, so that one which is added to plans some day counts by itself. */
static bool is_usual(const struct warden *w, const struct plan *p, const struct limits *limits)
{
    struct plan rest = *p;
    rest.version = w->usual.version;
    rest.flags &= ~cell_kinds[cell_kind_of(p)]->flags;
    rest.tag = w->usual.tag;
    rest.limits = w->usual.limits; /* compared with the ceiling's in the gaps */
    memset(rest.id, 0, sizeof(rest.id));
    memcpy(rest.weaker, w->usual.weaker, sizeof(rest.weaker)); /* limits_check() looks at it */
    if (strcmp(rest.hostname, CELL_HOSTNAME) == 0)
        memset(rest.hostname, 0, sizeof(rest.hostname));
    return memcmp(&rest, &w->usual, sizeof(rest)) == 0 &&
           memcmp(limits, &w->usual_limits, sizeof(*limits)) == 0;
}

/* One that is ready, or else the one that has been at it longest. */
static struct cell *choose_plain(struct list *plain)
{
    list_for_each(s, plain, struct cell, link) {
        if (s->ready)
            return s;
    }
    return container_of(plain->next, struct cell, link);
}

/* An armed blank fits one plan only and saves most; a plain one fits all plans of its kind; with
 * none left the create pays for the clone itself. */
struct cell *blank_take(struct warden *w, const struct plan *p, const struct limits *limits,
                        struct plan_reply *reply)
{
    enum cell_kind kind = cell_kind_of(p);
    struct blanks *b = &w->blanks[kind];
    struct cell *s;
    b->used = true;
    if (b->n_armed && w->arms && is_usual(w, p, limits))
        s = container_of(b->armed.next, struct cell, link);
    else if (b->n_plain)
        s = choose_plain(&b->plain);
    else
        return new_blank(w, kind, reply);
    remove_blank(s);
    return s;
}

/* --- arming */

/* A part of the blanks stays plain: without one, each plan that is not the usual one would have to
 * wait for a clone. */
static bool is_to_be_armed(const struct cell *s)
{
    const struct warden *w = s->warden;
    unsigned wanted = wanted_blanks(w, s->kind);
    return w->arms && s->ops->arms && w->blanks[s->kind].n_armed + wanted / PLAIN_PART < wanted;
}

/* An armed blank has all but a caller. One that cannot be armed is of no use to other plans either,
 * because its limits are written. */
void blank_on_ready(struct cell *s)
{
    struct warden *w = s->warden;
    struct plan_reply reply = {.wall = -1};
    if (!is_to_be_armed(s))
        return;
    s->plan = w->usual;
    s->plan.flags |= s->ops->flags;
    cell_fill_order(s);
    int r = limits_apply(s, &s->plan, &w->usual_limits, &reply);
    bool done = r >= 0 && s->mechanism[WALL_DISK] == MECHANISM_TMPFS && cell_send_order(s) >= 0;
    remove_blank(s);
    if (done)
        return put_blank(s, true);
    log_info("blanks are not armed here: %s", r < 0 ? reply.message : "their disk is an image");
    w->arms = false;
    cell_kill(s);
    blanks_plan_refill(w);
}

/* A blank that failed by itself is replaced after a pause: where the host refuses, one attempt
 * after the other would keep the warden busy with nothing else. */
void blank_on_end(struct cell *s)
{
    remove_blank(s);
    if (s->killed)
        return;
    _cleanup_free_ char *why =
        xasprintf("%s: %s", s->failure.step, error_errno_text(s->failure.error));
    log_warn("a blank sandbox failed: %s", why);
    blank_failed(s->warden, s->kind, s->failure.error, why);
    plan_refill(s->warden, REFILL_AFTER_FAIL_MS);
}
