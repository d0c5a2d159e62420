/* SPDX-License-Identifier: Apache-2.0 */
/* See ceiling.h. */
#include "warden/ceiling.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "warden/intercept.h"
#include "warden/local/image.h"
#include "warden/local/mount.h"
#include "warden/egress.h"
#include "warden/state.h"

/* A limit that the plan leaves open is the ceiling's: 0 in a plan never means unlimited where the
 * operator set a ceiling. */
static int check_limits(const struct warden *w, const struct plan *p, struct limits *ret,
                        struct plan_reply *reply)
{
    struct limits limits = p->limits;
    limit_for_each(row) {
        uint64_t asked = limit_get(row, &limits), most = limit_get(row, &w->options.ceiling);
        if (most && asked > most) {
            snprintf(reply->message, sizeof(reply->message), "%s %llu is over the ceiling of %llu",
                     row->member, (unsigned long long)asked, (unsigned long long)most);
            return -EPERM;
        }
        if (!asked)
            limit_set(row, &limits, most);
    }
    *ret = limits;
    return 0;
}

/* A plan names one of the directories that the warden opened at its start, and a path beneath it.
 * It cannot name a path of the host, so a taken-over control plane cannot reach another one. */
static int check_mount(const struct warden *w, const struct plan_mount *m, unsigned i,
                       struct plan_reply *reply)
{
    if ((unsigned)m->allow_index >= w->n_allowed) {
        snprintf(reply->message, sizeof(reply->message),
                 "mount %u: no allowed directory has index %d", i, m->allow_index);
        return -EPERM;
    }
    if (!mount_target_ok(m->target)) {
        snprintf(reply->message, sizeof(reply->message), "mount %u: target '%.100s' is reserved", i,
                 m->target);
        return -EPERM;
    }
    return 0;
}

/* The control plane has checked the same before, to answer in the caller's words. It may have been
 * taken over since, so nothing that it checked is relied on here. */
int ceiling_check(const struct warden *w, const struct plan *p, struct limits *ret_limits,
                  struct plan_reply *reply)
{
    const struct cell_ops *ops = cell_kinds[cell_kind_of(p)];
    if (ops->needs_namespaces && !warden_has_own_root(w))
        return ceiling_refuse_namespaces(w, p, reply);
    int allowed = ops->check ? ops->check(w, p, reply) : 0;
    if (allowed < 0)
        return allowed;
    for (uint32_t i = 0; i < p->n_mounts; i++) {
        int r = check_mount(w, &p->mounts[i], i, reply);
        if (r < 0) {
            reply->wall = WALL_FILESYSTEM;
            return r;
        }
    }
    if (p->image[0] && p->flags & PLAN_TOOL_NET) { /* it is linked with the host's libraries */
        snprintf(reply->message, sizeof(reply->message), "mas-tool-net does not run in an image");
        reply->wall = WALL_FILESYSTEM;
        return -EOPNOTSUPP;
    }
    if (p->flags & PLAN_TOOL_NOBODY && w->ids.shared) {
        snprintf(reply->message, sizeof(reply->message),
                 "uid 65534 needs a range of ids, which this warden does not have");
        reply->wall = WALL_USERS;
        return -EOPNOTSUPP;
    }
    if (p->flags & PLAN_PROXY && (!ops->has_proxy || p->flags & PLAN_TOOL_NET)) {
        snprintf(reply->message, sizeof(reply->message),
                 "sandboxes of this kind have no network by name");
        reply->wall = WALL_NETWORK;
        return -EOPNOTSUPP;
    }
    if (p->flags & PLAN_AUTHORITY && (!ops->has_authority || !(p->flags & PLAN_PROXY))) {
        snprintf(reply->message, sizeof(reply->message),
                 "only sandboxes with a network by name can be intercepted");
        reply->wall = WALL_NETWORK;
        return -EOPNOTSUPP;
    }
    if (p->flags & PLAN_ADDRESSES) {
        int r = egress_check(w, p, reply);
        if (r < 0)
            return r;
    }
    if (p->flags & PLAN_TOOL_NET && !w->has_toolnet) {
        snprintf(reply->message, sizeof(reply->message), "this warden has no mas-tool-net");
        reply->wall = WALL_NETWORK;
        return -EOPNOTSUPP;
    }
    if (ops->apply_limits)
        return check_limits(w, p, ret_limits, reply);
    *ret_limits = p->limits; /* without effect, and each was asked for as one that may be weaker */
    return 0;
}

int ceiling_refuse_namespaces(const struct warden *w, const struct plan *p,
                              struct plan_reply *reply)
{
    const char *name = cell_kinds[cell_kind_of(p)]->name;
    snprintf(reply->message, sizeof(reply->message),
             "runtime '%s' needs namespaces, which this host does not allow: %s; runtime "
             "'landlock' needs none",
             name ? name : oci_backend_name((enum oci_backend)p->backend), w->no_namespaces);
    reply->error = EOPNOTSUPP;
    return -EOPNOTSUPP;
}

static int open_mounts(const struct warden *w, const struct plan *p, struct child_trees *ret,
                       struct plan_reply *reply)
{
    for (uint32_t i = 0; i < p->n_mounts; i++) {
        const struct plan_mount *m = &p->mounts[i];
        int fd = mount_open_host(w->host_ns_fd, w->own_ns_fd, w->allowed_fds[m->allow_index],
                                 m->subpath, m->read_only);
        if (fd < 0) {
            snprintf(reply->message, sizeof(reply->message), "mount %u: open '%.100s': %s", i,
                     m->subpath, strerror(-fd));
            return fd;
        }
        ret->mounts[i] = fd;
    }
    return 0;
}

static int open_image(const struct warden *w, const struct plan *p, struct child_trees *ret,
                      struct plan_reply *reply)
{
    if (!p->image[0])
        return 0;
    ret->image = image_open(w->host_ns_fd, w->own_ns_fd, w->store_fd, p->image);
    if (ret->image >= 0)
        return 0;
    if (ret->image == -ENOENT)
        snprintf(reply->message, sizeof(reply->message), "image sha256:%s is not in the store",
                 p->image);
    else
        snprintf(reply->message, sizeof(reply->message), "open image sha256:%s: %s", p->image,
                 strerror(-ret->image));
    return ret->image;
}

static int open_authority(const struct warden *w, const struct plan *p, struct child_trees *ret,
                          struct plan_reply *reply)
{
    if (!(p->flags & PLAN_AUTHORITY))
        return 0;
    ret->authority = intercept_open_certificate(w, p->id);
    if (ret->authority < 0)
        snprintf(reply->message, sizeof(reply->message), "the sandbox has no interceptor");
    return ret->authority;
}

/* Everything that a plan names by path or digest is opened here, once, and used by its descriptor
 * from then on: what was checked is what is mounted, whatever is renamed in between. */
int ceiling_open_trees(const struct warden *w, const struct plan *p, struct child_trees *ret,
                       struct plan_reply *reply)
{
    int r;
    child_trees_init(ret);
    if ((r = open_mounts(w, p, ret, reply)) < 0 || (r = open_image(w, p, ret, reply)) < 0 ||
        (r = open_authority(w, p, ret, reply)) < 0) {
        reply->wall = WALL_FILESYSTEM;
        child_trees_close(ret);
    }
    return r;
}
