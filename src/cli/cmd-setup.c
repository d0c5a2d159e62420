/* SPDX-License-Identifier: Apache-2.0 */
/* sbx setup: makes the changes to this host that 'sbx doctor' advises, and takes them back.
 *
 * Each step looks at the host and adds the changes that it needs to a plan. The plan is shown
 * before anything is done. A change goes into the record before it is made, so that -undo knows of
 * it even if sbx is killed in between; undoing a change that was not made does nothing. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/setup-change.h"
#include "cli/setup-root.h"
#include "libsbx/sbx.h"

#define RECORD           "/var/lib/mas-sandbox-setup.json"
#define RECORD_MODE      0600
#define RECORD_MAX_BYTES (16 * 1024 * 1024)
#define SUBIDS_FIRST     100000ULL
#define SUBIDS_COUNT     65536ULL
#define SUBIDS_END       4294967295ULL
#define EXIT_DECLINED    1

struct setup {
    struct setup_root root;
    const char *user; /* who will run the daemon; NULL for root */
    json_t *plan;     /* an array of changes */
};

/* Takes the change, which may be NULL. -1 if that is so because of an error. */
static int plan_add(struct setup *s, json_t *change, const struct sbx_error *err)
{
    if (change)
        json_array_append_new(s->plan, change);
    return *err->message ? -1 : 0;
}

static bool has_program(const struct setup *s, const char *name)
{
    static const char *const dirs[] = {"/usr/local/bin",  "/usr/bin",  "/bin",
                                       "/usr/local/sbin", "/usr/sbin", "/sbin"};
    for (size_t i = 0; i < ELEMENTS(dirs); i++) {
        _cleanup_free_ char *path = xasprintf("%s/%s", dirs[i], name);
        if (setup_root_has(&s->root, path))
            return true;
    }
    return false;
}

static bool has_systemd(const struct setup *s)
{
    return setup_root_has(&s->root, "/usr/lib/systemd/systemd") ||
           setup_root_has(&s->root, "/lib/systemd/systemd");
}

/* --- the steps */

static void plan_packages_named(struct setup *s, const char *const *names, const char *why)
{
    if (!*names)
        return;
    if (has_program(s, "apt-get")) {
        json_array_append_new(s->plan, change_packages(names, why));
        return;
    }
    printf("This host has no apt-get. Install the equivalent of these Debian packages yourself:");
    for (; *names; names++)
        printf(" %s", *names);
    putchar('\n');
}

static int plan_packages(struct setup *s, struct sbx_error *err)
{
    const char *names[4] = {0};
    size_t n = 0;
    (void)err;
    if (s->user && !has_program(s, "newuidmap"))
        names[n++] = "uidmap";
    if (!has_program(s, "skopeo"))
        names[n++] = "skopeo";
    if (!setup_root_has(&s->root, "/etc/ssl/certs/ca-certificates.crt"))
        names[n++] = "ca-certificates";
    plan_packages_named(s, names, "Packages that fetch images and map the ids of users.");
    return 0;
}

/* The first id behind all ranges of an /etc/sub?id file; 0 if the user has one already. */
static unsigned long long find_free_ids(const char *text, const char *user)
{
    unsigned long long first = SUBIDS_FIRST;
    size_t n = strlen(user);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        unsigned long long start, count;
        if (strncmp(line, user, n) == 0 && line[n] == ':')
            return 0;
        if (sscanf(line + strcspn(line, ":\n"), ":%llu:%llu", &start, &count) == 2 &&
            start + count > first)
            first = start + count;
    }
    return first;
}

static int plan_subids_in(struct setup *s, const char *path, struct sbx_error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(RECORD_MAX_BYTES);
    setup_root_read(&s->root, path, &b);
    unsigned long long first = find_free_ids(b.data ? b.data : "", s->user);
    if (!first)
        return 0;
    if (first + SUBIDS_COUNT > SUBIDS_END)
        return cli_set_error(err, NULL, "'%s' has no free range of ids", path);
    _cleanup_free_ char *line = xasprintf("%s:%llu:%llu", s->user, first, SUBIDS_COUNT);
    return plan_add(s,
                    change_line(&s->root, path, line,
                                "A range of ids, so that sandboxes of this user are separated.",
                                err),
                    err);
}

static int plan_subids(struct setup *s, struct sbx_error *err)
{
    if (!s->user)
        return 0;
    return plan_subids_in(s, "/etc/subuid", err) < 0 ? -1 : plan_subids_in(s, "/etc/subgid", err);
}

static int plan_delegation(struct setup *s, struct sbx_error *err)
{
    static const char *const reload[] = {"systemctl", "daemon-reload", NULL};
    if (!s->user || !has_systemd(s))
        return 0;
    return plan_add(s,
                    change_file(&s->root, "/etc/systemd/system/user@.service.d/mas-sandbox.conf",
                                "[Service]\nDelegate=cpu cpuset io memory pids\n",
                                "Control groups for users, so that their daemons can enforce "
                                "limits. Users have to log in again.",
                                reload),
                    err);
}

