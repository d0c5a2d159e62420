/* SPDX-License-Identifier: Apache-2.0 */
/* sbx exec: a command in a sandbox; started, waited for, or streamed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/events.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/spec.h"
#include "libsbx/sbx.h"

static int exec_sync(struct session *s, const struct args *a, char *const argv[])
{
    struct sbx_error err;
    struct sbx_exec_result r;
    if (sbx_exec(s->client, a->id, (const char *const *)argv, (int)a->timeout, &r, &err) < 0)
        return cli_fail(&err);
    int code = EXIT_BROKEN_PIPE;
    if (fd_write_all(STDOUT_FILENO, r.stdout_data, r.stdout_len) == 0 &&
        fd_write_all(STDERR_FILENO, r.stderr_data, r.stderr_len) == 0)
        code = exit_code_of(r.status, r.error, r.has_exit_code, r.exit_code);
    sbx_exec_result_done(&r);
    return code;
}

static int exec_async(struct session *s, const struct args *a, char *const argv[])
{
    struct sbx_error err;
    _cleanup_free_ char *exec_id = NULL;
    const char *id = a->id;
    if (sbx_exec_start(s->client, id, (const char *const *)argv, (int)a->timeout, &exec_id, &err) <
        0)
        return cli_fail(&err);
    _cleanup_free_ char *shown = printable(exec_id);
    if (!a->stream && !a->stream_raw) {
        printf("exec_id=%s status=running\n", shown);
        return 0;
    }
    /* Standard output is the command's; a person still needs the id, to cancel it. */
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "exec_id=%s status=running\n", shown);
    struct event_printer p = {.raw = a->stream_raw};
    if (sbx_exec_stream(s->client, id, exec_id, event_print, &p, &err) < 0)
        return cli_fail(&err);
    return event_exit_code(&p);
}

static int run_exec(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    if (a->sync + a->stream + a->stream_raw > 1)
        return cli_fail_usage("exec: -sync, -stream and -stream-raw exclude each other");
    _cleanup_strv_ char **argv = spec_command(a, &err);
    if (!argv || session_open(a, false, &s, &err) < 0)
        return cli_fail(&err);
    return a->sync ? exec_sync(&s, a, argv) : exec_async(&s, a, argv);
}

const struct command command_exec = {
    .name = "exec",
    .group = GROUP_SANDBOX,
    .usage = "[--] COMMAND [ARGUMENT...]",
    .summary = "Run a command in an existing sandbox",
    .details = "Prints exec_id=... status=running and does not wait for the command. With -sync, "
               "-stream or -stream-raw it waits, and exits with the command's exit code.",
    .options =
        OPTIONS(OPTIONS_CONNECTION, OPTION_ID,
                OPTION("cmd", cmd, "'A B C'",
                       "The command as one text, which is split at spaces and knows no quotes."),
                OPTION("timeout", timeout, "SECONDS", "End the command after this time."),
                OPTION("sync", sync, NULL, "Wait for the command, then print its output."),
                OPTION("stream", stream, NULL, "Print the output as it is written."),
                OPTION("stream-raw", stream_raw, NULL, "Print each event as a line of JSON."),
                OPTION_APPROVAL),
    .max_rest = -1,
    .rest_is_argv = true,
    .run = run_exec,
};
