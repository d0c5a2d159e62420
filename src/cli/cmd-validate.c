/* sbx validate: looks at a text, without a daemon. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "validate/validate.h"

#define TEXT_MAX     (16 * 1024 * 1024)
#define TIMEOUT_MS   30000
#define EXIT_INVALID 1

static int read_text(const char *path, struct strbuf *text)
{
    _cleanup_close_ int file = -1;
    int fd = STDIN_FILENO;
    if (path && strcmp(path, "-") != 0)
        fd = file = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd_read_all(fd, text);
}

static void print_findings(const struct validation *v)
{
    printf("threat level: %s\n", threat_name(v->threat));
    for (size_t i = 0; i < v->n_matches; i++) {
        const struct validate_match *m = &v->matches[i];
        printf("%-8s %s:%s at %zu: %s: %s\n", threat_name(m->threat),
               validate_category_name(m->category), m->id, m->offset, m->message, m->excerpt);
    }
}

static void print_result(const struct args *a, const struct validation *v)
{
    if (a->on[FLAG_JSON]) {
        _cleanup_json_ json_t *o = validation_to_json(v);
        print_json(o, JSON_INDENT(2));
    } else if (a->on[FLAG_STRIP]) {
        fwrite(v->sanitized.data ? v->sanitized.data : "", 1, v->sanitized.len, stdout);
    } else if (a->on[FLAG_SHOW]) {
        fwrite(v->visible.data ? v->visible.data : "", 1, v->visible.len, stdout);
    } else {
        print_findings(v);
    }
}

int cmd_validate(const struct args *a)
{
    const struct validate_limits limits = {TEXT_MAX, TIMEOUT_MS};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    struct validation v;
    const char *path = a->n_rest ? a->rest[0] : NULL;
    int r = read_text(path, &text);
    if (r == -EFBIG)
        return cli_fail_usage("validate: the text is over %d bytes", TEXT_MAX);
    if (r < 0)
        return cli_fail_usage("validate: %s: %s", path ? path : "stdin", strerror(-r));
    validate_text(text.data ? text.data : "", text.len, &limits, &v);
    print_result(a, &v);
    bool valid = v.valid;
    validation_done(&v);
    return valid || a->on[FLAG_STRIP] || a->on[FLAG_SHOW] ? 0 : EXIT_INVALID;
}
