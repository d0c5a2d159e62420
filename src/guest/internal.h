/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/guest.h"

/* A directory of the host, until it is mounted. */
struct guest_share {
    int port_fd, fuse_fd;
    int requests_fd; /* of the process that carries the requests */
};

struct guest {
    int ctl_fd, data_fd, lines_fd;
    struct {
        int ctl, data, clients;
    } listeners; /* of vsock; or -1: the machine has serial ports, or its order */
    struct guest_order order;
    struct sock_filter filter[GUEST_FILTER_MAX];
    pid_t runner;
    int runner_pidfd;
    int stream_fd;    /* our end of the runner's connection */
    int channel_fd;   /* where it gets later ones */
    int disk_fd;      /* a detached mount for the sandbox, or -1: in memory */
    int image_fd;     /* the same of its image, or -1: the machine's own root */
    int authority_fd; /* a file with the certificate of its interceptor's authority, or -1 */
    struct guest_share shares[PLAN_MOUNTS_MAX];
    int share_fds[PLAN_MOUNTS_MAX]; /* detached mounts of them */
    uint32_t n_shares;
    pid_t lines;      /* the process of lines.c */
    bool has_boot_id; /* of its own (boot-id.c) */
};

/* Says why there is no sandbox, and ends the machine. */
void guest_give_up(struct guest *g, const char *step, int error) __attribute__((noreturn));
void guest_power_off(void) __attribute__((noreturn));
void guest_send(const struct guest *g, struct guest_message *m);

/* root.c: from the initramfs to the root of the first disk. Fails by guest_give_up(). */
void guest_mount_kernel_views(void);
/* Those of a list of names, a file beside them. */
#define GUEST_MODULES       "order"
#define GUEST_VSOCK_MODULES "order-vsock"
#define GUEST_FUSE_MODULES  "order-fuse"
#define GUEST_NET_MODULES   "order-net"
void guest_load_modules(const char *list);
/* What follows the word on the kernel's line, up to the next space; false where it is not there. */
bool guest_find_word(const char *word, char *ret, size_t size);
int guest_open_port(const char *path);
void guest_enter_root(struct guest *g);
/* After the order: the disk for the sandbox, with its parts, if it has one. */
void guest_open_disk(struct guest *g, uid_t runner_id, uid_t tool_id);
/* The same: the operator's drives, as a mount of the sandbox's; to be called after
 * guest_mount_shares(). */
void guest_open_drives(struct guest *g);
/* The same: its image, if it has one, whose files show as those of these ids. */
void guest_open_image(struct guest *g, uid_t runner_id);

/* share.c: directories of the host. First their devices, and after the order the mounts. Fails by
 * guest_give_up(). */
void guest_open_shares(struct guest *g);
void guest_mount_shares(struct guest *g);

/* network.c: a network by address. First its driver, and with the order the runner, whose network
 * namespace the link is moved to. Fails by guest_give_up(). */
void guest_load_network(void);
void guest_give_network(struct guest *g);

/* guest.c: mas-vmm says that this machine is a copy: new random numbers, the time, another mark; or
 * only what time it is. */
void guest_renew(struct guest *g, uint32_t connections);

/* boot-id.c: another one than the kernel's. 0 or -errno. */
int guest_renew_boot_id(struct guest *g);

/* lines.c: the process that gives the runner its other connections. */
void guest_start_lines(struct guest *g);
void guest_restart_lines(struct guest *g);

/* vsock.c: instead of serial ports, where the kernel's line has the word. Listens, and waits for
 * the control connection; false: there is no vsock. */
bool guest_vsock_listen(struct guest *g);
/* That connection has ended before the whole order was there: waits for another; false where there
 * can be none. */
bool guest_vsock_accept_again(struct guest *g);
/* After the order: takes the data connection, and no more of either. Without vsock, nothing. */
void guest_vsock_settle(struct guest *g);
/* The process that gives the runner connections of others. */
void guest_vsock_start_clients(struct guest *g);

/* link.c: carries bytes until the runner ends; its wait status. */
int guest_serve(struct guest *g);
