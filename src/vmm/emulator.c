/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator's process, whichever program that is; see driver.h. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "builder/child.h"
#include "vmm/driver.h"
#include "vmm/vmm.h"

#define MIB      (1024ull * 1024)
#define MIN_MIB  64 /* what the kernel and the first process need to start at all */
#define CPUS_MAX 32

int vm_wait_for_bytes(int pidfd, int fd, int64_t until_ms)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    int64_t left = until_ms - clock_mono_ms();
    int n = left > 0 ? poll(fds, ELEMENTS(fds), (int)left) : 0;
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -ETIMEDOUT;
    return fds[0].revents ? 0 : -EPIPE;
}

const struct vmm_driver *vmm_driver_find(const struct vm *vm)
{
    return vm->start.machine.vmm == MACHINE_FIRECRACKER ? &vmm_firecracker : &vmm_qemu;
}

unsigned long long machine_mib(const struct vm *vm)
{
    uint64_t bytes = vm->start.child.limits.memory_bytes;
    child_must(bytes < MIN_MIB * MIB ? -ERANGE : 0, "read the machine's memory", WALL_MEMORY);
    return bytes / MIB;
}

unsigned machine_cpus(const struct vm *vm)
{
    uint64_t m = vm->start.child.limits.cpu_millicores;
    uint64_t n = m ? (m + 999) / 1000 : 1;
    return n > CPUS_MAX ? CPUS_MAX : (unsigned)n;
}

void machine_drives_word(const struct machine_config *m, char *ret, size_t size)
{
    size_t n = 0;
    ret[0] = 0;
    for (uint32_t i = 0; i < m->n_drives && n < size; i++)
        n += (size_t)snprintf(ret + n, size - n, "%s%s%s", i ? "," : " " GUEST_DRIVES_WORD,
                              m->drives[i].id, m->drives[i].writable ? GUEST_WRITABLE : "");
}

/* In the emulator's process: descriptors at their numbers, and the tool's user. */
static void __attribute__((noreturn)) become_emulator(const struct vm *vm, const char *const *argv,
                                                      const int *fds, size_t n_fds, int message)
{
    const int end = EMULATOR_FIRST_FD + (int)n_fds;
    int high[EMULATOR_FDS_MAX];
    uid_t id = vm_tool_id(vm);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (size_t i = 0; i < n_fds; i++)
        high[i] = fcntl(fds[i], F_DUPFD, end);
    dup2(message, 2);
    if (vm->log.pipe_fd >= 0) /* the guest's console, with all emulators */
        dup2(vm->log.pipe_fd, 1);
    for (size_t i = 0; i < n_fds; i++)
        dup2(high[i], EMULATOR_FIRST_FD + (int)i);
    close_range((unsigned)end, ~0U, 0);
    if (setgroups(0, NULL) == 0 && setresgid(id, id, id) == 0 && setresuid(id, id, id) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* which a change of ids undoes */
        /* What an emulator before it in this cell has left, and this one could not bind to. */
        unlink(VM_API_SOCKET);
        unlink(VM_VSOCK_SOCKET);
        umask(0); /* mas-vmm, which is another user, connects to them */
        execv(argv[0], (char *const *)argv);
    }
    dprintf(2, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void emulator_start(struct vm *vm, const char *const *argv, const int *fds, size_t n_fds)
{
    int message[2];
    child_must(n_fds > EMULATOR_FDS_MAX ? -E2BIG : 0, "count the emulator's descriptors", -1);
    child_must(pipe2(message, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0, "make a pipe", -1);
    vm->emulator = fork();
    if (vm->emulator == 0)
        become_emulator(vm, argv, fds, n_fds, message[1]);
    child_must(vm->emulator < 0 ? -errno : 0, "start the emulator", -1);
    close(message[1]);
    vm->message_fd = message[0];
    vm->emulator_pidfd = pidfd_open(vm->emulator, 0);
    child_must(vm->emulator_pidfd < 0 ? -errno : 0, "watch the emulator", -1);
}

void emulator_kill(struct vm *vm)
{
    kill(vm->emulator, SIGKILL);
}

void emulator_read_message(struct vm *vm, char *ret, size_t size)
{
    char text[2048];
    ssize_t n = read(vm->message_fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = 0;
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = 0;
    char *last = strrchr(text, '\n');
    snprintf(ret, size, "%s", last ? last + 1 : text);
}
