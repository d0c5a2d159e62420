/* SPDX-License-Identifier: Apache-2.0 */
/* mas-vmm: see vmm.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "builder/child.h"
#include "vmm/driver.h"
#include "vmm/vmm.h"

static const char usage[] =
    "usage: mas-vmm [--help|--version]\n"
    "mas-sandboxd starts one such process per virtual machine; it is of no use by hand.\n";

/* Started by hand, or by a program that is not the warden. */
static int explain(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("mas-vmm " MAS_VERSION);
        return 0;
    }
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs(usage, asked ? stdout : stderr);
    return asked ? 0 : 2;
}

static bool was_started_by_warden(int argc)
{
    struct stat start, channel;
    return argc == 1 && fstat(VM_START_FD, &start) == 0 && S_ISFIFO(start.st_mode) &&
           fstat(CHILD_CHANNEL_FD, &channel) == 0 && S_ISSOCK(channel.st_mode);
}

static int read_exactly(int fd, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, (char *)data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EPROTO;
        done += (size_t)n;
    }
    return 0;
}

static void receive_start(struct vm *vm)
{
    int r = read_exactly(VM_START_FD, &vm->start, sizeof(vm->start));
    if (r == 0 && (vm->start.n_filter == 0 || vm->start.n_filter > GUEST_FILTER_MAX))
        r = -EPROTO;
    if (r == 0)
        r = read_exactly(VM_START_FD, vm->filter, vm->start.n_filter * sizeof(vm->filter[0]));
    child_must(r, "read the machine's order", -1);
    close(VM_START_FD);
}

/* As the runner would have ended, which is gone with its machine. */
static void __attribute__((noreturn)) end_alike(const struct vm *vm)
{
    int status = vm->wait_status;
    if (!vm->ended)
        _exit(1);
    if (WIFSIGNALED(status)) { /* of the first process of a namespace only this can be told */
        signal(WTERMSIG(status), SIG_DFL);
        _exit(128 + WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    static struct vm vm = {.ctl_fd = -1,
                           .data_fd = -1,
                           .lines_fd = -1,
                           .message_fd = -1,
                           .emulator_pidfd = -1,
                           .memory_fd = -1,
                           .state_fd = -1,
                           .image_fd = -1,
                           .disk_fd = -1,
                           .tap_fd = -1,
                           .drive_fds = {-1, -1, -1, -1},
                           .authority_fd = -1,
                           .listener_fd = -1,
                           .log = {-1, -1},
                           .metrics = {-1, -1}};
    if (!was_started_by_warden(argc))
        return explain(argc, argv);
    log_setup("mas-vmm", LOG_INFO, false);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    fd_set_cloexec(CHILD_STREAM_FD, true);
    fd_set_cloexec(CHILD_CHANNEL_FD, true);
    fd_set_cloexec(CHILD_FAILURE_FD, true);
    child_must(child_die_with_warden(), "tie to the warden", -1);
    receive_start(&vm);
    vm.driver = vmm_driver_find(&vm);
    if (vm.start.machine.log_path[0])
        vm_open_outlet(&vm, &vm.log);
    if (vm.start.machine.metrics_path[0])
        vm_open_outlet(&vm, &vm.metrics);
    vm_start(&vm);
    if (vm.start.child.origin == VM_COPIED)
        guest_renew(&vm);
    else
        guest_begin(&vm);
    vm_serve(&vm, CHILD_STREAM_FD);
    end_alike(&vm); /* which ends all others of this namespace */
}
