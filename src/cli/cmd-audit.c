/* SPDX-License-Identifier: Apache-2.0 */
/* sbx audit: records as JSON lines, exports that prove themselves, checkpoints. */
#include "cli/cmd-audit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/args.h"
#include "cli/audit-evidence.h"
#include "cli/audit-offline.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "audit/record.h"
#include "libsbx/sbx.h"

#define PATH_MAX_BYTES (64 * 1024)
#define TAIL_RECORDS   "10"

/* --- filters */

/* NAME=VALUE arguments as a query; false after saying what is wrong. */
static bool add_filters(struct strbuf *path, char *const *filters)
{
    static const char *const names[] = {"since", "until", "limit",  "from",   "to",
                                        "kind",  "key",   "call",   "action", "sandbox",
                                        "exec",  "tool",  "outcome"};
    for (; filters && *filters; filters++) {
        size_t len = strcspn(*filters, "="), i = 0;
        while (i < ELEMENTS(names) &&
               (strlen(names[i]) != len || strncmp(names[i], *filters, len) != 0))
            i++;
        if (i == ELEMENTS(names) || !(*filters)[len]) {
            cli_fail_usage(
                "audit: '%s' is not NAME=VALUE with a known name (see 'sbx help audit query')",
                *filters);
            return false;
        }
        _cleanup_free_ char *pair = sbx_path_format("&%s=%s", names[i], *filters + len + 1);
        strbuf_puts(path, pair);
    }
    return true;
}

/* A record's own bytes, but for what a terminal would obey or hide. */
static int print_line(void *data, const char *line, size_t len)
{
    _cleanup_free_ char *text = xstrndup(line, len);
    _cleanup_free_ char *clean = isatty(STDOUT_FILENO) ? printable(text) : NULL;
    (void)data;
    puts(clean ? clean : text);
    return fflush(stdout) == 0 ? 0 : -1;
}

/* --- query */

static int run_query(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(PATH_MAX_BYTES);
    strbuf_puts(&path, a->follow ? "/v1/audit?follow=1" : "/v1/audit?follow=0");
    if (!add_filters(&path, a->rest))
        return EXIT_USAGE;
    if (session_open(a, false, &s, &err) < 0 ||
        sbx_stream_lines(s.client, "GET", path.data, NULL, print_line, NULL, &err) < 0)
        return cli_fail(&err);
    return 0;
}

/* --- tail: the newest come newest first, and are printed the other way round */

struct lines {
    char **line;
    size_t n;
    uint64_t newest;
};

static int keep_line(void *data, const char *line, size_t len)
{
    struct lines *l = data;
    if (!l->n)
        l->newest = audit_record_seq(line, len);
    l->line = xrealloc(l->line, (l->n + 1) * sizeof(char *));
    l->line[l->n++] = xstrndup(line, len);
    return 0;
}

static int run_tail(const struct args *a)
{
    struct sbx_error err;
    struct lines l = {0};
    _cleanup_session_ struct session s = {0};
    _cleanup_strbuf_ struct strbuf newest = STRBUF_INIT(PATH_MAX_BYTES),
                                   next = STRBUF_INIT(PATH_MAX_BYTES);
    strbuf_puts(&newest, "/v1/audit?order=newest");
    if (!add_filters(&newest, a->rest))
        return EXIT_USAGE;
    if (!strstr(newest.data, "&limit="))
        strbuf_puts(&newest, "&limit=" TAIL_RECORDS);
    if (session_open(a, false, &s, &err) < 0)
        return cli_fail(&err);
    int r = sbx_stream_lines(s.client, "GET", newest.data, NULL, keep_line, &l, &err);
    while (l.n) {
        l.n--;
        print_line(NULL, l.line[l.n], strlen(l.line[l.n]));
        free(l.line[l.n]);
    }
    free(l.line);
    l.line = NULL;
    fflush(stdout);
    if (r < 0)
        return cli_fail(&err);
    if (!a->follow)
        return 0;
    strbuf_printf(&next, "/v1/audit?follow=1&since=%" PRIu64, l.newest);
    add_filters(&next, a->rest);
    r = sbx_stream_lines(s.client, "GET", next.data, NULL, print_line, NULL, &err);
    return r < 0 ? cli_fail(&err) : 0;
}

/* --- export */

static int export_offline(const struct args *a, uint64_t since)
{
    struct sbx_error err;
    uint64_t left = 0;
    _cleanup_evidence_ struct evidence e = {0};
    if ((a->key && evidence_load_key(&e, a->key, &err) < 0) ||
        audit_offline_evidence(a->state_dir, &e, &err) < 0 ||
        audit_offline_export(a->state_dir, since, &e, &left, &err) < 0)
        return cli_fail(&err);
    if (left)
        cli_warn("%" PRIu64 " records after the newest checkpoint are not signed, and left out",
                 left);
    return 0;
}

