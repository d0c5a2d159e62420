/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's first process that does not do what it should: as its file /mode says. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/internal.h"

void guest_power_off(void)
{
    reboot(RB_AUTOBOOT);
    for (;;)
        pause();
}

void guest_give_up(struct guest *g, const char *step, int error)
{
    (void)g;
    (void)step;
    (void)error;
    guest_power_off();
}

static struct guest g;

static void say(enum guest_news news, int error)
{
    struct guest_message m = {.magic = GUEST_MAGIC, .news = news};
    m.failure.error = error;
    m.failure.wall = error ? 77 : -1;
    if (error)
        memset(m.failure.step, 0xfe, sizeof(m.failure.step));
    fd_write_all(g.ctl_fd, &m, sizeof(m));
}

static void read_exactly(int fd, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, (char *)data + done, size - done);
        if (n <= 0)
            guest_power_off();
        done += (size_t)n;
    }
}

static void start_as_asked(void)
{
    say(GUEST_READY, 0);
    read_exactly(g.ctl_fd, &g.order, sizeof(g.order));
    read_exactly(g.ctl_fd, g.filter, g.order.n_filter * sizeof(g.filter[0]));
    say(GUEST_STARTED, 0);
}

/* Repeats what each of two connections begins with, that of mas-vmm itself and the control plane's,
 * and then writes these bytes again and again, times times. */
static void answer_with(const void *data, size_t size, long times)
{
    static uint8_t head[2 * GUEST_MARK_SIZE];
    start_as_asked();
    for (int connection = 0; connection < 2; connection++) {
        memset(head, 0, sizeof(head));
        while (memcmp(head, g.order.mark, GUEST_MARK_SIZE) != 0) {
            memmove(head, head + 1, sizeof(head) - 1);
            read_exactly(g.data_fd, head + sizeof(head) - 1, 1);
        }
        fd_write_all(g.data_fd, head + GUEST_MARK_SIZE, GUEST_MARK_SIZE);
        for (long i = 0; i < times; i++)
            if (fd_write_all(g.data_fd, data, size) < 0)
                break;
    }
}

static void garbage_forever(int fd)
{
    static char garbage[4096];
    memset(garbage, 0xa5, sizeof(garbage));
    while (fd_write_all(fd, garbage, sizeof(garbage)) == 0)
        ;
}

static void crash_kernel(void)
{
    fd_write_file_at(AT_FDCWD, "/proc/sys/kernel/sysrq", "1");
    fd_write_file_at(AT_FDCWD, "/proc/sysrq-trigger", "c");
}

/* One message to the server of a directory of the host; the number that an entry's answer gives. */
static uint64_t ask_share(int fd, uint32_t opcode, uint64_t node, const void *body, size_t size,
                          const char *name, const char *more)
{
    static char data[8192];
    struct fuse_in_header in = {.opcode = opcode, .unique = 7, .nodeid = node};
    struct fuse_out_header out;
    struct fuse_entry_out entry = {0};
    size_t len = sizeof(in);
    memcpy(data + len, body, size);
    len += size;
    len += (size_t)snprintf(data + len, 512, "%s", name) + 1;
    len += more ? (size_t)snprintf(data + len, 512, "%s", more) + 1 : 0;
    in.len = (uint32_t)len;
    memcpy(data, &in, sizeof(in));
    fd_write_all(fd, data, len);
    read_exactly(fd, &out, sizeof(out));
    if (out.len - sizeof(out) > sizeof(data))
        guest_power_off();
    read_exactly(fd, data, out.len - sizeof(out));
    memcpy(&entry, data, sizeof(entry));
    return out.error ? 0 : entry.nodeid;
}

/* Numbers that it never had, ways upwards and through a link, of which each that leads anywhere
 * makes a file "leaked"; then a file that it may make, and a message that is longer than any. */
