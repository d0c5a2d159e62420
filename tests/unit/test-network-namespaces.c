/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces of sandboxes: the one that the zygote is in when none can be made any more,
 * and what it means that one leads nowhere. All of it is in a user namespace of the test's own,
 * whose limit of network namespaces is nobody else's. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/child.h"
#include "builder/routes.h"
#include "tests/unit/tap.h"
#include "warden/local/network.h"

#define LIMIT   "/proc/sys/user/max_net_namespaces"
#define NO_IPV6 "/proc/sys/net/ipv6/conf/all/disable_ipv6"

static int proc_fd;

static bool write_map(const char *path, unsigned id)
{
    char text[32];
    snprintf(text, sizeof(text), "0 %u 1", id);
    return fd_write_file_at(AT_FDCWD, path, text) >= 0;
}

static bool enter_namespaces(void)
{
    unsigned uid = geteuid(), gid = getegid();
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
           fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny") >= 0 &&
           write_map("/proc/self/uid_map", uid) && write_map("/proc/self/gid_map", gid);
}

static ino_t network(void)
{
    struct stat st;
    return stat("/proc/self/ns/net", &st) < 0 ? 0 : st.st_ino;
}

static void test_zygote(void)
{
    ino_t first = network();
    ok(network_prepare() == 0 && network() != first, "a new network for the first clone");
    ino_t given = network();
    ok(network_prepare() == 0 && network() == given, "which is not given yet, and stays");
    network_give();
    ok(fd_write_file_at(AT_FDCWD, LIMIT, "1") >= 0, "as many networks as there may be");
    ok(network_prepare() == -ENOSPC && network() == given, "no other can be made");
    ok(network_prepare() == -ENOSPC, "so that no clone gets the one that was given, ever");
    ok(fd_write_file_at(AT_FDCWD, LIMIT, "100") >= 0 && network_prepare() == 0 &&
           network() != given && network() != first,
       "once there is room, the next clone has a new one");
}

static void test_routes(void)
{
    ok(unshare(CLONE_NEWNET) == 0 && routes_check_none(proc_fd, "self") == 0,
       "a new network leads nowhere");
    ok(child_raise_loopback() == 0 && routes_check_none(proc_fd, "self") == 0,
       "nor does one with its loopback");
    ok(system("ip link add away type veth peer name there") == 0 &&
           routes_check_none(proc_fd, "self") == 0,
       "nor does a link that is down");
    bool six = fd_write_file_at(AT_FDCWD, NO_IPV6, "1") >= 0;
    ok(system("ip link set away up && ip link set there up && ip addr add 192.0.2.1/24 dev away") ==
               0 &&
           routes_check_none(proc_fd, "self") == -EPERM,
       "one that leads to a network does");
    ok(system("ip addr flush dev away && ip link del away") == 0 &&
           routes_check_none(proc_fd, "self") == 0,
       "until it is gone");
    ok(!six || (fd_write_file_at(AT_FDCWD, NO_IPV6, "0") >= 0 &&
                system("ip link add away type veth peer name there && ip link set away up && "
                       "ip link set there up") == 0 &&
                routes_check_none(proc_fd, "self") == -EPERM),
       "also by IPv6 alone, where there is one");
    ok(routes_check_none(proc_fd, "0") == -ENOENT,
       "of a process that is not there it is not known");
}

int main(void)
{
    proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (system("command -v ip >/dev/null") != 0 || !enter_namespaces())
        tap_skip_all("user namespaces and ip are needed");
    test_zygote();
    test_routes();
    close(proc_fd);
    return tap_done();
}