static int plan_gvisor(struct setup *s, struct sbx_error *err)
{
    static const char *const names[] = {"runsc", NULL};
    static const char *const reload[] = {"systemctl", "reload", "docker.service", NULL};
    if (!has_program(s, "runsc"))
        plan_packages_named(s, names, "gVisor, a kernel in user space for the runtime gvisor.");
    if (!has_program(s, "dockerd"))
        return 0;
    json_t *entry = json_pack("{s:s, s:[s, s]}", "path", "/usr/bin/runsc", "runtimeArgs",
                              "--network=none", "--host-uds=open");
    return plan_add(s,
                    change_member(&s->root, "/etc/docker/daemon.json", "runtimes", "runsc", entry,
                                  "An entry for gVisor in docker, for the runtime docker-gvisor.",
                                  has_systemd(s) ? reload : NULL, err),
                    err);
}

static int plan_configuration(struct setup *s, struct sbx_error *err)
{
    return plan_add(s,
                    change_file(&s->root, "/etc/mas-sandbox/config.yaml",
                                "# Configuration of mas-sandboxd; see mas-sandbox.yaml(5).\n"
                                "# Only this machine reaches the daemon, and each of its users may "
                                "make sandboxes. To give that\n"
                                "# right to some only, add require_keys: true and make keys with "
                                "'sbx keys add'.\n"
                                "listen: [127.0.0.1:8080]\n",
                                "A configuration for the daemon that systemd starts.", NULL),
                    err);
}

static const struct {
    const char *name;
    int (*plan)(struct setup *s, struct sbx_error *err);
} steps[] = {{"packages", plan_packages},
             {"subids", plan_subids},
             {"delegation", plan_delegation},
             {"gvisor", plan_gvisor},
             {"configuration", plan_configuration}};

/* --- the record */

/* An array of changes, or NULL with an error. */
static json_t *record_load(const struct setup *s, struct sbx_error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(RECORD_MAX_BYTES);
    int r = setup_root_read(&s->root, RECORD, &b);
    if (r == -ENOENT)
        return json_array();
    json_t *record = r < 0 ? NULL : json_loadb(b.data ? b.data : "", b.len, 0, NULL);
    if (json_is_array(record))
        return record;
    json_decref(record);
    cli_set_error(err, NULL, "the record " RECORD " cannot be read: %s",
                  r < 0 ? strerror(-r) : "it is damaged");
    return NULL;
}

static int record_save(const struct setup *s, const json_t *record, struct sbx_error *err)
{
    int r;
    if (!json_array_size(record)) {
        r = setup_root_remove(&s->root, RECORD);
        r = r == -ENOENT ? 0 : r;
    } else {
        _cleanup_free_ char *text = json_dumps(record, JSON_INDENT(1));
        setup_root_make_dir(&s->root, "/var");
        setup_root_make_dir(&s->root, "/var/lib");
        r = setup_root_write(&s->root, RECORD, text, RECORD_MODE);
    }
    return r < 0 ? cli_set_error(err, NULL, "write the record " RECORD ": %s", strerror(-r)) : 0;
}

static int apply_plan(const struct setup *s, json_t *record, struct sbx_error *err)
{
    size_t i;
    json_t *change;
    json_array_foreach(s->plan, i, change)
    {
        if (!change_is_possible(&s->root, change))
            continue;
        json_array_append(record, change);
        if (record_save(s, record, err) < 0 || change_apply(&s->root, change, err) < 0)
            return -1;
    }
    return 0;
}

/* The newest first, each out of the record once it is taken back. */
static int undo_record(const struct setup *s, json_t *record, struct sbx_error *err)
{
    for (size_t n = json_array_size(record); n-- > 0;) {
        const json_t *change = json_array_get(record, n);
        if (change_is_possible(&s->root, change) && change_undo(&s->root, change, err) < 0)
            return -1;
        json_array_remove(record, n);
        if (record_save(s, record, err) < 0)
            return -1;
    }
    return 0;
}

/* --- asking */

static void show_changes(const struct setup *s, const json_t *changes, bool undo)
{
    size_t i;
    json_t *change;
    printf("sbx setup %s:\n", undo ? "takes back these changes" : "makes these changes");
    json_array_foreach(changes, i, change)
    {
        change_print(change, undo);
        if (!change_is_possible(&s->root, change))
            printf("    (left out, because -root is given)\n");
    }
    putchar('\n');
}

