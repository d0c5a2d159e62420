/* SPDX-License-Identifier: Apache-2.0 */
/* mas-toolrunner: options, then the runner. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "guest/guest.h"
#include "toolrunner/install.h"
#include "toolrunner/runner.h"
#include "toolrunner/through-proxy.h"
#include "warden/local/zygote.h"

static const char synopsis[] =
    "usage: mas-toolrunner [-port 5000]             serve a guest's vsock port\n"
    "       mas-toolrunner --unix PATH              the same on a unix socket\n"
    "       mas-toolrunner --fd N [--channel N]     serve a connection that is open already\n"
    "       mas-toolrunner --pid1 --uid U --gid G   be PID 1 of a sandbox (descriptors 3 and 4)\n"
    "       mas-toolrunner --install DIR            copy the program there, for another container\n"
    "       mas-toolrunner --through-proxy HOST PORT   connect standard input and output to a host\n"
    "                                               through the sandbox's proxy (ssh's ProxyCommand)\n"
    "options:\n";

struct option_row {
    const char *name;
    const char *value; /* what usage calls it; NULL: the option has none */
    const char *help;  /* NULL: the synopsis shows the option */
    enum { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_OTHER } kind;
    size_t at, size; /* of the member that takes the value; OPTION_OTHER has none */
    int64_t max;
    void (*also)(struct runner_config *c, const char *value); /* after that; NULL: nothing */
};

static void print_usage(FILE *out);

static void __attribute__((noreturn, format(printf, 1, 2))) die_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("mas-toolrunner: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    print_usage(stderr);
    exit(2);
}

/* --- what options mean beyond their member */

static void be_pid1(struct runner_config *c, const char *value)
{
    (void)value;
    c->conn_fd = 3;
    c->channel_fd = 4;
}

static void switch_user(struct runner_config *c, const char *value)
{
    (void)value;
    c->switch_user = true;
}

static void act_as_user(struct runner_config *c, const char *value)
{
    (void)value;
    c->gid = c->uid;
    c->acting = c->switch_user = true;
}

/* The limit is the kernel's, which counts the runner as well. */
static void count_runner(struct runner_config *c, const char *value)
{
    (void)value;
    c->processes++;
}

/* In place of the descriptors that --pid1 means. */
static void give_up_descriptors(struct runner_config *c, const char *value)
{
    (void)value;
    c->conn_fd = c->channel_fd = -1;
}

static void open_filter(struct runner_config *c, const char *value)
{
    c->filter_fd = open(value, O_RDONLY | O_CLOEXEC);
    if (c->filter_fd < 0)
        die_usage("--filter-file: open '%s': %s", value, strerror(errno));
}

static void __attribute__((noreturn)) help_and_exit(struct runner_config *c, const char *value)
{
    (void)c;
    (void)value;
    print_usage(stdout);
    exit(0);
}

static void __attribute__((noreturn)) version_and_exit(struct runner_config *c, const char *value)
{
    (void)c;
    (void)value;
    puts("mas-toolrunner " MAS_VERSION);
    exit(0);
}

/* --- the table */

#define MEMBER(member)                                                                             \
    .at = offsetof(struct runner_config, member),                                                  \
    .size = sizeof(((struct runner_config *)0)->member)
#define FLAG(member)          .kind = OPTION_FLAG, MEMBER(member)
#define TEXT(member)          .kind = OPTION_TEXT, MEMBER(member)
#define NUMBER(member, limit) .kind = OPTION_NUMBER, MEMBER(member), .max = (limit)
#define OTHER                 .kind = OPTION_OTHER
#define DESCRIPTOR(member)    NUMBER(member, INT_MAX)

