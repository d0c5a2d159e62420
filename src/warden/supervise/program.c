/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/supervise/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/startup.h"

static int check_trust(const struct stat *st, const struct stat *first, char *why, size_t size)
{
    /* In a user namespace all owners outside of it look alike, as the user `nobody`. Then it must
     * be what the first one showed. */
    bool known =
        st->st_uid == 0 || st->st_uid == geteuid() || (first && st->st_uid == first->st_uid);
    if (first && !known) {
        snprintf(why, size, "it belongs to user %u", (unsigned)st->st_uid);
        return -EPERM;
    }
    mode_t allowed = first ? first->st_mode & S_IWGRP : S_IWGRP;
    if (st->st_mode & (S_IWGRP | S_IWOTH) & ~allowed) {
        snprintf(why, size, "others may write to it (mode %03o)", (unsigned)st->st_mode & 0777);
        return -EPERM;
    }
    return 0;
}

int program_open(const struct startup *s, const struct program *first, struct program *ret,
                 char *why, size_t size)
{
    struct program p = PROGRAM_INIT;
    _cleanup_close_ int fd =
        openat(s->daemon_dir_fd, s->daemon_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &p.st) < 0) {
        int error = errno;
        snprintf(why, size, "%s", strerror(error));
        return -error;
    }
    if (!S_ISREG(p.st.st_mode)) {
        snprintf(why, size, "it is not a file");
        return -EINVAL;
    }
    int r = check_trust(&p.st, first ? &first->st : NULL, why, size);
    if (r < 0)
        return r;
    p.fd = fd_steal(&fd);
    *ret = p;
    return 0;
}

bool program_is_same(const struct program *a, const struct program *b)
{
    return a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino &&
           a->st.st_ctim.tv_sec == b->st.st_ctim.tv_sec &&
           a->st.st_ctim.tv_nsec == b->st.st_ctim.tv_nsec;
}