/* 0 to go on, else an exit code. */
static int ask_person(const struct args *a)
{
    char answer[16];
    if (a->yes)
        return 0;
    if (!isatty(STDIN_FILENO))
        return cli_fail_usage(
            "setup: nothing was changed. Without a terminal to ask on, give -yes");
    printf("Go on? [y/N] ");
    fflush(stdout);
    if (fgets(answer, sizeof(answer), stdin) && (*answer == 'y' || *answer == 'Y'))
        return 0;
    printf("Nothing was changed.\n");
    return EXIT_DECLINED;
}

static int finish_setup(const struct args *a, const struct setup *s, json_t *record)
{
    struct sbx_error err;
    const json_t *changes = a->undo ? record : s->plan;
    if (!json_array_size(changes)) {
        printf(a->undo ? "There is nothing to take back.\n" : "There is nothing to do.\n");
        return 0;
    }
    show_changes(s, changes, a->undo);
    if (a->print)
        return 0;
    if (s->root.is_host && geteuid() != 0)
        return cli_fail_usage("setup: only root can do this: sudo sbx setup%s",
                              a->undo ? " -undo" : "");
    int code = ask_person(a);
    if (code)
        return code;
    if ((a->undo ? undo_record(s, record, &err) : apply_plan(s, record, &err)) < 0) {
        code = cli_fail(&err);
        cli_warn("what was done until then is in " RECORD "; 'sbx setup -undo' takes it back");
        return code;
    }
    printf(a->undo ? "Done.\n" : "Done. 'sbx setup -undo' takes this back.\n");
    return 0;
}

/* --- what is asked for */

static bool is_skipped(const struct args *a, const char *step)
{
    for (char **name = a->skip; name && *name; name++)
        if (strcmp(*name, step) == 0)
            return true;
    return false;
}

/* 0, or an exit code after saying why. */
static int check_args(const struct args *a, const char *user)
{
    for (char **name = a->skip; name && *name; name++) {
        bool known = false;
        for (size_t i = 0; i < ELEMENTS(steps); i++)
            known = known || strcmp(*name, steps[i].name) == 0;
        if (!known)
            return cli_fail_usage("setup: -skip takes packages, subids, delegation, gvisor or "
                                  "configuration, not '%s'",
                                  *name);
    }
    if (user && (!*user || strpbrk(user, ":\n\r\t /")))
        return cli_fail_usage("setup: '%s' is not a user name", user);
    if (user && !a->root && !getpwnam(user))
        return cli_fail_usage("setup: there is no user '%s'", user);
    return 0;
}

static int make_plan(const struct args *a, struct setup *s, struct sbx_error *err)
{
    err->message[0] = 0;
    for (size_t i = 0; i < ELEMENTS(steps) && !a->undo; i++)
        if (!is_skipped(a, steps[i].name) && steps[i].plan(s, err) < 0)
            return -1;
    return 0;
}

static int run_setup(const struct args *a)
{
    struct sbx_error err;
    const char *user = a->user ? a->user : a->root ? NULL : getenv("SUDO_USER");
    _cleanup_json_ json_t *plan = json_array();
    struct setup s = {.user = user && strcmp(user, "root") != 0 ? user : NULL, .plan = plan};
    int code = check_args(a, s.user);
    if (code)
        return code;
    _cleanup_setup_root_ struct setup_root root = {.fd = -1};
    int r = setup_root_open(a->root, &root);
    if (r < 0)
        return cli_fail_usage("setup: '%s': %s", a->root ? a->root : "/", strerror(-r));
    s.root = root;
    _cleanup_json_ json_t *record = record_load(&s, &err);
    if (!record || make_plan(a, &s, &err) < 0)
        return cli_fail(&err);
    return finish_setup(a, &s, record);
}

const struct command command_setup = {
    .name = "setup",
    .group = GROUP_HOST,
    .summary = "Prepare this host for sandboxes, as 'sbx doctor' advises",
    .details =
        "Installs missing packages, gives the user who will run the daemon ranges in /etc/subuid "
        "and "
        "/etc/subgid and control groups, installs gVisor and enters it in docker's configuration, "
        "and writes a configuration for the daemon. Everything is shown first, and nothing is done "
        "before you agree. What was changed is recorded in " RECORD ", and -undo takes it back.",
    .options = OPTIONS(
        OPTION(
            "user", user, "NAME",
            "The user who will run the daemon. The default is the user who called sudo; a daemon "
            "of root needs neither ranges nor control groups."),
        OPTION("skip", skip, "STEP",
               "Leave out packages, subids, delegation, gvisor or configuration. May be repeated."),
        OPTION("print", print, NULL, "Show what would be done and change nothing."),
        OPTION("yes", yes, NULL, "Do not ask."),
        OPTION("undo", undo, NULL, "Take back what sbx setup has changed."),
        OPTION("root", root, "DIR",
               "Change the files below DIR instead of the host's, and run no programs.")),
    .run = run_setup,
};
