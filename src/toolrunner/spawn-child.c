/* SPDX-License-Identifier: Apache-2.0 */
/* The child's side of starting a command (spawn.h): what runs between clone() and the program.
 *
 * All of it may run in a child that shares the runner's memory: system calls only, no allocation,
 * no stdio, no locks. All but what a plan with pins or a narrow one needs (pin.c, landlock.c,
 * truncate-filter.c) may run while the runner goes on: raw calls only (raw-call.h), and nothing is
 * written but the plan. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "proto/message.h"
#include "toolrunner/builtin.h"
#include "toolrunner/descendants.h"
#include "toolrunner/landlock.h"
#include "toolrunner/raw-call.h"
#include "toolrunner/spawn-child.h"
#include "toolrunner/start.h"
#include "toolrunner/truncate-filter.h"

#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"
#define PATH_SHELL   "/bin/sh" /* runs scripts without #!, as execvp() does */

IN_CHILD static int step_session(struct spawn_plan *p)
{
    static const uint64_t none; /* the kernel's sigset_t */
    (void)p;
    long r = raw_call(SYS_setsid);
    return (int)(r < 0 ? r : raw_call(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none)));
}

IN_CHILD static int step_stdio(struct spawn_plan *p)
{
    for (int i = 0; i < 3; i++) {
        long r = raw_call(SYS_dup3, p->fds[i], i, 0);
        if (r < 0)
            return (int)r;
    }
    return p->terminal ? (int)raw_call(SYS_ioctl, 0, TIOCSCTTY, 0) : 0;
}

IN_CHILD static int step_limits(struct spawn_plan *p)
{
    const uint64_t as[] = {p->msg->limit_as_bytes, p->msg->limit_as_bytes};
    const uint64_t cpu[] = {p->msg->limit_cpu_s, (uint64_t)p->msg->limit_cpu_s + 1};
    long r = as[0] ? raw_call(SYS_prlimit64, 0, RLIMIT_AS, as, NULL) : 0;
    if (r < 0)
        return (int)r;
    r = cpu[0] ? raw_call(SYS_prlimit64, 0, RLIMIT_CPU, cpu, NULL) : 0;
    if (r < 0)
        return (int)r;
    return descendants_mark(p->mark);
}

/* Before the tool may look into this process (step_user()), it has nothing of the runner's. */
static int step_trim(struct spawn_plan *p)
{
    const int kept[] = {p->report_fd, p->identity->rules_fd};
    if (p->forked)
        fd_keep_only(kept, ELEMENTS(kept));
    return 0;
}

/* Other groups were given up by the runner itself. A change of ids makes memory as open to its user
 * as fs.suid_dumpable says; memory that is shared is only where that means not at all. */
IN_CHILD static int step_user(struct spawn_plan *p)
{
    const struct spawn_identity *id = p->identity;
    long r;
    if (id->switch_user) {
        /* The group first: without the runner's user there is no right to change it. */
        r = raw_call(SYS_setresgid, id->gid, id->gid, id->gid);
        if (r < 0)
            return (int)r;
        r = raw_call(SYS_setresuid, id->uid, id->uid, id->uid);
        if (r < 0)
            return (int)r;
        r = p->forked ? raw_call(SYS_prctl, PR_SET_DUMPABLE, 0) : 0;
        if (r < 0)
            return (int)r;
    }
    if (!id->die_with_us)
        return 0;
    /* After the ids, whose change clears it; and a runner that died before it was set is noticed by
     * its number. */
    r = raw_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (r < 0)
        return (int)r;
    return raw_call(SYS_getppid) == id->runner_pid ? 0 : -ESRCH;
}

IN_CHILD static int step_rules(struct spawn_plan *p)
{
    if (p->identity->rules_fd < 0 || (p->builtin && p->builtin->sees_processes))
        return 0;
    return (int)raw_call(SYS_landlock_restrict_self, p->identity->rules_fd, 0);
}

IN_CHILD static int step_narrow(struct spawn_plan *p)
{
    if (!(p->msg->flags & SPAWN_NARROW) && !p->proxy_port && !p->identity->shared_uid)
        return 0;
    return landlock_enter(p->identity->landlock_abi, p->proxy_port, p->msg);
}

/* Builtins open for writing what they empty, and use openat2. On a kernel where this filter may be
 * needed, the sandbox's own leaves the last word about filters to it. */
IN_CHILD static int step_truncate(struct spawn_plan *p)
{
    const struct spawn_identity *id = p->identity;
    bool narrow = p->msg->flags & SPAWN_NARROW;
    bool walled = !id->die_with_us || id->rules_fd >= 0;
    if (p->builtin || !landlock_needs_filter(id->landlock_abi) || (!narrow && !walled))
        return 0;
    return truncate_filter_enter(narrow);
}

IN_CHILD static int step_chdir(struct spawn_plan *p)
{
    const char *dir = *p->msg->cwd ? p->msg->cwd : p->identity->workdir;
    return dir ? (int)raw_call(SYS_chdir, dir) : 0;
}

