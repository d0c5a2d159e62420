/* See armed.h. */
#include "warden/local/armed.h"

#include <string.h>

#include "warden/ceiling.h"
#include "warden/cell.h"

#define PLAIN_PART 4 /* one in so many blanks is left plain, for other plans */

void armed_init(struct warden *w)
{
    static const struct limits none;
    struct plan_reply reply = {.wall = -1};
    w->usual = (struct plan){.op = PLAN_CREATE, .limits = w->options.usual};
    memset(w->usual.weaker, 1, sizeof(w->usual.weaker));
    w->arms = memcmp(&w->options.usual, &none, sizeof(none)) != 0 &&
              ceiling_check(w, &w->usual, &w->usual_limits, &reply) == 0;
}

bool armed_wants(const struct cell *s)
{
    const struct warden *w = s->warden;
    unsigned plain = w->options.blanks / PLAIN_PART;
    return w->arms && s->kind == CELL_LOCAL && w->n_armed + plain < w->options.blanks;
}

void armed_remove(struct cell *s)
{
    struct warden *w = s->warden;
    if (list_empty(&s->link))
        return;
    list_remove(&s->link);
    if (s->armed)
        w->n_armed--;
    else
        w->n_blanks[s->kind]--;
}

void armed_add(struct cell *s)
{
    struct warden *w = s->warden;
    armed_remove(s);
    list_append(&w->armed, &s->link);
    w->n_armed++;
    s->armed = true;
}

/* Whether the plan would have made exactly what an armed blank is. All but a few fields must be as
 * in the usual plan, so that one which is added to plans some day counts by itself. */
static bool is_usual(const struct warden *w, const struct plan *p, const struct limits *limits)
{
    struct plan rest = *p;
    rest.version = w->usual.version;
    rest.tag = w->usual.tag;
    rest.limits = w->usual.limits; /* compared with the ceiling's in the gaps */
    memset(rest.id, 0, sizeof(rest.id));
    memcpy(rest.weaker, w->usual.weaker, sizeof(rest.weaker)); /* limits_check() looks at it */
    if (strcmp(rest.hostname, CELL_HOSTNAME) == 0)
        memset(rest.hostname, 0, sizeof(rest.hostname));
    return w->arms && memcmp(&rest, &w->usual, sizeof(rest)) == 0 &&
           memcmp(limits, &w->usual_limits, sizeof(*limits)) == 0;
}

struct cell *armed_take(struct warden *w, const struct plan *p, const struct limits *limits)
{
    if (list_empty(&w->armed) || !is_usual(w, p, limits))
        return NULL;
    struct cell *s = container_of(w->armed.next, struct cell, link);
    armed_remove(s);
    return s;
}
