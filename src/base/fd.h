/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: close-on-exec at birth, -1 when empty. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct strbuf;

void fd_close(int *fd); /* closes if >= 0, sets to -1, keeps errno */
#define _cleanup_close_ __attribute__((cleanup(fd_close)))
int fd_steal(int *fd);

void fd_close_from(unsigned first); /* that one and all above */
/* Closes all above standard error but these. At most FD_KEEP_MAX; a -1 among them is skipped. */
#define FD_KEEP_MAX 32
void fd_keep_only(const int *fds, size_t n);

int fd_set_nonblock(int fd, bool on);
int fd_set_cloexec(int fd, bool on);
/* Writes all of it to a blocking descriptor. */
int fd_write_all(int fd, const void *data, size_t len);
/* Writes a short text to an existing file below dirfd (AT_FDCWD allowed): sysfs, procfs, cgroupfs.
 */
int fd_write_file_at(int dirfd, const char *path, const char *text);
/* Appends all that is left to read to b; -EFBIG when that is over b->max. */
int fd_read_all(int fd, struct strbuf *b);
/* Appends a whole file to b, bounded as well. */
int fd_read_file_at(int dirfd, const char *path, struct strbuf *b);
/* The same of an open file, from its beginning, wherever others who share it have read to. */
int fd_read_from_start(int fd, struct strbuf *b);
/* A file of that content without a name in any directory, which no process can change any more. The
 * descriptor, or -errno. */
int fd_sealed_memory(const char *name, const void *data, size_t len);

/* Makes `to` as large as `from` and copies what `from` holds; holes stay holes. */
int fd_copy_sparse(int from, int to);

/* Makes a directory; one that is there is fine. */
int fd_make_dir_at(int dirfd, const char *path, mode_t mode);
/* The same, and opens it for reading, never through a link. */
int fd_enter_dir_at(int dirfd, const char *name, mode_t mode);

#define FD_PASS_MAX 8
/* One datagram with up to FD_PASS_MAX descriptors. Received descriptors are close-on-exec; unused
 * slots of fds are set to -1. Returns bytes, 0 at end, or -errno (-EMSGSIZE when truncated). */
ssize_t fd_send_msg(int sock, const void *data, size_t len, const int *fds, size_t n_fds);
ssize_t fd_recv_msg(int sock, void *data, size_t size, int fds[FD_PASS_MAX]);
