/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and sizing terminals. The other side is opened through the master (TIOCGPTPEER), so that
 * a path the tool might have put in its place is never looked up. */
#include "toolrunner/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"

#define ROWS_DEFAULT 24
#define COLS_DEFAULT 80

int pty_resize(int master, uint16_t rows, uint16_t cols)
{
    struct winsize size = {
        .ws_row = rows ? rows : ROWS_DEFAULT,
        .ws_col = cols ? cols : COLS_DEFAULT,
    };
    return ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

/* gVisor's kernel has no TIOCGPTPEER; no tool can put anything in a place of its /dev/pts. */
static int open_peer(int master)
{
    const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
    char path[32];
    unsigned number;
    int slave = ioctl(master, TIOCGPTPEER, flags);
    if (slave >= 0 || (errno != ENOTTY && errno != EINVAL))
        return slave < 0 ? -errno : slave;
    if (ioctl(master, TIOCGPTN, &number) < 0)
        return -errno;
    snprintf(path, sizeof(path), "/dev/pts/%u", number);
    slave = open(path, flags | O_NOFOLLOW);
    return slave < 0 ? -errno : slave;
}

int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave)
{
    _cleanup_close_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (master < 0)
        return -errno;
    int unlock = 0;
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    _cleanup_close_ int slave = open_peer(master);
    if (slave < 0)
        return slave;
    int r = pty_resize(master, rows, cols);
    if (r < 0)
        return r;
    *ret_master = fd_steal(&master);
    *ret_slave = fd_steal(&slave);
    return 0;
}
