/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate authority of a sandbox's interceptor, among those that its programs trust: a file
 * with the host's and this one, mounted in the place of the host's. */
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/mount-calls.h"
#include "builder/mount.h"
#include "builder/root.h"

#define AUTHORITY_OPTIONS "size=4m,nr_inodes=4,mode=0755"
#define AUTHORITY_PLACE   ROOT_DISK_DIR "/authorities.crt"
#define AUTHORITY_FLAGS   (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)

static int append_file(int to, int from)
{
    struct stat st;
    off_t at = 0;
    if (fstat(from, &st) < 0)
        return -errno;
    while (at < st.st_size)
        if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
            return errno ? -errno : -EIO;
    return 0;
}

int mount_write_authorities(const char *hosts, int authority_fd, const char *place)
{
    _cleanup_close_ int host = open(hosts, O_RDONLY | O_CLOEXEC);
    _cleanup_close_ int fd = open(place, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (host < 0 || fd < 0)
        return -errno;
    int r = append_file(fd, host);
    if (r < 0)
        return r;
    return append_file(fd, authority_fd);
}

int mount_authority(int authority_fd)
{
    if (mount("authorities", ROOT_DISK_DIR, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              AUTHORITY_OPTIONS) < 0)
        return -errno;
    int r = mount_write_authorities(ROOT_AUTHORITIES, authority_fd, AUTHORITY_PLACE);
    if (r < 0)
        return r;
    if (mount(AUTHORITY_PLACE, ROOT_AUTHORITIES, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, ROOT_AUTHORITIES, NULL, MS_BIND | MS_REMOUNT | AUTHORITY_FLAGS, NULL) < 0)
        return -errno;
    return umount2(ROOT_DISK_DIR, MNT_DETACH) < 0 ? -errno : 0;
}
