/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel really holds, looked at before the runner is handed out: an engine that leaves
 * out a wall with a warning, or without one, makes a create fail and not a sandbox weaker. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/strbuf.h"
#include "engine/engine.h"
#include "builder/mount.h"
#include "builder/flavour.h"
#include "builder/root.h"
#include "builder/routes.h"

#define TEXT_MAX      (1024 * 1024)
#define CPU_SLACK     1 /* an engine rounds */
#define RUNNER_RIGHTS ((1u << CAP_SETUID) | (1u << CAP_SETGID) | (1u << CAP_KILL))

static void read_proc(const struct engine *e, const char *name, struct strbuf *text)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)e->mark.pid, name);
    child_must(fd_read_file_at(AT_FDCWD, path, text), "look at the container", -1);
    child_must(text->data ? 0 : -ESRCH, "look at the container", -1);
}

static uint64_t status_number(const char *status, const char *key, int base)
{
    const char *p = strstr(status, key);
    return p ? strtoull(p + strlen(key), NULL, base) : UINT64_MAX;
}

static void must_be(bool holds, const char *what, int wall)
{
    char step[160];
    snprintf(step, sizeof(step), "the engine did not do as asked: %s", what);
    child_must(holds ? 0 : -EOPNOTSUPP, step, wall);
}

/* The bounding set has to be exact: with more in it, no_new_privs alone would keep a program with
 * file capabilities from getting them. What is in effect may be less. */
static void check_rights(const struct engine *e)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    read_proc(e, "status", &text);
    must_be(status_number(text.data, "\nNoNewPrivs:", 10) == 1, "no new privileges", WALL_USERS);
    must_be(status_number(text.data, "\nSeccomp:", 10) == 2, "a system call filter", WALL_SYSCALLS);
    must_be(status_number(text.data, "\nCapBnd:", 16) == RUNNER_RIGHTS, "capabilities", WALL_USERS);
    must_be((status_number(text.data, "\nCapEff:", 16) & ~(uint64_t)RUNNER_RIGHTS) == 0,
            "capabilities", WALL_USERS);
}

/* Compared with the broker's own, which are the host's: an engine that shares one of these with the
 * container has taken a wall away, whatever its configuration says. */
static void check_namespaces(const struct engine *e)
{
    static const struct {
        const char *name;
        int wall;
    } all[] = {{"pid", WALL_FILESYSTEM},
               {"mnt", WALL_FILESYSTEM},
               {"net", WALL_NETWORK},
               {"ipc", WALL_FILESYSTEM},
               {"uts", WALL_FILESYSTEM}};
    for (size_t i = 0; i < ELEMENTS(all); i++) {
        struct stat own, theirs;
        char path[64], what[64];
        snprintf(path, sizeof(path), "/proc/self/ns/%s", all[i].name);
        bool known = stat(path, &own) == 0;
        snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)e->mark.pid, all[i].name);
        known = known && stat(path, &theirs) == 0;
        snprintf(what, sizeof(what), "a %s namespace of its own", all[i].name);
        must_be(known && own.st_ino != theirs.st_ino, what, all[i].wall);
    }
}

/* A namespace of its own may still lead somewhere. */
static void check_routes(const struct engine *e)
{
    char process[16];
    snprintf(process, sizeof(process), "%d", (int)e->mark.pid);
    _cleanup_close_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = routes_check_none(proc, process);
    child_must(r == -EPERM ? 0 : r, "look at the container's routes", WALL_NETWORK);
    must_be(r == 0, "no route", WALL_NETWORK);
}

static void check_files(const struct engine *e)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    const struct child_order *o = &e->order.child;
    const struct engine_dialect *d = engine_dialect(e);
    read_proc(e, "mountinfo", &text);
    if (!e->image || !d->image_is_root)
        must_be(mountinfo_has(text.data, "/", 0, "ro"), "a read-only root", WALL_FILESYSTEM);
    if (e->image)
        must_be(mountinfo_has(text.data, d->image_at, e->root_dev, NULL), "the image",
                WALL_FILESYSTEM);
    for (size_t i = 0; i < n_disk_parts; i++) {
        bool covered = false;
        for (uint32_t k = 0; k < o->n_mounts; k++)
            covered = covered || strcmp(o->mounts[k].target, disk_parts[i].target) == 0;
        must_be(covered || mountinfo_has(text.data, disk_parts[i].target, e->disk_dev, NULL),
                "the sandbox's disk", WALL_DISK);
    }
    for (uint32_t k = 0; k < o->n_mounts; k++)
        must_be(mountinfo_has(text.data, o->mounts[k].target, 0, NULL), "a mount", WALL_FILESYSTEM);
    must_be(mountinfo_has(text.data, OCI_LINK_INSIDE, 0, "ro"), "a way to the runner",
            WALL_FILESYSTEM);
    if (o->authority_from_fd && !e->image)
        must_be(mountinfo_has(text.data, ROOT_AUTHORITIES, 0, "ro"), "certificate authorities",
                WALL_FILESYSTEM);
}

static bool id_map_has(const char *text, uint32_t inside, uint32_t host)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += !!line) {
        unsigned long long in, out, count;
        if (sscanf(line, "%llu %llu %llu", &in, &out, &count) == 3 && inside >= in &&
            inside - in < count)
            return host == out + (inside - in);
    }
    return false;
}

