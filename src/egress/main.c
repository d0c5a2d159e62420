/* SPDX-License-Identifier: Apache-2.0 */
/* mas-net, see router.h. The warden starts it where an operator lets sandboxes have a network by
 * address (network_cidrs). It opens what it needs as root, becomes a user of its own with
 * CAP_NET_ADMIN and a list of system calls, and only then looks at requests. */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/capability.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "builder/child.h"
#include "egress/router.h"
#include "filter/filter-table.h"
#include "filter/filter.h"

/* Leak checking traces the process, which is not dumpable; everything else of the sanitizers works.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static int keep_one_capability(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    data[0].effective = data[0].permitted = 1u << CAP_NET_ADMIN;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* The change of ids ends the tie to the warden's death on purpose: what is on the host is removed
 * when the channel ends. */
static int give_up_rights(uid_t uid)
{
    int r = capability_bound(1ull << CAP_NET_ADMIN);
    if (r < 0)
        return r;
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    r = keep_one_capability();
    if (r < 0)
        return r;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    struct error err = {0};
    r = filter_enter(&filter_net, &err);
    if (r < 0)
        log_error("mas-net: %s", err.message);
    return r;
}

static void answer_send(uint64_t tag, int error, const char *message)
{
    struct net_answer a = {.tag = tag, .error = -error};
    snprintf(a.message, sizeof(a.message), "%s", message[0] ? message : strerror(-error));
    fd_send_msg(CHILD_CHANNEL_FD, &a, sizeof(a), NULL, 0);
}

static void close_all(int *fds)
{
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
}

static int receive_start(struct router *r, char *why, size_t size)
{
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(CHILD_CHANNEL_FD, &r->start, sizeof(r->start), fds);
    int e = n < 0 ? (int)n : 0;
    bool whole = n == (ssize_t)sizeof(r->start) && r->start.version == NET_VERSION &&
                 strspn(r->start.instance, "0123456789abcdef") == NET_INSTANCE_SIZE - 1 &&
                 net_config_is_valid(&r->start.config) && fds[0] >= 0;
    if (e == 0 && !whole)
        e = -EPROTO;
    e = e < 0 ? e : router_open(r, fds[0], why, size);
    close_all(fds);
    return e;
}

/* False at the warden's end. The descriptors are closed before the answer: from then on the warden
 * may end the sandbox, whose network would stay for as long as one of them is open here. */
static bool serve_one(struct router *r)
{
    struct net_request q;
    char why[sizeof(((struct net_answer *)0)->message)] = "";
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(CHILD_CHANNEL_FD, &q, sizeof(q), fds);
    if (n == -EINTR)
        return true;
    if (n <= 0 && n != -EMSGSIZE)
        return false;
    bool whole = n == (ssize_t)sizeof(q);
    if (!whole || !net_request_is_valid(&q, &r->start.config)) {
        close_all(fds);
        answer_send(whole ? q.tag : 0, -EINVAL, "malformed request");
        return true;
    }
    int served = router_serve(r, &q, fds, why, sizeof(why));
    close_all(fds);
    answer_send(q.tag, served, why);
    return true;
}

static const char usage[] =
    "usage: mas-net [--help|--version]\n"
    "mas-sandboxd starts it where sandboxes may have a network by address; it is of no use by "
    "hand.\n";

/* Started by hand, or by a program that is not the warden. */
static int explain_usage(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("mas-net " MAS_VERSION);
        return 0;
    }
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs(usage, asked ? stdout : stderr);
    return asked ? 0 : 2;
}

int main(int argc, char **argv)
{
    static struct router router = {
        .host_links = -1, .links = -1, .host_connections = -1, .connections = -1, .host_ns = -1};
    char why[160] = "";
    struct stat st;
    if (argc > 1 || fstat(CHILD_CHANNEL_FD, &st) < 0 || !S_ISSOCK(st.st_mode))
        return explain_usage(argc, argv);
    log_setup("mas-net", LOG_INFO, false);
    signal(SIGPIPE, SIG_IGN);
    int r = receive_start(&router, why, sizeof(why));
    r = r < 0 ? r : give_up_rights(router.start.config.uid);
    r = r < 0 ? r : router_start(&router, why, sizeof(why));
    answer_send(0, r, why);
    if (r < 0)
        return 1;
    while (serve_one(&router))
        continue;
    router_leave_host(&router);
    return 0;
}
