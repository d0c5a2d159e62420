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
    if (sbx_exec(s->client, a->text[FLAG_ID], (const char *const *)argv,
                 (int)a->number[FLAG_TIMEOUT], &r, &err) < 0)
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
    const char *id = a->text[FLAG_ID];
    if (sbx_exec_start(s->client, id, (const char *const *)argv, (int)a->number[FLAG_TIMEOUT],
                       &exec_id, &err) < 0)
        return cli_fail(&err);
    _cleanup_free_ char *shown = printable(exec_id);
    if (!a->on[FLAG_STREAM] && !a->on[FLAG_STREAM_RAW]) {
        printf("exec_id=%s status=running\n", shown);
        return 0;
    }
    /* Standard output is the command's; a person still needs the id, to cancel it. */
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "exec_id=%s status=running\n", shown);
    struct event_printer p = {.raw = a->on[FLAG_STREAM_RAW]};
    if (sbx_exec_stream(s->client, id, exec_id, event_print, &p, &err) < 0)
        return cli_fail(&err);
    return event_exit_code(&p);
}

int cmd_exec(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    if (!a->text[FLAG_ID])
        return cli_fail_usage("exec: -id is missing");
    if (a->on[FLAG_SYNC] + a->on[FLAG_STREAM] + a->on[FLAG_STREAM_RAW] > 1)
        return cli_fail_usage("exec: want one of -sync, -stream and -stream-raw");
    _cleanup_strv_ char **argv = spec_command(a, &err);
    if (!argv || session_open(a, false, &s, &err) < 0)
        return cli_fail(&err);
    return a->on[FLAG_SYNC] ? exec_sync(&s, a, argv) : exec_async(&s, a, argv);
}
