/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of fenced sandboxes as an ordinary user removes them: directories that their modes close,
 * and links in their places, which may come there between a look and the change of a mode. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/tap.h"
#include "warden/fence/fence.h"

#define STRANGER 64997 /* a number without a name */

static char top[] = "/tmp/test-fence-dir-XXXXXX";
static int top_fd;

static mode_t mode_of(const char *name)
{
    struct stat st;
    return fstatat(top_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0xffff : st.st_mode & 07777;
}

static void test_links(void)
{
    _cleanup_close_ int file = openat(top_fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0000);
    ok(file >= 0 && mkdirat(top_fd, "victim", 0000) == 0 &&
           symlinkat("victim", top_fd, "swapped") == 0 &&
           symlinkat("file", top_fd, "to-file") == 0 && symlinkat("none", top_fd, "to-none") == 0,
       "links to a directory, a file and nothing");
    ok(openat(top_fd, "swapped", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 && errno == EACCES,
       "control: the modes are what keeps the victim closed");
    ok(fence_dir_unlock(top_fd, "swapped") == -ENOTDIR && mode_of("victim") == 0000,
       "a link in the place of a directory is not followed");
    ok(fence_dir_unlock(top_fd, "to-file") == -ENOTDIR && mode_of("file") == 0000 &&
           fence_dir_unlock(top_fd, "file") == -ENOTDIR && mode_of("file") == 0000,
       "nor one to a file, and a file stays as it is");
    ok(fence_dir_unlock(top_fd, "to-none") == -ENOTDIR && fence_dir_unlock(top_fd, "no") == -ENOENT,
       "what is not there is an error");
    ok(fence_box_remove(top_fd, "swapped", 0) < 0 && mode_of("victim") == 0000,
       "a box that is a link is not removed through it");
}

static void test_closed(void)
{
    ok(mkdirat(top_fd, "box", 0700) == 0 && mkdirat(top_fd, "box/a", 0700) == 0 &&
           mkdirat(top_fd, "box/a/b", 0000) == 0 && symlinkat("../victim", top_fd, "box/l") == 0 &&
           fchmodat(top_fd, "box/a", 0000, 0) == 0 && fchmodat(top_fd, "box", 0000, 0) == 0,
       "a box of closed directories");
    _cleanup_close_ int fd = fence_dir_unlock(top_fd, "victim");
    ok(fd >= 0 && mode_of("victim") == 0700, "a closed directory is opened");
    ok(fence_box_remove(top_fd, "box", 0) == 0 && mode_of("box") == 0xffff, "the box is removed");
    ok(mode_of("victim") == 0700, "and nothing that a link in it names");
}

int main(void)
{
    if (geteuid() == 0 && (setresgid(STRANGER, STRANGER, STRANGER) < 0 ||
                           setresuid(STRANGER, STRANGER, STRANGER) < 0))
        return 1;
    if (!mkdtemp(top))
        return 1;
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    test_links();
    test_closed();
    int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(fence_box_remove(parent, top + sizeof("/tmp/") - 1, 0) == 0, "all of it is removed");
    return tap_done();
}
