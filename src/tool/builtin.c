/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/builtin.h"

#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "sandbox/exec.h"
#include "sandbox/journal.h"

#define BUILTIN_ERROR_MAX 4096

/* The runner is not trusted: whatever it says becomes an error with a known code. */
static int parse_error(const char *text, size_t len, struct error *err)
{
    const char *code = "internal", *message = "the operation failed";
    struct error ignored = {0};
    _cleanup_json_ json_t *obj = json_parse_object(text, len, &ignored);
    if (obj) {
        json_member_string(obj, "code", &code, &ignored);
        json_member_string(obj, "message", &message, &ignored);
    }
    return error_set(err, error_code_find(code), 0, "%s", message);
}

int builtin_check_text(struct exec *e, const char *text, size_t len, struct error *err)
{
    const struct exec_result *r = exec_result(e);
    if (r->status == EXEC_COMPLETED && r->exit_code == 0)
        return 0;
    if (r->crashed)
        return error_set(err, ERROR_CRASH, 0, "%s", r->error);
    if (r->status == EXEC_COMPLETED)
        return parse_error(text ? text : "", len, err);
    return error_set(err, r->status == EXEC_TIMED_OUT ? ERROR_TIMEOUT : ERROR_INTERNAL, 0, "%s",
                     r->error);
}

int builtin_check(struct exec *e, struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BUILTIN_ERROR_MAX);
    uint64_t omitted;
    size_t gap;
    if (exec_journal(e))
        journal_collect(exec_journal(e), OUTPUT_STDERR, BUILTIN_ERROR_MAX, &text, &omitted, &gap);
    return builtin_check_text(e, text.data, text.len, err);
}
