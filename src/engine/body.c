/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a container that both engines are asked for alike, from the tables that the
 * warden's own sandboxes are made of. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <sys/resource.h>

#include "base/json.h"
#include "engine/engine.h"
#include "builder/rlimits.h"
#include "builder/mount.h"
#include "builder/flavour.h"
#include "builder/root.h"

#define NPROC_DEFAULT 4096

/* Nothing of /sys; and no message queues beside the disk's budget. */
json_t *body_masked(void)
{
    json_t *a = json_from_words(mount_proc_masked);
    json_array_append_new(a, json_string("/sys"));
    json_array_append_new(a, json_string("/dev/mqueue"));
    return a;
}

json_t *body_labels(const struct engine *e)
{
    char state[ENGINE_PATH_SIZE];
    snprintf(state, sizeof(state), "%s", e->order.dir);
    char *slash = strrchr(state, '/');
    if (slash)
        *slash = 0;
    return json_pack("{s:s, s:s, s:s}", LABEL_INSTANCE, e->order.instance, LABEL_ID, e->order.id,
                     LABEL_STATE, state);
}

/* The control group counts processes. An engine still needs a number, and it must be below the
 * host's limit, which it may not raise in a user namespace. */
static uint64_t body_nproc(const struct engine *e)
{
    const struct child_order *c = &e->order.child;
    struct rlimit own;
    uint64_t n = c->process_rlimit ? c->process_rlimit : c->limits.processes;
    n = n ? n : NPROC_DEFAULT;
    return getrlimit(RLIMIT_NPROC, &own) == 0 && own.rlim_max < n ? own.rlim_max : n;
}

/* An engine's own limits may be lower than ours and not to be raised in a user namespace; so the
 * request names the limits that the plan decides, and those that are 0 in every sandbox. */
static bool is_told(const struct rlimit_row *row)
{
    return row->by == RLIMIT_BY_PLAN || row->hard <= 1;
}

json_t *body_rlimits(const struct engine *e, json_t *(*make)(const char *name, uint64_t value))
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_rlimit_rows; i++) {
        const struct rlimit_row *row = &rlimit_rows[i];
        char name[32];
        uint64_t value = row->by == RLIMIT_FIXED ? row->hard : rlimits_value(row, &e->order.child);
        if (row->resource == RLIMIT_NPROC)
            value = body_nproc(e);
        if (!is_told(row) || (row->by == RLIMIT_BY_PLAN && !value))
            continue;
        snprintf(name, sizeof(name), "%s", row->name + strlen("RLIMIT_"));
        for (char *c = name; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        json_array_append_new(list, make(name, value));
    }
    return list;
}

size_t body_args(const struct engine *e, const char **argv, char *buffer, size_t size)
{
    size_t n = child_runner_args(&e->order.child, false, argv);
    argv[0] = ROOT_RUNNER_PATH;
    snprintf(buffer, size, "%u", e->tool_inside);
    for (size_t i = 1; i + 1 < n; i++)
        if (strcmp(argv[i], "--uid") == 0 || strcmp(argv[i], "--gid") == 0)
            argv[i + 1] = buffer;
    argv[n++] = "--connect";
    argv[n++] = OCI_LINK_INSIDE "/" OCI_LINK_NAME;
    if (!engine_own_kernel(e)) { /* it says more than a profile can */
        argv[n++] = "--filter-file";
        argv[n++] = OCI_LINK_INSIDE "/" ENGINE_FILTER;
    }
    argv[n] = NULL;
    return n;
}
