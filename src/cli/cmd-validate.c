/* SPDX-License-Identifier: Apache-2.0 */
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

static void print_result(const struct args *a, const struct validation *v)
{
    if (a->json) {
        _cleanup_json_ json_t *o = validation_to_json(v);
        print_json(o, JSON_INDENT(2));
    } else if (a->strip) {
        fwrite(v->sanitized.data ? v->sanitized.data : "", 1, v->sanitized.len, stdout);
    } else if (a->show) {
        fwrite(v->visible.data ? v->visible.data : "", 1, v->visible.len, stdout);
    } else {
        printf("threat level: %s\n", threat_name(v->threat));
        for (size_t i = 0; i < v->n_matches; i++) {
            const struct validate_match *m = &v->matches[i];
            printf("%-8s %s:%s at %zu: %s: %s\n", threat_name(m->threat),
                   validate_category_name(m->category), m->id, m->offset, m->message, m->excerpt);
        }
    }
}

static int run_validate(const struct args *a)
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
    return valid || a->strip || a->show ? 0 : EXIT_INVALID;
}

const struct command command_validate = {
    .name = "validate",
    .group = GROUP_HOST,
    .usage = "[FILE]",
    .summary = "Check a text from outside for instructions that aim at a language model",
    .details =
        "Reads FILE or standard input and prints what it found: orders to a model, also hidden "
        "ones, and characters that are invisible on a screen. Exits with 1 if the threat is "
        "more than low. This is advice and no protection: an attacker who knows the patterns "
        "can avoid them. It needs no daemon.",
    .options =
        OPTIONS(OPTION_JSON,
                OPTION("show", show, NULL,
                       "Print the text with every invisible character written out, as <U+202E>."),
                OPTION("strip", strip, NULL, "Print the text without its invisible characters.")),
    .max_rest = 1,
    .run = run_validate,
};
