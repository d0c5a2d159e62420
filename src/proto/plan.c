/* SPDX-License-Identifier: Apache-2.0 */
/* What both ends of the warden's socket agree on: names of walls and mechanisms, and the checks of
 * a plan that need no knowledge of the host. The warden runs plan_check() on every record it
 * receives; its ceiling comes on top (warden/ceiling.c). */
#include "proto/plan.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const wall_names[] = {
    [WALL_MEMORY] = "memory",
    [WALL_CPU] = "cpu",
    [WALL_PROCESSES] = "processes",
    [WALL_DISK] = "disk",
    [WALL_IO] = "io",
    [WALL_FILESYSTEM] = "filesystem",
    [WALL_NETWORK] = "network",
    [WALL_SYSCALLS] = "syscalls",
    [WALL_USERS] = "users",
    [WALL_LANDLOCK] = "landlock",
};
static_assert(sizeof(wall_names) / sizeof(wall_names[0]) == _WALL_MAX, "a name for every wall");
static_assert(_WALL_MAX <= sizeof(((struct plan *)0)->weaker), "a flag for every wall");
static_assert(_WALL_MAX <= sizeof(((struct plan_reply *)0)->mechanism), "a slot for every wall");

static const char *const mechanism_names[] = {
    [MECHANISM_NONE] = NULL,
    [MECHANISM_CGROUP_V1] = "cgroup v1",
    [MECHANISM_CGROUP_V2] = "cgroup v2",
    [MECHANISM_RLIMIT] = "rlimit",
    [MECHANISM_TMPFS] = "tmpfs",
    [MECHANISM_LOOP] = "loop image",
    [MECHANISM_NAMESPACE] = "namespace",
    [MECHANISM_SECCOMP] = "seccomp",
    [MECHANISM_LANDLOCK] = "landlock",
    [MECHANISM_UID_RANGE] = "uid range",
    [MECHANISM_UID_SHARED] = "shared uid",
    [MECHANISM_SENTRY] = "user-space kernel",
    [MECHANISM_UID_ENGINE] = "engine's uid range",
    [MECHANISM_UID_HOST] = "host uids",
    [MECHANISM_VM] = "virtual machine",
    [MECHANISM_NFTABLES] = "nftables",
    [MECHANISM_CLAIM] = "volume claim",
    [MECHANISM_NETWORK_POLICY] = "NetworkPolicy, tried from inside",
};
static_assert(sizeof(mechanism_names) / sizeof(mechanism_names[0]) == _MECHANISM_MAX,
              "a name for every mechanism");

static const char *const oci_backend_names[] = {
    [OCI_NONE] = NULL,   [OCI_CRUN] = "crun",     [OCI_RUNC] = "runc",     [OCI_RUNSC] = "runsc",
    [OCI_KATA] = "kata", [OCI_PODMAN] = "podman", [OCI_DOCKER] = "docker",
};
static_assert(sizeof(oci_backend_names) / sizeof(oci_backend_names[0]) == _OCI_BACKEND_MAX,
              "a name for every backend");

const char *oci_backend_name(enum oci_backend b)
{
    return (unsigned)b < _OCI_BACKEND_MAX ? oci_backend_names[b] : NULL;
}

const char *wall_name(enum wall w)
{
    return (unsigned)w < _WALL_MAX ? wall_names[w] : "unknown";
}

const char *mechanism_name(enum mechanism m)
{
    return (unsigned)m < _MECHANISM_MAX ? mechanism_names[m] : NULL;
}

