/* SPDX-License-Identifier: Apache-2.0 */
/* mas-vmm: one virtual machine, from inside the walls of a cell.
 *
 * Theory of operation. The cell that the warden builds for a machine is a local one in all
 * respects but one: where a local sandbox would have its runner as the first process, this one
 * has mas-vmm, which starts the emulator as the tool's user. So an attacker who breaks out of
 * the guest is the tool of a local sandbox: no network, no host files but read-only programs,
 * its system calls filtered, its memory and processors limited by the cell's group. mas-vmm has
 * no right over the host either.
 *
 * It gives the guest its order over the control port and then carries the control plane's
 * connections over the data port (proto/guest.h): the first comes as a descriptor with the start,
 * later ones over the channel, as a runner gets them. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <sys/types.h>

#include "builder/child.h"
#include "link/pump.h"
#include "proto/vm.h"

struct vmm_driver;

struct vm {
    const struct vmm_driver *driver;
    struct vm_start start;
    struct sock_filter filter[GUEST_FILTER_MAX];
    pid_t emulator;
    int emulator_pidfd;
    int ctl_fd, data_fd; /* our ends of the guest's ports */
    int lines_fd;        /* of the one for clients of the vsock socket; -1: none, or given away */
    int message_fd;      /* what the emulator says on its standard error */
    int memory_fd, state_fd; /* of a snapshot (snapshot.c), or -1 */
    int image_fd;            /* the image's disk, or -1 */
    int disk_fd;             /* of a copy: the disk of the machine that it is one of, or -1 */
    int tap_fd;              /* its link, until the emulator has it; or -1 */
    int drive_fds[MACHINE_WRITABLE_MAX]; /* of drives that can be written, in their order; or -1 */
    int authority_fd;                    /* the certificate of its interceptor's authority, or -1 */
    int listener_fd;                     /* of the machine's vsock socket, or -1 */
    uint32_t connections;                /* that the guest has had */
    struct vm_outlet {
        int pipe_fd;   /* what is written there goes to the operator's file, */
        int socket_fd; /* which is sent there; both -1: there is none */
    } log, metrics;
    bool restored; /* the machine comes from it */
    uint8_t mark[GUEST_MARK_SIZE];
    bool ended; /* the guest says that its runner is gone: */
    int wait_status;
};

/* The tool's user in this cell, as which everything runs that touches what the guest says. */
static inline uid_t vm_tool_id(const struct vm *vm)
{
    return vm->start.child.flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
}

/* disk.c: makes the guest's disk, where it is not in its memory. Fails by child_must(). */
void vm_make_disk(const struct vm *vm);
/* The same for a copy, of vm->disk_fd. */
void vm_copy_disk(const struct vm *vm);
/* All of the guest's disk to a file. 0 or -errno. */
int vm_save_disk(const struct vm *vm, int to_fd);

/* snapshot.c: starts a machine the way that its start record says: it boots; it boots, is kept, and
 * goes on as a copy of what was kept; or it is a copy from the start. It waits for its order then.
 * Fails by child_must(). */
void vm_start(struct vm *vm);
/* Starts a copy of what vm->memory_fd and vm->state_fd have, which it closes. The same. */
void vm_restore(struct vm *vm);
/* Until fd has bytes of the emulator's, whose end is seen by its pidfd. 0, also where a signal
 * came; -ETIMEDOUT, or -EPIPE where it has ended and left nothing. */
int vm_wait_for_bytes(int pidfd, int fd, int64_t until_ms);
/* Ends the emulator and waits for its end. The same. */
void vm_end_emulator(struct vm *vm);

/* save.c: keeps the machine in files that the warden sent, and tells the warden. Takes the three
 * descriptors; disk_fd may be -1. 0, or -errno where the machine is lost. */
int vm_save(struct vm *vm, int memory_fd, int state_fd, int disk_fd);
/* Puts a copy of such a machine in the place of this one, and tells the warden. Fails by
 * child_must(). Takes the same. */
void vm_go_back(struct vm *vm, int memory_fd, int state_fd, int disk_fd);

/* guest.c: waits until a machine that boots can take its order. Fails by child_must(). */
void guest_await_boot(struct vm *vm);
/* Gives the guest its order, and waits for the runner. Fails by child_must(). */
void guest_begin(struct vm *vm);
/* Makes another machine of one that is a copy; its runner runs. Fails by child_must(). */
void guest_renew(struct vm *vm);
/* Tells a guest whose runner runs what time it is. Its clock stands still with its machine; and the
 * time that came with the order, or with the renewal, was on its way for as long as the guest took
 * to come to it, which on a busy host is seconds. */
void guest_set_clock(struct vm *vm);
/* Reads news while it runs: 0, or -errno when there will be no more. *closed: the connection with
 * that number was closed inside. */
int guest_hear(struct vm *vm, uint32_t *closed);

/* warm.c: a connection on which one command runs that does nothing, and which ends then; its
 * process is to be reaped. The descriptor, or -errno. */
int vm_warm(pid_t *ret_pid);

/* lines.c: serves the machine's vsock socket, which it takes, in a process of its own. */
void vm_start_lines(struct vm *vm, int socket_fd);

/* outlet.c: starts the process that carries what is written to o->pipe_fd. Fails by child_must().
 */
void vm_open_outlet(struct vm *vm, struct vm_outlet *o);
/* The operator's file, which it takes. */
void vm_give_outlet(struct vm_outlet *o, int file_fd);

/* relay.c: serves a socket on the host, which it takes, in a process of its own: connections lead
 * to what listens at this path in the cell. */
void vm_start_relay(struct vm *vm, int socket_fd, const char *path);

/* share.c: starts the process that serves a directory of the host, the one that the cell has at
 * this number. The other end of its port. Fails by child_must(). */
int vm_start_share(const struct vm *vm, uint32_t number);

/* serve.c: carries connections until the machine ends. Reports that the machine runs once the guest
 * has answered on the first that is not our own (warm.c). */
void vm_serve(struct vm *vm, int stream_fd);
