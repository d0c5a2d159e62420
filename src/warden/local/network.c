/* SPDX-License-Identifier: Apache-2.0 */
/* See network.h. The zygote must not have used its heap (zygote-main.c), so all of this is in
 * static memory. */
#include "warden/local/network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/child.h"

#define VIEW_MAX  16384 /* the longest has some 4,000 bytes */
#define VIEWS_MAX 65536

/* Below /proc. The first are there in every kernel with networks, the others where it has the
 * feature. */
#define VIEWS_NEEDED 4
#define SOCKSTAT     "self/net/sockstat"
static const char *const views[] = {
    "self/net/dev",           "self/net/snmp",      SOCKSTAT,
    "self/net/netstat",       "self/net/snmp6",     "self/net/sockstat6",
    "self/net/ip6_flowlabel", "self/net/rt6_stats", "sys/net/ipv4/tcp_fastopen_key",
    "self/net/igmp",          "self/net/igmp6",     "self/net/mcfilter",
    "self/net/mcfilter6",
};

static struct {
    int home_fd;
    bool known; /* what a new one looks like */
    size_t size;
    char text[VIEWS_MAX];
} as_new;

/* In sockstat these are of all namespaces together; what belongs to this one is beside them. */
static bool is_host_wide(const char *word)
{
    return strcmp(word, "orphan") == 0 || strcmp(word, "alloc") == 0 || strcmp(word, "mem") == 0;
}

/* Leaves out the figures of the whole host, in place. Returns the new length. */
static size_t drop_host_wide(char *text)
{
    char *to = text, *save = NULL;
    bool drop = false;
    for (char *word = strtok_r(text, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
        size_t n = strlen(word);
        bool dropped = drop;
        drop = is_host_wide(word);
        if (dropped)
            continue;
        memmove(to, word, n);
        to += n;
        *to++ = ' ';
    }
    return (size_t)(to - text);
}

/* The bytes of one file as they count, 0 where there is none, or -errno. */
static ssize_t read_view(const char *name, char text[VIEW_MAX])
{
    char path[64];
    size_t size = 0;
    snprintf(path, sizeof(path), "/proc/%s", name);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    for (;;) {
        ssize_t n = read(fd, text + size, VIEW_MAX - 1 - size);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += (size_t)n;
    }
    if (size == VIEW_MAX - 1)
        return -EFBIG;
    text[size] = 0;
    return (ssize_t)(strcmp(name, SOCKSTAT) == 0 ? drop_host_wide(text) : size);
}

static int learn(void)
{
    char text[VIEW_MAX];
    as_new.size = 0;
    for (size_t i = 0; i < ELEMENTS(views); i++) {
        ssize_t n = read_view(views[i], text);
        if (n < 0 || (n == 0 && i < VIEWS_NEEDED))
            return n < 0 ? (int)n : -ENOENT;
        if (as_new.size + (size_t)n > sizeof(as_new.text))
            return -EFBIG;
        memcpy(as_new.text + as_new.size, text, (size_t)n);
        as_new.size += (size_t)n;
    }
    as_new.known = true;
    return 0;
}

static bool is_as_new(void)
{
    char text[VIEW_MAX];
    size_t at = 0;
    for (size_t i = 0; i < ELEMENTS(views); i++) {
        ssize_t n = read_view(views[i], text);
        if (n < 0 || (size_t)n > as_new.size - at || memcmp(as_new.text + at, text, (size_t)n) != 0)
            return false;
        at += (size_t)n;
    }
    return at == as_new.size;
}

static int open_own(void)
{
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The host's network belongs to the host's root: an ordinary user's zygote could leave it and never
 * come back, so it has one of its own from the beginning. */
int network_init(void)
{
    as_new.home_fd = open_own();
    if (as_new.home_fd < 0)
        return as_new.home_fd;
    if (setns(as_new.home_fd, CLONE_NEWNET) == 0)
        return 0;
    fd_close(&as_new.home_fd);
    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    as_new.home_fd = open_own();
    return as_new.home_fd < 0 ? as_new.home_fd : 0;
}

static int enter_new(void)
{
    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    int r = child_raise_loopback();
    if (r < 0 || as_new.known)
        return r;
    learn(); /* or nothing is ever taken for new */
    return 0;
}

int network_enter(int used_fd)
{
    if (used_fd >= 0 && as_new.known && setns(used_fd, CLONE_NEWNET) == 0 && is_as_new())
        return 0;
    return enter_new();
}

int network_leave(void)
{
    return setns(as_new.home_fd, CLONE_NEWNET) < 0 ? -errno : 0;
}
