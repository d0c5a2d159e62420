/* SPDX-License-Identifier: Apache-2.0 */
/* sbx doctor: what this host offers, what each runtime of the daemon makes of it, how to get more;
 * and with -clean, the sweep of what killed daemons left behind. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/full-house.h"
#include "cli/host-check.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

extern char **environ;

static void print_row(bool ok, const char *name, const char *detail)
{
    _cleanup_free_ char *clean = printable(detail);
    printf("  %s%-3s%s %-16s %s\n", colour(ok ? COLOUR_GREEN : COLOUR_YELLOW), ok ? "yes" : "no",
           colour(COLOUR_OFF), name, clean);
}

static void print_advice(const char *advice)
{
    printf("      %-16s to get it: %s\n", "", advice);
}

static void print_host(void)
{
    printf("%sThis host%s\n", colour(COLOUR_BOLD), colour(COLOUR_OFF));
    bool all = true;
    for (size_t i = 0; i < n_host_checks; i++) {
        char detail[HOST_CHECK_DETAIL] = "";
        bool ok = host_checks[i].look(detail);
        print_row(ok, host_checks[i].name, detail);
        if (!ok)
            print_advice(host_checks[i].advice);
        all = all && ok;
    }
    if (!all)
        printf("  'sbx setup' can do much of this; it shows what before it changes anything.\n");
}

/* How to get what a runtime cannot enforce. */
static const struct {
    const char *wall, *advice;
} wall_advice[] = {
    {"memory", "run the daemon as root, or in a delegated cgroup v2"},
    {"cpu", "run the daemon as root, or in a delegated cgroup v2"},
    {"processes", "run the daemon as root, or in a delegated cgroup v2"},
    {"io", "cgroup v2: boot with systemd.unified_cgroup_hierarchy=1"},
    {"disk", "loop devices (modprobe loop) and a daemon run as root"},
    {"uid_separation", "run the daemon as root, or with newuidmap and a range in /etc/subuid"},
};

/* A runtime that checks a wall by itself knows better than the table, which is about this host. */
static const json_t *find_check(const json_t *checks, const char *name)
{
    size_t i;
    json_t *check;
    json_array_foreach((json_t *)checks, i, check)
    {
        if (strcmp(json_member_text(check, "name"), name) == 0)
            return check;
    }
    return NULL;
}

static void print_check(const json_t *check)
{
    _cleanup_free_ char *advice = printable(json_member_text(check, "advice"));
    print_row(json_is_true(json_object_get(check, "ok")), json_member_text(check, "name"),
              json_member_text(check, "detail"));
    if (*advice)
        print_advice(advice);
}

static const char *find_advice(const char *wall, bool fenced)
{
    if (fenced && strcmp(wall, "disk") == 0)
        return "another runtime: without namespaces there are no disks";
    for (size_t i = 0; i < ELEMENTS(wall_advice); i++)
        if (strcmp(wall_advice[i].wall, wall) == 0)
            return wall_advice[i].advice;
    return NULL;
}

/* What enforces a limit: a text, or null where nothing does. fenced: among the host's processes. */
static void print_enforced(const json_t *enforces, const json_t *checks, bool fenced)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)enforces, key, v)
    {
        bool on = json_is_string(v) || json_is_true(v);
        const json_t *check = on ? NULL : find_check(checks, key);
        if (check) {
            print_check(check);
            continue;
        }
        print_row(on, key, json_is_string(v) ? json_string_value(v) : "");
        if (!on && find_advice(key, fenced))
            print_advice(find_advice(key, fenced));
    }
}

static void print_runtime(const json_t *rt)
{
    _cleanup_free_ char *name = cell(rt, "name"), *summary = cell(rt, "summary"),
                        *why = cell(rt, "why"), *version = cell(rt, "version");
    bool ok = json_is_true(json_object_get(rt, "available")), known = strcmp(version, "-") != 0;
    printf("%sRuntime %s%s%s%s: %s (%s)\n", colour(COLOUR_BOLD), name, colour(COLOUR_OFF),
           known ? " " : "", known ? version : "", ok ? "available" : "not available", summary);
    if (strcmp(why, "-") != 0)
        printf("  %s\n", why);
    const json_t *checks = json_object_get(rt, "checks"),
                 *enforces = json_object_get(rt, "enforces");
    size_t i;
    json_t *check;
    json_array_foreach((json_t *)checks, i, check)
    {
        if (!json_object_get(enforces, json_member_text(check, "name")))
            print_check(check);
    }
    if (!ok)
        return;
    const json_t *shares = json_object_get(rt, "shares");
    print_enforced(enforces, checks, json_array_size(shares) > 0);
    json_t *word;
    json_array_foreach(shares, i, word) print_row(false, "kept apart", json_string_value(word));
}

