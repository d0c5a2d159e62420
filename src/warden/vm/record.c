/* SPDX-License-Identifier: Apache-2.0 */
/* What machines have on the host, on record in the state directory, so that it goes even where the
 * warden that made it was killed.
 *
 * Theory of operation. A machine's sockets and files have names of the operator's, at places that
 * other programs use, too; so which of them are ours must be known, and not guessed. The warden
 * writes a record before it makes the first of them, and once more when all are made, with their
 * inodes. The record goes with the last of them. No machine outlives its warden: whatever is on
 * record when the next one starts is of a machine that is gone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/vm/vm.h"

#define DIR_NAME     "places" /* in the warden's directory */
#define RECORD_MAGIC 0x31656c50734d6156ull

static bool is_socket(int place)
{
    return place == VM_PLACE_API || place == VM_PLACE_VSOCK;
}

void vm_records_open(struct vm_host *h, int state_fd)
{
    if (mkdirat(state_fd, DIR_NAME, 0700) < 0 && errno != EEXIST)
        return;
    h->places_fd = openat(state_fd, DIR_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* A machine whose id one before it had appends to the files of that one, which are its own now. */
void vm_record_begin(struct vm_host *h, struct vm_record *r, const char *id)
{
    *r = (struct vm_record){.left = 0};
    snprintf(r->id, sizeof(r->id), "%s", id);
    for (size_t i = 0; i < VM_LEFT_MAX; i++)
        if (strcmp(h->left[i].id, id) == 0)
            h->left[i].id[0] = 0;
}

int vm_record_save(const struct vm_host *h, struct vm_record *r)
{
    r->magic = RECORD_MAGIC;
    _cleanup_close_ int fd =
        openat(h->places_fd, r->id, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    ssize_t n = pwrite(fd, r, sizeof(*r), 0);
    return n == sizeof(*r) ? 0 : n < 0 ? -errno : -ENOSPC;
}

/* What has taken its name since is another's. Where the warden ended before it knew the inode, the
 * machine's id in the name says whose it is; a file that has anything in it is not taken for ours
 * then. */
static bool is_own(const struct vm_record *r, int place, const struct stat *st)
{
    const struct vm_place *p = &r->places[place];
    if (!(is_socket(place) ? S_ISSOCK(st->st_mode) : S_ISREG(st->st_mode)))
        return false;
    if (p->inode)
        return p->inode == st->st_ino;
    return strstr(p->path, r->id) && (is_socket(place) || st->st_size == 0);
}

static void remove_place(struct vm_record *r, int place)
{
    struct stat st;
    struct vm_place *p = &r->places[place];
    if (p->path[0] && lstat(p->path, &st) == 0 && is_own(r, place, &st))
        unlink(p->path);
    p->path[0] = 0;
}

void vm_record_remove(const struct vm_host *h, struct vm_record *r)
{
    if (!r->id[0])
        return;
    for (int i = 0; i < _VM_PLACE_MAX; i++)
        remove_place(r, i);
    unlinkat(h->places_fd, r->id, 0);
    r->id[0] = 0;
}

void vm_record_leave(struct vm_host *h, struct vm_record *r)
{
    struct vm_record *place = &h->left[h->n_left % VM_LEFT_MAX];
    if (!r->places[VM_PLACE_LOG].path[0] && !r->places[VM_PLACE_METRICS].path[0])
        return vm_record_remove(h, r);
    r->left = 1; /* on record first: a warden that is killed here loses no console */
    int saved = vm_record_save(h, r);
    remove_place(r, VM_PLACE_API);
    remove_place(r, VM_PLACE_VSOCK);
    vm_record_remove(h, place); /* the oldest makes way */
    if (saved < 0 || vm_record_save(h, r) < 0)
        log_warn("the files of machine %s are not on record, and stay", r->id);
    *place = *r;
    h->n_left++;
    r->id[0] = 0;
}

/* --- at the start of a warden */

struct found {
    struct vm_record record;
    struct timespec written;
};

static bool read_record(const struct vm_host *h, const char *name, struct found *ret)
{
    struct stat st;
    struct vm_record *r = &ret->record;
    _cleanup_close_ int fd = openat(h->places_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || read(fd, r, sizeof(*r)) != sizeof(*r) ||
        r->magic != RECORD_MAGIC || strncmp(r->id, name, sizeof(r->id)) != 0)
        return false;
    for (int i = 0; i < _VM_PLACE_MAX; i++)
        if (!memchr(r->places[i].path, 0, sizeof(r->places[i].path)))
            return false;
    ret->written = st.st_mtim;
    return true;
}

static int compare_found(const void *a, const void *b)
{
    const struct timespec *x = &((const struct found *)a)->written,
                          *y = &((const struct found *)b)->written;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* What cannot be read was never whole, and nothing was made that it could be about. */
static size_t read_records(const struct vm_host *h, struct found **ret)
{
    struct found *all = NULL;
    size_t n = 0;
    int fd = openat(h->places_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        fd_close(&fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        all = xrealloc(all, (n + 1) * sizeof(*all));
        if (read_record(h, e->d_name, &all[n]))
            n++;
        else
            unlinkat(h->places_fd, e->d_name, 0);
    }
    if (dir)
        closedir(dir);
    *ret = all;
    return n;
}

void vm_records_sweep(struct vm_host *h)
{
    _cleanup_free_ struct found *all = NULL;
    if (h->places_fd < 0)
        return;
    size_t n = read_records(h, &all);
    if (n)
        qsort(all, n, sizeof(*all), compare_found);
    for (size_t i = 0; i < n; i++) {
        if (all[i].record.left)
            vm_record_leave(h, &all[i].record);
        else
            vm_record_remove(h, &all[i].record);
    }
}
