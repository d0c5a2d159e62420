/* SPDX-License-Identifier: Apache-2.0 */
/* mas-toolrunner: options, then the runner. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "guest/guest.h"
#include "toolrunner/install.h"
#include "toolrunner/runner.h"
#include "toolrunner/through-proxy.h"
#include "warden/local/zygote.h"

static const char usage[] =
    "usage: mas-toolrunner [-port 5000]             serve a guest's vsock port\n"
    "       mas-toolrunner --unix PATH              the same on a unix socket\n"
    "       mas-toolrunner --fd N [--channel N]     serve a connection that is open already\n"
    "       mas-toolrunner --pid1 --uid U --gid G   be PID 1 of a sandbox (descriptors 3 and 4)\n"
    "       mas-toolrunner --install DIR            copy the program there, for another container\n"
    "       mas-toolrunner --through-proxy HOST PORT   connect standard input and output to a host\n"
    "                                               through the sandbox's proxy (ssh's ProxyCommand)\n"
    "options: --workdir DIR          where commands start\n"
    "         --processes N          so many commands may run besides the runner, of its user\n"
    "         --shared-uid           commands keep the runner's user, behind Landlock\n"
    "         --acting-uid U         have no rights but to signal and become that user and group\n"
    "         --command-rules N      every command enters the Landlock rules in this descriptor\n"
    "         --channel-socket PATH  take connections from the unix socket of this pod's link\n"
    "         --orphan-ttl SECONDS   end when no control plane was connected for so long\n"
    "         --connect PATH         connect to a unix socket, and again when that ends\n"
    "         --filter-fd N          apply the system call filter in this file first\n"
    "         --filter-file PATH     the same of a file with a name\n"
    "         --own-filter           the same of this program's own filter\n"
    "         --gateway-socket PATH  offer the way to the gateway here\n"
    "         --proxy-port N         offer it on this port of the loopback instead\n"
    "         --help, --version\n";

enum option_id {
    OPT_PID1 = 256,
    OPT_UID,
    OPT_GID,
    OPT_WORKDIR,
    OPT_PROCESSES,
    OPT_SHARED_UID,
    OPT_GATEWAY,
    OPT_PROXY,
    OPT_FD,
    OPT_CHANNEL,
    OPT_CHANNEL_SOCKET,
    OPT_ORPHAN,
    OPT_PORT,
    OPT_UNIX,
    OPT_CONNECT,
    OPT_FILTER,
    OPT_FILTER_FILE,
    OPT_OWN_FILTER,
    OPT_ACTING,
    OPT_RULES,
    OPT_HELP,
    OPT_VERSION,
};

static const struct option options[] = {
    {"pid1", no_argument, NULL, OPT_PID1},
    {"uid", required_argument, NULL, OPT_UID},
    {"gid", required_argument, NULL, OPT_GID},
    {"workdir", required_argument, NULL, OPT_WORKDIR},
    {"processes", required_argument, NULL, OPT_PROCESSES},
    {"shared-uid", no_argument, NULL, OPT_SHARED_UID},
    {"gateway-socket", required_argument, NULL, OPT_GATEWAY},
    {"proxy-port", required_argument, NULL, OPT_PROXY},
    {"fd", required_argument, NULL, OPT_FD},
    {"channel", required_argument, NULL, OPT_CHANNEL},
    {"channel-socket", required_argument, NULL, OPT_CHANNEL_SOCKET},
    {"orphan-ttl", required_argument, NULL, OPT_ORPHAN},
    {"port", required_argument, NULL, OPT_PORT},
    {"unix", required_argument, NULL, OPT_UNIX},
    {"connect", required_argument, NULL, OPT_CONNECT},
    {"filter-fd", required_argument, NULL, OPT_FILTER},
    {"filter-file", required_argument, NULL, OPT_FILTER_FILE},
    {"own-filter", no_argument, NULL, OPT_OWN_FILTER},
    {"acting-uid", required_argument, NULL, OPT_ACTING},
    {"command-rules", required_argument, NULL, OPT_RULES},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static void __attribute__((noreturn)) die_usage(const char *problem)
{
    fprintf(stderr, "mas-toolrunner: %s\n%s", problem, usage);
    exit(2);
}

static long parse_number(const char *text, long max)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < 0 || v > max)
        die_usage("a number is out of range");
    return v;
}

static void apply_option(struct runner_config *c, int id, const char *value)
{
    switch (id) {
    case OPT_PID1:
        c->pid1 = true;
        c->conn_fd = 3;
        c->channel_fd = 4;
        break;
    case OPT_UID:
        c->uid = (uid_t)parse_number(value, UINT_MAX - 1);
        c->switch_user = true;
        break;
    case OPT_GID:
        c->gid = (gid_t)parse_number(value, UINT_MAX - 1);
        break;
    case OPT_WORKDIR:
        c->workdir = value;
        break;
    case OPT_PROCESSES:
        c->processes = (uint32_t)parse_number(value, UINT_MAX - 1) + 1;
        break;
    case OPT_SHARED_UID:
        c->shared_uid = true;
        break;
    case OPT_GATEWAY:
        c->gateway_socket = value;
        break;
    case OPT_PROXY:
        c->proxy_port = (uint16_t)parse_number(value, UINT16_MAX);
        break;
    case OPT_FD:
        c->conn_fd = (int)parse_number(value, INT_MAX);
        break;
    case OPT_CHANNEL:
        c->channel_fd = (int)parse_number(value, INT_MAX);
        break;
    case OPT_CHANNEL_SOCKET:
        c->channel_path = value;
        break;
    case OPT_ORPHAN:
        c->orphan_s = (uint32_t)parse_number(value, RUNNER_ORPHAN_MAX_S);
        break;
    case OPT_PORT:
        c->vsock_port = parse_number(value, UINT_MAX - 1);
        break;
    case OPT_UNIX:
        c->unix_path = value;
        break;
    case OPT_FILTER:
        c->filter_fd = (int)parse_number(value, INT_MAX);
        break;
    case OPT_ACTING:
        c->uid = c->gid = (uid_t)parse_number(value, UINT_MAX - 1);
        c->acting = c->switch_user = true;
        break;
    case OPT_RULES:
        c->rules_fd = (int)parse_number(value, INT_MAX);
        break;
    case OPT_FILTER_FILE:
        c->filter_fd = open(value, O_RDONLY | O_CLOEXEC);
        if (c->filter_fd < 0)
            die_usage("the filter cannot be opened");
        break;
    case OPT_OWN_FILTER:
        c->own_filter = true;
        break;
    case OPT_CONNECT: /* in place of the descriptors that --pid1 means */
        c->connect_path = value;
        c->conn_fd = c->channel_fd = -1;
        break;
    case OPT_HELP:
        fputs(usage, stdout);
        exit(0);
    case OPT_VERSION:
        puts("mas-toolrunner " MAS_VERSION);
        exit(0);
    default:
        die_usage("unknown option");
    }
}