/* Asking for a list starts the keeper: whether it can work here is known only then. */
static void print_images(struct session *s)
{
    struct sbx_error err;
    char detail[120];
    _cleanup_json_ json_t *answer = NULL;
    printf("\n%sImages%s\n", colour(COLOUR_BOLD), colour(COLOUR_OFF));
    if (session_call(s, "GET", "/v1/images", NULL, &answer, &err) < 0) {
        print_row(false, "kept", err.message);
        return;
    }
    double used = (double)json_integer_value(json_object_get(answer, "used_bytes"));
    double max = (double)json_integer_value(json_object_get(answer, "max_bytes"));
    snprintf(detail, sizeof(detail), "%zu, %.1f of %.1f GiB (images_max_bytes)",
             json_array_size(json_object_get(answer, "images")), used / GIB, max / GIB);
    print_row(true, "kept", detail);
}

static void print_storage(const json_t *storage)
{
    char detail[200];
    double free_bytes = (double)json_integer_value(json_object_get(storage, "free_bytes"));
    double reserve = (double)json_integer_value(json_object_get(storage, "reserve_bytes"));
    double promised = (double)json_integer_value(json_object_get(storage, "promised_bytes"));
    double claimed = (double)json_integer_value(json_object_get(storage, "claimed_bytes"));
    printf("\n%sState directory%s\n", colour(COLOUR_BOLD), colour(COLOUR_OFF));
    snprintf(detail, sizeof(detail),
             "%.1f GiB free, %.1f GiB of it in reserve (state_reserve_mb); %.1f GiB promised to "
             "sandboxes, %.1f GiB claimed by images and output",
             free_bytes / GIB, reserve / GIB, promised / GIB, claimed / GIB);
    print_row(free_bytes >= reserve, "room", detail);
}

static void print_pool(const struct full_house_row *row)
{
    print_row(row->fits, row->name, row->detail);
    if (!row->fits)
        print_advice(row->advice);
}

static void print_full_house(const json_t *capacity)
{
    printf("\n%sA full house%s: %lld sandboxes (max_sandboxes), each with the default limits\n",
           colour(COLOUR_BOLD), colour(COLOUR_OFF),
           (long long)json_integer_value(json_object_get(capacity, "sandboxes")));
    full_house_compare(capacity, print_pool);
}

static int examine_daemon(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_json_ json_t *status = NULL;
    if (!a->json)
        print_host();
    if (session_open(a, true, &s, &err) < 0 ||
        session_call(&s, "GET", "/v1/status", NULL, &status, &err) < 0)
        return cli_fail(&err);
    const json_t *runtimes = json_object_get(status, "runtimes");
    if (a->json) {
        print_json(runtimes, JSON_INDENT(2));
        return 0;
    }
    size_t i;
    json_t *rt;
    json_array_foreach(runtimes, i, rt)
    {
        putchar('\n');
        print_runtime(rt);
    }
    if (json_object_get(status, "capacity"))
        print_full_house(json_object_get(status, "capacity"));
    print_storage(json_object_get(status, "storage"));
    print_images(&s);
    return 0;
}

/* The daemon knows its own names; it sweeps what belongs to no living daemon, and says what. */
static int clean_host(void)
{
    struct sbx_error err;
    _cleanup_free_ char *path = sbx_find_daemon(&err);
    if (!path)
        return cli_fail(&err);
    char *argv[] = {path, (char *)"--clean", NULL};
    pid_t pid;
    int status, r = posix_spawnp(&pid, path, NULL, NULL, argv, environ);
    if (r != 0) {
        cli_set_error(&err, NULL, "start '%s': %s", path, strerror(r));
        return cli_fail(&err);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SBX_FAILED;
}

static int run_doctor(const struct args *a)
{
    return a->clean ? clean_host() : examine_daemon(a);
}

const struct command command_doctor = {
    .name = "doctor",
    .group = GROUP_HOST,
    .summary = "Report which protections work on this host, and how to get the missing ones",
    .options = OPTIONS(OPTIONS_CONNECTION,
                       OPTION("clean", clean, NULL,
                              "Remove the cgroups and files that killed daemons left behind."),
                       OPTION("json", json, NULL, "Print what the daemon says as JSON.")),
    .run = run_doctor,
};
