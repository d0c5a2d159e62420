/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual machines: a local cell in all respects but its first process, which is mas-vmm
 * (vmm/vmm.h). The directory of the machine's files is mounted there, read-only. The order goes to
 * the guest, where the same code as on the host builds a sandbox of it (guest/guest.h). */
#pragma once

#include <linux/filter.h>
#include <stdint.h>

#include "proto/machine.h"
#include "proto/vm.h"
#include "warden/state.h"

struct child_order;
struct child_template;
struct warden;

/* What an emulator needs beside the guest's memory. */
#define VM_OVERHEAD_BYTES (192ull << 20)
/* The guest's memory, where no limit is asked for. */
#define VM_DEFAULT_BYTES (512ull << 20)
/* Less is not enough to boot. */
#define VM_MIN_BYTES (128ull << 20)
/* Of the guest's memory, what its kernel needs. */
#define VM_KERNEL_BYTES (64ull << 20)
/* Threads and processes of the emulator and mas-vmm. */
#define VM_PROCESSES 128

/* Machines that are kept, one per image, to be copied. */
#define VM_SNAPSHOTS_MAX 8

struct vm_snapshot {
    int memory_fd, state_fd;     /* of the two files; or -1 */
    char image[PLAN_IMAGE_SIZE]; /* "" without one */
    const struct cell *maker;    /* the cell whose machine is kept; NULL when that has ended */
    uint64_t used;               /* the serial of the last cell that was given it */
};

/* The emulator, its three files, and the operator's drives. */
#define VM_FILES_MAX      (4 + MACHINE_DRIVES_MAX)
#define VM_FILE_NAME_SIZE (MACHINE_DRIVE_SIZE + sizeof(VM_DRIVE_PREFIX))

struct vm_file {
    char name[VM_FILE_NAME_SIZE]; /* in a machine's cell */
    int fd;                       /* of the file, in the host view */
};

/* Which file is which: its size, its inode and when it was written last. */
struct vm_file_id {
    uint64_t bytes, inode, mtime_ns;
};

/* Machines that were saved and are in memory, to be copied (load.c). */
#define VM_LOADED_MAX 4

struct vm_loaded {
    char name[PLAN_SNAPSHOT_SIZE]; /* "": none */
    int memory_fd, state_fd;
    uint64_t used;             /* vm_host.loaded_uses when it was used last */
    unsigned promised;         /* answers that it is there, not used yet */
    int64_t promised_until_ms; /* by the monotonic clock: they count no longer than this */
};

/* The files of a saved machine (saved.c). */
enum vm_saved_file {
    VM_SAVED_MEMORY,
    VM_SAVED_STATE,
    VM_SAVED_DISK,
    VM_SAVED_SHAPE,
    _VM_SAVED_MAX,
};

/* What must be the same in a saved machine and its copies. */
struct vm_shape {
    uint64_t magic; /* GUEST_MAGIC */
    uint64_t memory_bytes, cpu_millicores, disk_bytes;
    uint32_t flags, has_disk;
    char image[PLAN_IMAGE_SIZE];
    char reserved[7];
    struct vm_file_id files[VM_FILES_MAX + 1];
};

/* What a machine that runs is asked for: PLAN_SAVE or PLAN_RETURN. */
struct vm_work {
    uint32_t op; /* 0: nothing */
    uint64_t tag;
    char name[PLAN_SNAPSHOT_SIZE];
    struct watch *timer;
    struct ledger_entry claim;
};

/* What a machine has on the host, where the operator's file names it. */
enum vm_place_kind {
    VM_PLACE_LOG,
    VM_PLACE_METRICS,
    VM_PLACE_API, /* the socket of its emulator's control */
    VM_PLACE_VSOCK,
    _VM_PLACE_MAX,
};

struct vm_place {
    char path[MACHINE_PATH_SIZE + PLAN_ID_SIZE]; /* "": none, or one without the machine's id */
    uint64_t inode;                              /* 0: it was about to be made */
};

/* All that one machine has there (record.c). */
struct vm_record {
    uint64_t magic;
    uint64_t left;         /* the machine ended by itself, and its files say why */
    char id[PLAN_ID_SIZE]; /* "": nothing is on record */
    struct vm_place places[_VM_PLACE_MAX];
};

/* Of so many machines that ended by themselves the files are left. */
#define VM_LEFT_MAX 64

struct vm_host {
    struct vm_record left[VM_LEFT_MAX];
    size_t n_left; /* how many there ever were: a ring */
    int places_fd; /* of the directory of records, or -1 */
    struct vm_snapshot snapshots[VM_SNAPSHOTS_MAX];
    struct sock_fprog filter;      /* of sandboxes, in a guest */
    struct machine_config machine; /* the operator's, with one emulator chosen */
    struct vm_file files[VM_FILES_MAX];
    uint32_t n_files;
    struct vm_file_id file_ids[VM_FILES_MAX + 1]; /* of the emulator, and of them */
    struct vm_loaded loaded[VM_LOADED_MAX];
    uint64_t loaded_uses;
    struct list loads; /* struct vm_load */
    int saved_fd;      /* of the directory of saved machines, or -1 */
    char *dir;         /* where they are put side by side, in the host view; or NULL */
    int devices_fd;    /* of /dev, in the host view, where cells need another; or -1 */
    char why[250];     /* there are no machines here; "": there are */
};

/* So many shared memory files that one machine has read whole, by being kept, may be there at once:
 * pages of each may be charged to its group for as long as the file is there. */
#define VM_READ_MAX (VM_LOADED_MAX + 1)