/* A script becomes its sealed copy; the program itself is found and sealed when it is executed. */
IN_CHILD static int step_pins(struct spawn_plan *p)
{
    for (int i = 0; i < p->n_pins; i++) {
        size_t arg = p->pins[i].arg;
        if (arg == 0)
            continue;
        int r = pin_seal(p->msg->argv[arg], &p->pins[i], p->pinned[i]);
        if (r < 0)
            return r;
        p->argv[SPAWN_ARGV_FREE + arg] = p->pinned[i];
    }
    return 0;
}

static const struct step {
    const char *stage;
    int (*run)(struct spawn_plan *p);
} steps[] = {
    {"session", step_session}, {"stdio", step_stdio},
    {"limits", step_limits},   {"stdio", step_trim},
    {"user", step_user},       {"rules", step_rules},
    {"narrow", step_narrow},   {"truncate", step_truncate},
    {"chdir", step_chdir},     {"approved content", step_pins},
};

IN_CHILD int spawn_child_prepare(struct spawn_plan *p)
{
    for (size_t i = 0; i < ELEMENTS(steps); i++) {
        p->stage = steps[i].stage;
        int r = steps[i].run(p);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Where the program is pinned, what runs is the sealed copy of what path names. */
IN_CHILD static int pin_program(struct spawn_plan *p, const char **path)
{
    for (int i = 0; i < p->n_pins; i++) {
        if (p->pins[i].arg != 0)
            continue;
        int r = pin_seal(*path, &p->pins[i], p->pinned[i]);
        if (r < 0)
            return r;
        *path = p->pinned[i];
    }
    return 0;
}

IN_CHILD static int exec_path(struct spawn_plan *p, const char *path)
{
    char **argv = p->argv + SPAWN_ARGV_FREE;
    int r = pin_program(p, &path);
    if (r < 0)
        return r;
    r = (int)raw_call(SYS_execve, path, argv, p->msg->env);
    if (r != -ENOEXEC)
        return r;
    char *name = argv[0];
    argv[-1] = (char *)PATH_SHELL;
    argv[0] = (char *)path;
    raw_call(SYS_execve, PATH_SHELL, argv - 1, p->msg->env);
    argv[0] = name;
    return -ENOEXEC;
}

IN_CHILD static int exec_direct(struct spawn_plan *p, const char *path)
{
    int r = exec_path(p, path);
    if (r != -EACCES)
        return r;
    const int how = O_PATH | O_DIRECTORY | O_CLOEXEC;
    return raw_call(SYS_openat, AT_FDCWD, path, how, 0) >= 0 ? -EISDIR : r;
}

IN_CHILD const char *spawn_env_path(char *const *env)
{
    for (; *env; env++) {
        if (!strncmp(*env, "PATH=", 5))
            return *env + 5;
    }
    return PATH_DEFAULT;
}

IN_CHILD static bool exec_search_goes_on(int error)
{
    return error == -ENOENT || error == -ENOTDIR || error == -EACCES || error == -ESTALE ||
           error == -ENODEV || error == -ETIMEDOUT;
}

/* As execvpe(): a directory that does not have it is passed over, a file that may not be run is
 * remembered, anything else ends the search. */
IN_CHILD static int exec_search(struct spawn_plan *p, const char *name)
{
    bool denied = false;
    size_t name_len = strlen(name);
    for (const char *dir = spawn_env_path(p->msg->env);;) {
        size_t len = strcspn(dir, ":");
        if (len + name_len + 3 <= p->path_size) {
            memcpy(p->path, len ? dir : ".", len ? len : 1);
            size_t at = len ? len : 1;
            p->path[at] = '/';
            memcpy(p->path + at + 1, name, name_len + 1);
            int r = exec_path(p, p->path);
            if (!exec_search_goes_on(r))
                return r;
            denied |= r == -EACCES;
        }
        if (!dir[len])
            return denied ? -EACCES : -ENOENT;
        dir += len + 1;
    }
}

IN_CHILD static int child_exec(struct spawn_plan *p)
{
    const char *name = p->msg->argv[0];
    p->stage = "exec";
    if (!*name)
        return -ENOENT;
    /* A child that hangs in execve(), on a slow file system, must not keep a pipe of another
     * command's open, whose end would then never be read. */
    if (p->leaves)
        raw_call(SYS_close_range, 3, ~0u, 0);
    return strchr(name, '/') ? exec_direct(p, name) : exec_search(p, name);
}

IN_CHILD int spawn_child_main(void *arg)
{
    struct spawn_plan *p = arg;
    int r = spawn_child_prepare(p);
    p->error = r < 0 ? -r : -child_exec(p);
    if (p->error == EBADMSG)
        p->stage = "approved content";
    if (p->forked)
        start_tell_failure(p->report_fd, p->error, p->stage);
    for (;;)
        raw_call(SYS_exit_group, SPAWN_CHILD_FAILED);
}