static struct runner_config parse_options(int argc, char **argv)
{
    struct runner_config c = {
        .conn_fd = -1, .channel_fd = -1, .filter_fd = -1, .rules_fd = -1, .vsock_port = -1};
    opterr = 0;
    for (int id; (id = getopt_long_only(argc, argv, "", options, NULL)) >= 0;)
        apply_option(&c, id, optarg);
    if (optind < argc)
        die_usage("unexpected argument");
    if (c.channel_path) /* in place of the descriptors that --pid1 means */
        c.conn_fd = c.channel_fd = -1;
    if (c.conn_fd < 0 && !c.channel_path && c.channel_fd < 0 && !c.unix_path && !c.connect_path &&
        c.vsock_port < 0)
        c.vsock_port = LISTEN_PORT_DEFAULT;
    if (c.shared_uid)
        c.switch_user = false;
    if (c.pid1 && !c.shared_uid && (c.uid == 0 || c.gid == 0))
        die_usage("--pid1 needs --uid and --gid of a user that is not root, or --shared-uid");
    return c;
}

static int run_as(int argc, char **argv)
{
    struct runner_config config = parse_options(argc, argv);
    struct runner r;
    const char *what = "";
    log_setup("mas-toolrunner", LOG_INFO, false);
    int n = 0;
    if (config
            .channel_path) { /* before anything is served, so that no command can be there first */
        what = "connect to the link";
        n = config.channel_fd = dial_channel(config.channel_path);
    }
    n = n < 0 ? n : runner_init(&r, &config, &what);
    if (n < 0) {
        log_error("cannot start step=\"%s\" error=\"%s\"", what, strerror(-n));
        return 1;
    }
    runner_run(&r);
    runner_done(&r);
    return 0;
}

int main(int argc, char **argv)
{
    if (guest_is_here(argc, argv))
        guest_main();
    spawn_look_at_host(); /* also for all whom a zygote clones */
    if (argc > 1 && strcmp(argv[1], ZYGOTE_OPTION) == 0)
        zygote_main(argc, argv, run_as);
    if (argc == 4 && strcmp(argv[1], THROUGH_PROXY_OPTION) == 0)
        return through_proxy(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], INSTALL_OPTION) == 0)
        return install_runner(argv[2]);
    return run_as(argc, argv);
}