struct vm_cell {
    struct cell cell;
    int image_fd;                        /* with order.image_disk: the file of the image */
    int disk_fd;                         /* of a copy with a disk: that of the saved machine */
    int drive_fds[MACHINE_WRITABLE_MAX]; /* of drives that can be written, until they are sent */
    uint32_t n_drives;
    int authority_fd; /* with has_authority: the certificate of its interceptor, for the guest */
    bool has_authority;
    bool usual_disk; /* its disk has the operator's default size */
    struct vm_record record;
    struct vm_work work;
    struct vm_file_id emulator; /* as it was when the machine was started or put back */
    bool makes_shared;          /* pages of a file that others will map are charged to its group */
    ino_t memory_inode;         /* of the shared memory file that its machine maps; 0: none */
    ino_t read_inodes[VM_READ_MAX]; /* of those that were read whole, by a save */
    uint32_t n_read;
};

/* The guest's memory under these limits, where they are enough for a machine. */
uint64_t vm_memory_bytes(const struct limits *l);

/* snapshot.c. */
/* Gives the machine's group room for the pages of shared files that may be charged to it now: of
 * the one that it is about to make (inode 0), or to read whole, and of those before that are still
 * there. -ENOMEM: the operator's limit of the group has no room for it; -EMFILE: too many of those
 * before are. */
int vm_allow_shared(struct cell *s, ino_t inode);
/* 0: it cannot be known. */
ino_t vm_inode_of(int fd);
/* Bytes of a snapshot that are charged to the cell, which made it. */
uint64_t vm_snapshot_charged(const struct cell *s);
void vm_snapshots_init(struct vm_host *h);
void vm_snapshots_done(struct vm_host *h);
/* Fills in where the machine comes from. */
int vm_snapshot_choose(struct cell *s); /* 0 or -errno */
/* For cell_ops.send_more: what follows the order (proto/vm.h). */
int vm_send_files(struct cell *s);
/* The cell has ended. */
void vm_snapshot_end(struct cell *s);

/* files.c: opens the machine's files; vm_host.why where that fails. */
void vm_files_open(struct warden *w);
/* Looks again at an emulator that is run by its path: vm_host.file_ids. */
void vm_files_identify(const struct warden *w);
void vm_files_close(struct vm_host *h);
/* Opens the drives that the machine can write, which are this one's alone for as long as any
 * process has the descriptor. 0 or -errno, with the reason in the reply. */
int vm_drives_take(struct cell *s, struct plan_reply *reply);
void vm_drives_close(struct cell *s);
/* Whether machines have drives that they can write. */
bool vm_drives_are_written(const struct vm_host *h);
/* A detached directory with all of them, for one cell, or -errno. */
int vm_files_tree(const struct warden *w);

/* device.c: from the host view, makes the /dev of cells that need /dev/kvm; vm_host.why where that
 * fails. */
void vm_devices_open(const struct warden *w, struct vm_host *h);
/* A detached copy of it, or -errno. To be called only where vm_host.devices_fd is there. */
int vm_devices_tree(const struct warden *w);

/* socket.c: removes what machines of wardens before this one have left on the host. */
void vm_sockets_sweep(struct warden *w);
/* For cell_ops.announce and end. */
int vm_socket_announce(struct cell *s);
void vm_socket_end(struct cell *s);

/* record.c; all but the first three are called in the host view. */
/* vm_host.places_fd, or -1 where there can be none. */
void vm_records_open(struct vm_host *h, int state_fd);
/* Of a machine that has nothing yet. */
void vm_record_begin(struct vm_host *h, struct vm_record *r, const char *id);
/* 0 or -errno. */
int vm_record_save(const struct vm_host *h, struct vm_record *r);
/* Removes what it names, where that is still the machine's, and the record. */
void vm_record_remove(const struct vm_host *h, struct vm_record *r);
/* Removes the sockets, and leaves the files until VM_LEFT_MAX others are left. Takes the record. */
void vm_record_leave(struct vm_host *h, struct vm_record *r);
/* Does for every record that is there what the end of its machine would have done. */
void vm_records_sweep(struct vm_host *h);

/* saved.c: for cell_ops. */
void vm_saved_open(struct warden *w);
int vm_save(struct cell *s, const struct plan *p, struct plan_reply *reply);
int vm_go_back(struct cell *s, const struct plan *p, struct plan_reply *reply);
int vm_saved_drop(struct warden *w, const char *name);
void vm_on_channel(struct cell *s);
void vm_work_end(struct cell *s);
void vm_work_abandon(struct cell *s);
/* Whether a machine like this cell's can be a copy of the saved one. */
int vm_saved_check(const struct cell *s, const char *name, struct plan_reply *reply);
/* A descriptor for reading, or -errno. */
int vm_saved_open_file(const struct vm_host *h, const char *name, enum vm_saved_file f);

/* load.c */
void vm_loaded_init(struct vm_host *h);
void vm_loaded_done(struct vm_host *h);
/* NULL: it is not in memory. */
const struct vm_loaded *vm_loaded_find(struct vm_host *h, const char *name);
void vm_loaded_drop(struct vm_host *h, const char *name);
/* The sandbox that one of the answers was for has gone back, or will not. */
void vm_loaded_settle(struct vm_host *h, const char *name);
int vm_load(struct warden *w, const struct plan *p, struct plan_reply *reply);
void vm_loads_abandon(struct warden *w);

/* start.c: in the process of the cell, for child_template.become_other. */
void vm_become_vmm(const struct child_template *t, const struct child_order *o)
    __attribute__((noreturn));