static void check_users(const struct engine *e)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    read_proc(e, "uid_map", &text);
    must_be(id_map_has(text.data, SANDBOX_RUNNER_ID, e->runner_id) &&
                id_map_has(text.data, e->tool_inside, e->tool_id),
            "user ids", WALL_USERS);
}

/* The container's first process is the kernel's, then, and not the runner itself: podman 4.3 takes
 * the name of a runtime and uses its own all the same. */
static void check_kernel(const struct engine *e)
{
    const struct engine_runtime *r = engine_runtime(e);
    char path[64], what[96], program[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)e->mark.pid);
    ssize_t n = readlink(path, program, sizeof(program) - 1);
    const char *base = n > 0 ? strrchr(program, '/') : NULL;
    bool runner = !base || strcmp(base, strrchr(ROOT_RUNNER_PATH, '/')) == 0;
    bool named = !r->process || (base && strncmp(base + 1, r->process, strlen(r->process)) == 0);
    snprintf(what, sizeof(what), "run it on %s", r->name);
    must_be(!runner && named, what, WALL_SYSCALLS);
}

static void set_limit(const struct engine *e, enum wall wall, bool asked, bool holds,
                      enum mechanism by, uint8_t *mechanism)
{
    char what[64];
    mechanism[wall] = asked && holds ? (uint8_t)by : MECHANISM_NONE;
    snprintf(what, sizeof(what), "a limit of %s", wall_name(wall));
    must_be(holds || !e->order.must[wall], what, (int)wall);
}

static bool has_swap(void)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    const char *second;
    return fd_read_file_at(AT_FDCWD, "/proc/swaps", &text) == 0 && text.data &&
           (second = strchr(text.data, '\n')) && second[1];
}

static void check_limits(const struct engine *e, uint8_t *mechanism)
{
    const struct limits *l = &e->order.child.limits;
    struct group_numbers g;
    group_read(e->mark.pid, &g);
    set_limit(e, WALL_MEMORY, l->memory_bytes,
              g.memory_limit <= l->memory_bytes && (g.swap_limit <= l->memory_bytes || !has_swap()),
              g.by, mechanism);
    if (mechanism[WALL_MEMORY])
        child_must(group_limit_sockets(e->mark.pid, l->memory_bytes), "limit sockets", WALL_MEMORY);
    set_limit(e, WALL_CPU, l->cpu_millicores, g.cpu_millicores <= l->cpu_millicores + CPU_SLACK,
              g.by, mechanism);
    if (engine_own_kernel(e))
        mechanism[WALL_PROCESSES] = l->processes ? MECHANISM_RLIMIT : MECHANISM_NONE;
    else
        set_limit(e, WALL_PROCESSES, l->processes, g.pids_limit <= l->processes, g.by, mechanism);
    set_limit(e, WALL_IO, l->io_bytes_per_s, l->io_bytes_per_s && io_holds(e), MECHANISM_CGROUP_V2,
              mechanism);
}

/* Namespaces are entered by the descriptor of the container's process and not by its number: the
 * container may end at any moment, and what is done below would be done to whichever process has
 * the number then, in the host's own namespaces perhaps. */
static int enter_and_lower(const struct engine *e)
{
    if (setns(e->pidfd, CLONE_NEWUSER) < 0)
        return -errno;
    return child_lower_user_limits(&e->order.user_limits);
}

static int enter_and_limit_ptys(const struct engine *e)
{
    if (setns(e->pidfd, CLONE_NEWNS) < 0)
        return -errno;
    return mount(NULL, "/dev/pts", NULL, MS_REMOUNT | MS_NOSUID | MS_NOEXEC,
                 "ptmxmode=0666,mode=0620,max=" MOUNT_PTYS_MAX) < 0
               ? -errno
               : 0;
}

/* Does a step for what engines cannot set and the host shares, in a process that ends with the
 * step, before the runner is handed out. */
static void run_in_helper(const struct engine *e, int (*step)(const struct engine *),
                          const char *name)
{
    int status = 0;
    pid_t pid = helper_fork(&e->pidfd, 1);
    if (pid == 0)
        _exit(step(e) < 0);
    int r = pid < 0 || waitpid(pid, &status, 0) != pid || status ? -EPERM : 0;
    child_must(r, name, WALL_USERS);
}

/* The runner waits for its connection while this looks, so no command has run yet. What it finds is
 * the kernel's word about the container's first process, never the engine's. */
void verify(struct engine *e, uint8_t *mechanism)
{
    check_limits(e, mechanism);
    check_routes(e);
    if (engine_own_kernel(e)) {
        check_kernel(e);
        mechanism[WALL_FILESYSTEM] = mechanism[WALL_NETWORK] = mechanism[WALL_SYSCALLS] =
            mechanism[WALL_USERS] = MECHANISM_SENTRY;
        return;
    }
    check_rights(e);
    check_namespaces(e);
    check_files(e);
    check_users(e);
    mechanism[WALL_USERS] = (uint8_t)e->users;
    run_in_helper(e, enter_and_limit_ptys, "limit pseudo terminals");
    if (mechanism[WALL_USERS] != MECHANISM_UID_HOST)
        run_in_helper(e, enter_and_lower, "lower user limits");
    mechanism[WALL_FILESYSTEM] = mechanism[WALL_NETWORK] = MECHANISM_NAMESPACE;
    mechanism[WALL_SYSCALLS] = MECHANISM_SECCOMP;
}
