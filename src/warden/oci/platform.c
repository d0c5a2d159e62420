/* SPDX-License-Identifier: Apache-2.0 */
/* See oci.h. */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "warden/ceiling.h"
#include "warden/cell.h"
#include "warden/oci/oci.h"
#include "warden/state.h"

#define TRIAL_ID    "gvisor-trial"
#define TRIAL_MS    3000 /* after the start */
#define TRIAL_BYTES (256ull * 1024 * 1024)

void oci_platform_forget(struct warden *w)
{
    struct oci_host *h = oci_host(w);
    h->platform_known = false;
    if (h->run_fd >= 0)
        unlinkat(h->run_fd, OCI_PLATFORM_FILE, 0);
}

/* No call waits for its reply: it is ended as soon as it runs. */
static void on_trial(void *data)
{
    struct warden *w = data;
    struct plan p = {.version = PLAN_VERSION,
                     .op = PLAN_CREATE,
                     .id = TRIAL_ID,
                     .backend = OCI_RUNSC,
                     .limits = {.memory_bytes = TRIAL_BYTES}};
    struct limits limits;
    struct plan_reply reply = {.wall = -1};
    struct child_trees trees;
    bool used = w->blanks[CELL_OCI].used;
    oci_host(w)->trial_timer = NULL;
    if (oci_host(w)->platform_known || used || w->ending || cell_exists(w, TRIAL_ID) ||
        map_count(w->by_id) >= w->options.max_sandboxes)
        return;
    memset(p.weaker, 1, sizeof(p.weaker));
    child_trees_init(&trees);
    int r = ceiling_check(w, &p, &limits, &reply);
    if (r >= 0)
        r = cell_create(w, &p, &limits, &trees, &reply);
    w->blanks[CELL_OCI].used = used; /* no launchers are kept for it */
    if (r < 0)
        log_debug("gVisor's platforms cannot be tried error=%s", reply.message);
}

void oci_platform_plan_trial(struct warden *w)
{
    struct oci_host *h = oci_host(w);
    if (h->run_fd >= 0)
        h->trial_timer = warden_watch_timer(w, TRIAL_MS, on_trial, w);
}