static int plan_refuse(char *why, unsigned size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int plan_refuse(char *why, unsigned size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (size)
        vsnprintf(why, size, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

/* The control plane may be in an attacker's hands, and a record is any bytes of the right size:
 * every text is looked at for its end before it is read as one. */
static bool is_terminated(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/* The id becomes a file name and part of log lines. */
static bool id_ok(const char *id)
{
    if (id[0] < 'a' || id[0] > 'z')
        return false;
    for (const char *p = id; *p; p++)
        if (!is_id_char(*p))
            return false;
    return true;
}

/* As sethostname() and resolvers take it: letters, digits, inner dots and hyphens. */
static bool hostname_ok(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!is_id_char(*p) && !(*p >= 'A' && *p <= 'Z') && *p != '.')
            return false;
    return name[0] != '-' && name[0] != '.';
}

/* No empty, "." or ".." component, and no trailing slash. */
static bool components_ok(const char *path)
{
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
        if (*p == '/' && !*++p)
            return false;
    }
    return true;
}

static bool absolute_ok(const char *path)
{
    return path[0] == '/' && path[1] && components_ok(path + 1);
}

/* The digest is a file name of the warden's store: nothing but its own letters may be in it. */
static bool image_ok(const char *hex)
{
    return !hex[0] || strspn(hex, "0123456789abcdef") == PLAN_IMAGE_SIZE - 1;
}

/* It is a file name, too. */
static bool snapshot_ok(const struct plan *p)
{
    return is_terminated(p->snapshot, sizeof(p->snapshot)) &&
           (!p->snapshot[0] ||
            strspn(p->snapshot, "abcdefghijklmnopqrstuvwxyz0123456789") == PLAN_SNAPSHOT_SIZE - 1);
}

static bool op_needs_snapshot(uint32_t op)
{
    return op == PLAN_SAVE || op == PLAN_LOAD || op == PLAN_RETURN || op == PLAN_DROP;
}

static int mount_check(const struct plan_mount *m, unsigned i, char *why, unsigned size)
{
    if (!is_terminated(m->subpath, sizeof(m->subpath)) ||
        !is_terminated(m->target, sizeof(m->target)))
        return plan_refuse(why, size, "mount %u: unterminated path", i);
    if (m->read_only > 1)
        return plan_refuse(why, size, "mount %u: read_only is not 0 or 1", i);
    if (m->allow_index < 0)
        return plan_refuse(why, size, "mount %u: negative directory index", i);
    if (m->subpath[0] && !components_ok(m->subpath))
        return plan_refuse(why, size, "mount %u: subpath is not a clean relative path", i);
    if (!absolute_ok(m->target))
        return plan_refuse(why, size, "mount %u: target is not a clean absolute path", i);
    return 0;
}

static int ranges_check(const struct plan *p, char *why, unsigned size)
{
    if (p->n_ranges > NET_RANGES_MAX)
        return plan_refuse(why, size, "more than %d networks", NET_RANGES_MAX);
    for (uint32_t i = 0; i < p->n_ranges; i++)
        if (!net_range_is_valid(&p->ranges[i]))
            return plan_refuse(why, size, "network %u is malformed", i);
    return 0;
}

static int create_check(const struct plan *p, char *why, unsigned size)
{
    /* Combinations that no runtime asks for are refused as well: each would be a state of a cell
     * that was never thought of. */
    if (p->flags >= _PLAN_FLAGS_END)
        return plan_refuse(why, size, "unknown flags");
    if (p->flags & PLAN_LANDLOCK &&
        (p->flags != PLAN_LANDLOCK || p->backend || p->image[0] || p->n_mounts || p->workdir[0]))
        return plan_refuse(why, size, "the landlock runtime has the host's root and nothing else");
    if (p->flags & PLAN_VM && (p->flags & (PLAN_PROCESS | PLAN_LANDLOCK) || p->backend))
        return plan_refuse(why, size,
                           "a virtual machine has no OCI runtime and no walls of another kind");
    if (p->snapshot[0] && (!(p->flags & PLAN_VM) || p->n_mounts))
        return plan_refuse(why, size, "only a virtual machine without mounts can be a copy");
    if (!(p->flags & PLAN_ADDRESSES) && p->n_ranges)
        return plan_refuse(why, size, "networks without a way out by address");
    if (p->flags & PLAN_ADDRESSES && ranges_check(p, why, size) < 0)
        return -EINVAL;
    if (p->backend && p->flags & PLAN_PROCESS)
        return plan_refuse(why, size, "a runner without walls has no OCI runtime");
    if (!is_terminated(p->hostname, sizeof(p->hostname)) || !hostname_ok(p->hostname))
        return plan_refuse(why, size, "malformed hostname");
    if (!is_terminated(p->workdir, sizeof(p->workdir)) ||
        (p->workdir[0] && strcmp(p->workdir, "/") != 0 && !absolute_ok(p->workdir)))
        return plan_refuse(why, size, "workdir is not a clean absolute path");
    if (!is_terminated(p->image, sizeof(p->image)) || !image_ok(p->image))
        return plan_refuse(why, size, "image is not a digest of %d hexadecimal digits",
                           PLAN_IMAGE_SIZE - 1);
    if (p->image[0] && p->flags & PLAN_PROCESS)
        return plan_refuse(why, size, "a runner without walls has no image");
    if (p->n_mounts > PLAN_MOUNTS_MAX)
        return plan_refuse(why, size, "more than %d mounts", PLAN_MOUNTS_MAX);
    for (unsigned i = 0; i < p->n_mounts; i++) {
        int r = mount_check(&p->mounts[i], i, why, size);
        if (r < 0)
            return r;
        for (unsigned k = 0; k < i; k++)
            if (!strcmp(p->mounts[k].target, p->mounts[i].target))
                return plan_refuse(why, size, "mount %u: target used twice", i);
    }
    return 0;
}

static int sign_check(const struct plan_sign *s, char *why, unsigned size)
{
    if (s->seq && (s->purpose < CHECKPOINT_PERIODIC || s->purpose >= _CHECKPOINT_PURPOSE_MAX))
        return plan_refuse(why, size, "unknown purpose %u of a signature", s->purpose);
    if (s->seq > INT64_MAX)
        return plan_refuse(why, size, "sequence number out of range");
    return 0;
}

static bool op_needs_id(uint32_t op)
{
    return op != PLAN_LIST && op != PLAN_PROBE && op != PLAN_POLICY && op != PLAN_SIGN &&
           op != PLAN_UPGRADE && op != PLAN_LOAD && op != PLAN_DROP;
}

int plan_check(const struct plan *p, char *why, unsigned size)
{
    if (p->version != PLAN_VERSION)
        return plan_refuse(why, size, "plan version %u, expected %d", p->version, PLAN_VERSION);
    if (p->op == 0 || p->op >= _PLAN_OP_MAX)
        return plan_refuse(why, size, "unknown operation %u", p->op);
    if (p->tag == 0)
        return plan_refuse(why, size, "tag 0 is for events");
    if (p->backend >= _OCI_BACKEND_MAX || p->inner >= OCI_PODMAN)
        return plan_refuse(why, size, "unknown OCI runtime");
    if (p->inner && !oci_backend_is_engine(p->backend))
        return plan_refuse(why, size, "a runtime within is for container engines");
    if (!is_terminated(p->id, sizeof(p->id)))
        return plan_refuse(why, size, "unterminated id");
    if ((op_needs_id(p->op) || p->id[0]) && !id_ok(p->id))
        return plan_refuse(why, size, "malformed id");
    if (!snapshot_ok(p) || (op_needs_snapshot(p->op) && !p->snapshot[0]))
        return plan_refuse(why, size, "snapshot is not a name of %d letters and digits",
                           PLAN_SNAPSHOT_SIZE - 1);
    if (p->op == PLAN_SIGN)
        return sign_check(&p->sign, why, size);
    if (p->op == PLAN_NETWORK)
        return ranges_check(p, why, size);
    return p->op == PLAN_CREATE ? create_check(p, why, size) : 0;
}
