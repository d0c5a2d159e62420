/* SPDX-License-Identifier: Apache-2.0 */
/* mas-engine: started by the warden, for one sandbox or one question. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "engine/engine.h"
#include "filter/filter-table.h"

#define NAME_INSTANCE_DIGITS 8

/* The drop of a tracer's rights is not ours to check: see the daemon's. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* As child_receive_order() does, for the order that this order contains. */
static void receive_trees(const struct engine_order *o, struct child_trees *t)
{
    int fds[FD_PASS_MAX];
    char byte;
    size_t n = 0;
    const struct child_order *c = &o->child;
    if (o->task != ENGINE_CREATE ||
        (!c->disk_from_fd && !c->image_from_fd && !c->authority_from_fd))
        return;
    ssize_t got = fd_recv_msg(CHILD_CHANNEL_FD, &byte, 1, fds);
    child_must(got == 1 ? 0 : got < 0 ? (int)got : -EPROTO, "receive the disk", WALL_DISK);
    if (c->disk_from_fd)
        t->disk = fds[n++];
    if (c->image_from_fd)
        t->image = fds[n++];
    if (c->authority_from_fd)
        t->authority = fds[n++];
    child_must(n && fds[n - 1] >= 0 ? 0 : -EPROTO, "receive the disk", WALL_DISK);
}

static void receive_order(struct engine_order *o, struct child_trees *t)
{
    int fds[FD_PASS_MAX];
    ssize_t n = fd_send_msg(CHILD_CHANNEL_FD, "r", 1, NULL, 0);
    child_must(n < 0 ? (int)n : 0, "report", -1);
    n = fd_recv_msg(CHILD_CHANNEL_FD, o, sizeof(*o), fds);
    if (n == 0)
        _exit(0); /* the warden is gone, or needs nothing */
    child_must(n == sizeof(*o) ? 0 : n < 0 ? (int)n : -EPROTO, "receive the order", -1);
    child_trees_init(t);
    for (size_t i = 0; i < PLAN_MOUNTS_MAX; i++)
        t->mounts[i] = fds[i];
    receive_trees(o, t);
}

static void prepare_engine(struct engine *e)
{
    const struct engine_order *o = &e->order;
    e->pidfd = -1;
    snprintf(e->name, sizeof(e->name), "mas-sandbox-%.*s-%s", NAME_INSTANCE_DIGITS, o->instance,
             o->id);
    snprintf(e->root, sizeof(e->root), "/run/%s", e->name);
    rest_open(&e->rest, o->socket, o->timeout_ms);
    e->rest.connect_timeout_ms = o->connect_timeout_ms;
}

static const char usage[] =
    "usage: mas-engine [--help|--version]\n"
    "mas-sandboxd starts one such process per container; it is of no use by hand.\n";

/* Started by hand, or by a program other than the warden. */
static int explain_usage(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("mas-engine " MAS_VERSION);
        return 0;
    }
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs(usage, asked ? stdout : stderr);
    return asked ? 0 : 2;
}

int main(int argc, char **argv)
{
    struct stat st;
    if (argc > 1 || fstat(CHILD_CHANNEL_FD, &st) < 0 || !S_ISSOCK(st.st_mode))
        return explain_usage(argc, argv);
    static struct engine e;
    struct child_trees trees;
    log_setup("mas-engine", LOG_INFO, false);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    child_must(child_die_with_warden(), "tie to the warden", -1);
    receive_order(&e.order, &trees);
    task_confine(&filter_broker, BROKER_CAPABILITIES); /* before it hears a word of the engine's */
    child_must(record_open(&e), "open the records", -1);
    prepare_engine(&e);
    switch (e.order.task) {
    case ENGINE_CREATE:
        child_must(record_create(&e), "write a record", -1);
        child_must(api_connect(&e), e.rest.why, -1);
        task_create(&e, ENGINE_VIEW_FD, &trees);
        break;
    case ENGINE_ADOPT:
        task_adopt(&e);
        break;
    case ENGINE_REMOVE:
        return task_remove(&e) < 0;
    case ENGINE_LIST:
        return record_list(&e) < 0;
    case ENGINE_PROBE:
        task_probe(&e);
        return 0;
    }
    return 1;
}