static int print_piece(void *data, const char *piece, size_t len)
{
    (void)data;
    return fwrite(piece, len, 1, stdout) == 1 ? 0 : -1;
}

static int run_export(const struct args *a)
{
    struct sbx_error err;
    char *end = NULL;
    uint64_t since = 0;
    _cleanup_session_ struct session s = {0};
    if (a->n_rest && strncmp(a->rest[0], "since=", 6) == 0)
        since = strtoull(a->rest[0] + 6, &end, 10);
    if (a->n_rest && (!end || *end || !a->rest[0][6]))
        return cli_fail_usage("audit export takes since=N, not '%s'", a->rest[0]);
    if (a->state_dir)
        return export_offline(a, since);
    _cleanup_free_ char *path = xasprintf("/v1/audit/export?since=%" PRIu64, since);
    if (session_open(a, false, &s, &err) < 0 ||
        sbx_download(s.client, path, print_piece, NULL, &err) < 0)
        return cli_fail(&err);
    if (fflush(stdout) == 0)
        return 0;
    cli_set_error(&err, "no_space", "standard output: %s", strerror(errno));
    return cli_fail(&err);
}

/* --- checkpoint */

static int run_checkpoint(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    if (session_call(s, "GET", "/v1/audit/checkpoint", NULL, &answer, err) < 0)
        return -1;
    const json_t *shown = a->json ? answer : json_object_get(answer, "checkpoint");
    print_json(shown, JSON_COMPACT);
    return 0;
}

/* --- another signing key */

static int run_rotate(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    if (session_call(s, "POST", "/v1/audit/rotate", NULL, &answer, err) < 0)
        return -1;
    if (a->json)
        print_json(answer, JSON_COMPACT);
    else
        puts(json_string_value(json_object_get(answer, "key")));
    return 0;
}

#define OPTION_AUDIT_KEY                                                                           \
    OPTION("key", key, "FILE",                                                                     \
           "The public key of the daemon's audit, as PEM or as 64 hexadecimal digits.")
#define OPTION_FOLLOW          OPTION("f", follow, NULL, "Wait for further records and print them, too.")
#define KIND_WORD(name, flags) " " name
#define FILTER_DETAILS                                                                             \
    "Records are printed as lines of JSON, the oldest first. Only those are printed that fit all " \
    "filters NAME=VALUE. The names are since and until (numbers of records), limit, from and to "  \
    "(times, as 2026-01-02T03:04:05Z), kind, key, call, action, sandbox, exec, tool and outcome. " \
    "The kinds are" AUDIT_KINDS(KIND_WORD) "."

static const struct command audit_commands[] = {
    {.name = "audit verify",
     .usage = "[FILE]",
     .summary = "Prove that no record of the audit was changed, removed or moved",
     .details =
         "Reads an export from the daemon, from FILE ('-' is standard input), or with "
         "-state-dir the database of a daemon that is not running. Says where a record was "
         "changed, removed or moved, and what could not be proved. Exits with 1 if something "
         "is wrong. Records that were cut off at the end are found only with -checkpoint.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_STATE_DIR, OPTION_AUDIT_KEY,
                        OPTION("checkpoint", checkpoint, "FILE",
                               "Checkpoints of this audit that were kept elsewhere."),
                        OPTION_JSON),
     .max_rest = 1,
     .run = cmd_audit_verify},
    {.name = "audit export",
     .usage = "[since=N]",
     .summary = "Print the records with all that 'audit verify' needs",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_STATE_DIR, OPTION_AUDIT_KEY),
     .max_rest = 1,
     .run = run_export},
    {.name = "audit query",
     .usage = "[NAME=VALUE...]",
     .summary = "Print records of the audit",
     .details = FILTER_DETAILS,
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_FOLLOW),
     .max_rest = -1,
     .run = run_query},
    {.name = "audit tail",
     .usage = "[NAME=VALUE...]",
     .summary = "Print the newest ten records of the audit",
     .details = FILTER_DETAILS,
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_FOLLOW),
     .max_rest = -1,
     .run = run_tail},
    {.name = "audit checkpoint",
     .summary = "Have the newest record signed and print the checkpoint",
     .details = "Keep the checkpoint where the daemon cannot reach it, for 'audit verify'.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .run_connected = run_checkpoint},
    {.name = "audit rotate",
     .summary = "Have a new key sign from now on and print its public part",
     .details = "The old key signs a statement that names the new key.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .run_connected = run_rotate},
    {0}};

const struct command command_audit = {
    .name = "audit",
    .group = GROUP_HOST,
    .summary = "Read the audit, and prove that nothing in it was changed",
    .commands = audit_commands,
};