/* clang-format off */
static const struct option_row rows[] = {
    {"port", "N", NULL, NUMBER(vsock_port, UINT_MAX - 1)},
    {"unix", "PATH", NULL, TEXT(unix_path)},
    {"fd", "N", NULL, DESCRIPTOR(conn_fd)},
    {"channel", "N", NULL, DESCRIPTOR(channel_fd)},
    {"pid1", NULL, NULL, FLAG(pid1), .also = be_pid1},
    {"uid", "U", NULL, NUMBER(uid, UINT_MAX - 1), .also = switch_user},
    {"gid", "G", NULL, NUMBER(gid, UINT_MAX - 1)},
    {"workdir", "DIR", "start commands in this directory", TEXT(workdir)},
    {"processes", "N", "let at most N processes of the runner's user run beside it", NUMBER(processes, UINT_MAX - 1), .also = count_runner},
    {"shared-uid", NULL, "let commands keep the runner's user, behind Landlock", FLAG(shared_uid)},
    {"acting-uid", "U", "have no rights but to signal and become that user and group", NUMBER(uid, UINT_MAX - 1), .also = act_as_user},
    {"command-rules", "N", "have every command enter the Landlock rules in this descriptor", DESCRIPTOR(rules_fd)},
    {"oom-score", "N", "take this descriptor as the file of the runner's own OOM score", DESCRIPTOR(score_fd)},
    {"channel-socket", "PATH", "take connections from the unix socket of this pod's link", TEXT(channel_path)},
    {"orphan-ttl", "SECONDS", "end when no control plane was connected for this long", NUMBER(orphan_s, RUNNER_ORPHAN_MAX_S)},
    {"connect", "PATH", "connect to a unix socket, and again when that connection ends", TEXT(connect_path), .also = give_up_descriptors},
    {"filter-fd", "N", "apply the system call filter in this descriptor first", DESCRIPTOR(filter_fd)},
    {"filter-file", "PATH", "apply the system call filter in this file first", OTHER, .also = open_filter},
    {"own-filter", NULL, "apply the system call filter of this program itself first", FLAG(own_filter)},
    {"gateway-socket", "PATH", "offer the way to the gateway on this unix socket", TEXT(gateway_socket)},
    {"proxy-port", "N", "offer the way to the gateway on this port of the loopback", NUMBER(proxy_port, UINT16_MAX)},
    {"help", NULL, "print this text", OTHER, .also = help_and_exit},
    {"version", NULL, "print the version", OTHER, .also = version_and_exit},
};
/* clang-format on */

static void print_usage(FILE *out)
{
    char left[32];
    fputs(synopsis, out);
    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        const struct option_row *row = &rows[i];
        snprintf(left, sizeof(left), "--%s%s%s", row->name, row->value ? " " : "",
                 row->value ? row->value : "");
        if (row->help)
            fprintf(out, "         %-22s %s\n", left, row->help);
    }
}

static int64_t parse_number(const struct option_row *row, const char *text)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < 0 || v > row->max)
        die_usage("--%s: '%s' is not a number from 0 to %lld", row->name, text,
                  (long long)row->max);
    return v;
}

static void put_number(void *member, size_t size, int64_t value)
{
    switch (size) {
    case sizeof(uint16_t):
        *(uint16_t *)member = (uint16_t)value;
        break;
    case sizeof(uint32_t): /* also ids and descriptors */
        *(uint32_t *)member = (uint32_t)value;
        break;
    default:
        *(int64_t *)member = value;
    }
}

static void apply_option(struct runner_config *c, const struct option_row *row, const char *value)
{
    void *member = (char *)c + row->at;
    if (row->kind == OPTION_FLAG)
        *(bool *)member = true;
    else if (row->kind == OPTION_TEXT)
        *(const char **)member = value;
    else if (row->kind == OPTION_NUMBER)
        put_number(member, row->size, parse_number(row, value));
    if (row->also)
        row->also(c, value);
}

/* The first argument that is no option ends the options, so that argv[at] is always the one that is
 * being read, and can be named. */
static void read_options(int argc, char **argv, struct runner_config *c)
{
    struct option options[ELEMENTS(rows) + 1] = {0};
    for (size_t i = 0; i < ELEMENTS(rows); i++)
        options[i] =
            (struct option){rows[i].name, rows[i].value ? required_argument : no_argument, NULL, 0};
    opterr = 0;
    for (;;) {
        int at = optind, which = -1;
        int r = getopt_long_only(argc, argv, "+:", options, &which);
        if (r < 0)
            break;
        if (r == ':')
            die_usage("'%s' needs a value", argv[at]);
        if (r != 0)
            die_usage("there is no option '%s', or it takes no value", argv[at]);
        apply_option(c, &rows[which], optarg);
    }
    if (optind < argc)
        die_usage("unexpected argument '%s'", argv[optind]);
}

static struct runner_config parse_options(int argc, char **argv)
{
    struct runner_config c = {
        .conn_fd = -1,
        .channel_fd = -1,
        .filter_fd = -1,
        .rules_fd = -1,
        .score_fd = -1,
        .vsock_port = -1,
    };
    read_options(argc, argv, &c);
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
    /* Before anything is served, so that no command can be there first. */
    if (config.channel_path) {
        what = "connect to the link";
        n = config.channel_fd = dial_channel(config.channel_path);
    }
    if (n >= 0)
        n = runner_init(&r, &config, &what);
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
    spawn_look_at_host(); /* before a zygote clones: its clones do not look again */
    if (argc > 1 && strcmp(argv[1], ZYGOTE_OPTION) == 0)
        zygote_main(argc, argv, run_as);
    if (argc == 4 && strcmp(argv[1], THROUGH_PROXY_OPTION) == 0)
        return through_proxy(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], INSTALL_OPTION) == 0)
        return install_runner(argv[2]);
    return run_as(argc, argv);
}
