/* SPDX-License-Identifier: Apache-2.0 */
/* How launchers start. */
#include <errno.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/cell-internal.h"
#include "warden/oci/oci.h"

void oci_main(const struct cell *s, const struct cell_ends *ends)
{
    const struct program_ends own = {
        .stream = ends->stream, .channel = ends->channel, .failure = ends->failure, .view = -1};
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int joined = cgroup_join(&s->cgroup);
    if (program_arrange(&own, oci_host(s->warden)->program_fd) < 0)
        _exit(125);
    child_must(joined, "join the cgroup", -1);
    program_exec("mas-oci");
}

void oci_start_init(const struct warden *w, enum oci_task task, struct oci_start *ret)
{
    const struct oci_host *h = oci_host(w);
    *ret = (struct oci_start){
        .task = task, .kvm_device = h->kvm_device, .user_limits = w->child_template.user_limits};
    for (int b = 0; b < _OCI_BACKEND_MAX; b++)
        memcpy(ret->programs[b], h->programs[b].path, sizeof(ret->programs[b]));
}

int oci_admit(struct cell *s)
{
    struct warden *w = s->warden;
    struct {
        struct oci_start start;
        struct sock_filter filter[OCI_FILTER_MAX];
    } message;
    struct oci_start *o = &message.start;
    size_t filter_bytes = w->seccomp.len * sizeof(*w->seccomp.filter);
    oci_start_init(w, OCI_LAUNCH, o);
    o->runner_id = id_block_host_id(&w->ids, s->id_block, SANDBOX_RUNNER_ID);
    o->tool_id = id_block_host_id(&w->ids, s->id_block, SANDBOX_TOOL_ID);
    o->nobody_id = id_block_host_id(&w->ids, s->id_block, SANDBOX_NOBODY_ID);
    if (s->cgroup.root) {
        o->cgroup_v2 = s->cgroup.root->driver == &cgroup_v2;
        snprintf(o->group, sizeof(o->group), "/%s/%s", s->cgroup.root->instance, s->cgroup.name);
    }
    o->n_filter = w->seccomp.len;
    memcpy(message.filter, w->seccomp.filter, filter_bytes);
    int run_fd = oci_host(w)->run_fd;
    ssize_t n =
        fd_send_msg(s->channel_fd, &message, sizeof(*o) + filter_bytes, &run_fd, run_fd >= 0);
    return n < 0 ? (int)n : 0;
}
