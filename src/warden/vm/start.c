/* SPDX-License-Identifier: Apache-2.0 */
/* From the process of a cell, which has all its walls, to mas-vmm. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/root.h"
#include "warden/local/child.h"
#include "warden/vm/vm.h"

/* A pipe has room for all of it, so that the write does not wait for a reader. */
static int send_start(const struct child_template *t, const struct child_order *o, int fd)
{
    struct vm_start start = {
        .n_filter = t->other_seccomp->len,
        .user_limits = t->user_limits,
        .machine = *(const struct machine_config *)t->other_config,
        .child = *o,
    };
    start.child.n_mounts = o->n_shares; /* the others are the emulator's */
    int r = fd_write_all(fd, &start, sizeof(start));
    if (r < 0)
        return r;
    return fd_write_all(fd, t->other_seccomp->filter,
                        t->other_seccomp->len * sizeof(*t->other_seccomp->filter));
}

void vm_become_vmm(const struct child_template *t, const struct child_order *o)
{
    static const char *const argv[] = {"mas-vmm", NULL};
    int pair[2];
    child_must(pipe2(pair, O_NONBLOCK | O_CLOEXEC) < 0 ? -errno : 0, "make a pipe", -1);
    child_must(send_start(t, o, pair[1]), "write the machine's order", -1);
    close(pair[1]);
    if (pair[0] == VM_START_FD)
        child_must(fd_set_cloexec(pair[0], false), "give the machine its order", -1);
    else
        child_must(dup2(pair[0], VM_START_FD) < 0 ? -errno : 0, "give the machine its order", -1);
    /* It says itself when the guest runs, or why not. */
    child_must(fd_set_cloexec(CHILD_FAILURE_FD, false), "keep the failure pipe", -1);
    execve(ROOT_VMM_PATH, (char **)argv, (char **)child_runner_env);
    child_must(-errno, "start mas-vmm", -1);
    _exit(125);
}
