/* SPDX-License-Identifier: Apache-2.0 */
/* What mas-vmm asks of the program that emulates or runs its machine.
 *
 * A driver is one row. All of its functions run in mas-vmm, which is single-threaded and has one
 * machine, so a driver may keep what it knows in variables of its own file. The emulator itself is
 * started by emulator_start(), which is the same for all drivers and makes it the tool's user. What
 * a machine used is not asked here: the cell's control group counts it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct vm;

struct vmm_driver {
    const char *name;
    /* Where the emulator serves the machine's vsock in the cell. The guest speaks over vsock then,
     * and says once more that it waits when it has been restored, as its connections were lost.
     * NULL: it has serial ports, and lines.c serves the socket on the host. */
    const char *vsock_socket;
    /* Starts the emulator with a machine that boots. Where vm->memory_fd is a file, that is the
     * guest's memory. Fails by child_must(). */
    void (*start)(struct vm *vm);
    /* Sets vm->ctl_fd and vm->data_fd, which block: the guest's two ports. The guest may not have
     * opened its side yet; what is written waits for it. Fails by child_must(). */
    void (*connect)(struct vm *vm);
    /* Stops the machine for good and writes all of it but its memory to vm->state_fd; vm->memory_fd
     * has that. To be called after connect(). NULL: there are no snapshots with this emulator.
     * Fails by child_must(). */
    void (*snapshot)(struct vm *vm);
    /* Instead of start(), and with vm->restored set: starts the emulator with a machine as these
     * two files have it. Its memory is copied on write. NULL where snapshot is. Fails by
     * child_must(). */
    void (*restore)(struct vm *vm);
    /* Keeps the machine, which has been given to a caller: its memory in memory_fd, of its full
     * size, and all else in state_fd. It stands still from here until go_on(). 0, or -errno with
     * ret (size bytes) saying more; it can go on then, too. NULL: machines cannot be kept so with
     * this emulator. restore() takes what it wrote. */
    int (*save)(struct vm *vm, int memory_fd, int state_fd, char *ret, size_t size);
    /* NULL where save is. -errno: it never will. */
    int (*go_on)(struct vm *vm);
    /* Ends the machine at once; vm->emulator_pidfd tells when it is gone. */
    void (*stop)(struct vm *vm);
};

extern const struct vmm_driver vmm_qemu, vmm_firecracker;

/* The machine's size, as the limits of its sandbox say it. Fails by child_must(). */
unsigned long long machine_mib(const struct vm *vm);
unsigned machine_cpus(const struct vm *vm);

struct machine_config;
/* What the guest's kernel line says of the operator's drives, with a space before it; or "". */
void machine_drives_word(const struct machine_config *m, char *ret, size_t size);

/* The driver that the start record asks for. Fails by child_must(). */
const struct vmm_driver *vmm_driver_find(const struct vm *vm);

/* emulator.c: executes argv[0] as the tool's user, with fds at the numbers from
 * EMULATOR_FIRST_FD on (none for -1), and its standard error kept for emulator_read_message(). It
 * dies with mas-vmm. Fails by child_must(). */
#define EMULATOR_FIRST_FD 3
#define EMULATOR_FDS_MAX  20
void emulator_start(struct vm *vm, const char *const *argv, const int *fds, size_t n_fds);
/* SIGKILL: what a driver's stop does where its emulator keeps nothing. */
void emulator_kill(struct vm *vm);
/* The last line that it said on its standard error, or "". */
void emulator_read_message(struct vm *vm, char *ret, size_t size);