static void attack_share(void)
{
    static const char *const names[] = {"..",   ".",          "", "../outside", "../outside/secret",
                                        "/etc", "link/secret"};
    static const uint64_t nodes[] = {1, 0, 2, 77, UINT32_MAX, UINT64_MAX};
    const struct fuse_create_in create = {.flags = O_WRONLY, .mode = 0644};
    const struct fuse_mkdir_in mkdir = {.mode = 0755};
    const struct fuse_rename_in rename = {.newdir = 1};
    const uint32_t huge[2] = {INT32_MAX, FUSE_LOOKUP};
    int fd = guest_open_port(GUEST_SHARE_PORT "4");
    uint64_t link = ask_share(fd, FUSE_SYMLINK, 1, "", 0, "link", "../outside");
    for (size_t n = 0; n < sizeof(nodes) / sizeof(*nodes) + 1; n++) {
        uint64_t node = n ? nodes[n - 1] : link;
        bool leaked = false;
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
            leaked |= ask_share(fd, FUSE_LOOKUP, node, "", 0, names[i], NULL) != 0;
            leaked |=
                ask_share(fd, FUSE_CREATE, node, &create, sizeof(create), names[i], NULL) != 0;
            leaked |= ask_share(fd, FUSE_MKDIR, node, &mkdir, sizeof(mkdir), names[i], NULL) != 0;
            ask_share(fd, FUSE_UNLINK, node, "", 0, names[i], NULL);
            ask_share(fd, FUSE_RENAME, node, &rename, sizeof(rename), names[i], "taken");
        }
        leaked |= n == 0 && ask_share(fd, FUSE_LOOKUP, node, "", 0, "secret", NULL) != 0;
        if (leaked)
            ask_share(fd, FUSE_CREATE, 1, &create, sizeof(create), "leaked", NULL);
    }
    ask_share(fd, FUSE_CREATE, 1, &create, sizeof(create), "made", NULL);
    fd_write_all(fd, huge, sizeof(huge));
    garbage_forever(fd);
}

static void misbehave(const char *mode)
{
    static const unsigned char huge[16] = {0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0, 1};
    static const unsigned char ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const uint64_t older[2] = {0x3175677361736d01ull,
                                      GUEST_READY}; /* and no more than that */
    if (strcmp(mode, "garbage") == 0)
        garbage_forever(g.ctl_fd);
    else if (strcmp(mode, "stale") == 0)
        fd_write_all(g.ctl_fd, older, sizeof(older));
    else if (strcmp(mode, "failure") == 0)
        say(GUEST_STARTED, 1 << 30);
    else if (strcmp(mode, "panic") == 0)
        crash_kernel();
    else if (strcmp(mode, "power-off") == 0)
        guest_power_off();
    else if (strcmp(mode, "panic-later") == 0)
        start_as_asked(), crash_kernel();
    else if (strcmp(mode, "news-later") == 0)
        start_as_asked(), garbage_forever(g.ctl_fd);
    else if (strcmp(mode, "huge-frame") == 0)
        answer_with(huge, sizeof(huge), 1);
    else if (strcmp(mode, "wrong-frames") == 0)
        answer_with(ones, sizeof(ones), 1000000);
    else if (strcmp(mode, "share") == 0)
        say(GUEST_READY, 0), attack_share();
    else if (strcmp(mode, "no-mark") == 0)
        start_as_asked(), garbage_forever(g.data_fd);
}

int main(void)
{
    char mode[32] = "";
    guest_mount_kernel_views();
    guest_load_modules(GUEST_MODULES);
    int fd = open("/mode", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, mode, sizeof(mode) - 1) < 0)
        guest_power_off();
    mode[strcspn(mode, "\n")] = 0;
    g.ctl_fd = guest_open_port(GUEST_CTL_PORT);
    g.data_fd = guest_open_port(GUEST_DATA_PORT);
    misbehave(mode);
    for (;;) /* "silent", and whoever has said it all */
        pause();
}
