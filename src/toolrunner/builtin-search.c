/* SPDX-License-Identifier: Apache-2.0 */
/* fs-search PATH: lines that match, in a file or in all files below a directory. Input {"pattern",
 * "literal","ignore_case","glob","max_matches"}, output {"matches":[{"path","line","text"}],
 * "files_searched","truncated"}. A pattern is a POSIX extended regular expression; files with NUL
 * bytes and what is below .git are passed over. It runs as the tool's user: a slow pattern costs
 * the sandbox its own time. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <regex.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/line-reader.h"
#include "toolrunner/tree.h"

#define SEARCH_ENTRIES_MAX 200000
#define MATCHES_DEFAULT    100
#define MATCHES_MAX        10000
#define TEXT_MAX           400  /* of a matching line */
#define SEARCH_DONE        1000 /* a visitor's answer: enough */

struct search {
    const char *pattern, *glob;
    bool literal, ignore_case;
    int64_t max_matches;
    size_t root_len;
    regex_t regex;
    json_t *matches;
    int64_t n_files;
};

static int parse_search(const json_t *input, struct search *s, struct error *err)
{
    s->max_matches = MATCHES_DEFAULT;
    int r = json_member_string(input, "pattern", &s->pattern, err);
    if (r < 0)
        return r;
    r = json_member_string(input, "glob", &s->glob, err);
    if (r < 0)
        return r;
    r = json_member_bool(input, "literal", &s->literal, err);
    if (r < 0)
        return r;
    r = json_member_bool(input, "ignore_case", &s->ignore_case, err);
    if (r < 0)
        return r;
    r = json_member_int(input, "max_matches", 1, MATCHES_MAX, &s->max_matches, err);
    if (r < 0)
        return r;
    if (!s->pattern || !*s->pattern)
        return error_field(err, "pattern", "'pattern' is missing");
    return r;
}

static int compile_pattern(struct search *s, struct error *err)
{
    char why[200];
    if (s->literal)
        return 0;
    int r =
        regcomp(&s->regex, s->pattern, REG_EXTENDED | REG_NOSUB | (s->ignore_case ? REG_ICASE : 0));
    if (r == 0)
        return 0;
    regerror(r, &s->regex, why, sizeof(why));
    return error_field(err, "pattern", "'pattern' is not a regular expression: %s", why);
}

static bool line_matches(const struct search *s, const char *line)
{
    if (!s->literal)
        return regexec(&s->regex, line, 0, NULL, 0) == 0;
    return s->ignore_case ? strcasestr(line, s->pattern) : strstr(line, s->pattern);
}

static json_t *text_to_json(const char *text, size_t len)
{
    bool lossy;
    return json_string_from_bytes(text, len, &lossy);
}

static int search_fd(struct search *s, int fd, const char *path)
{
    _cleanup_free_ struct line_reader *r = line_reader_new(fd);
    s->n_files++;
    for (json_int_t line = 1; line_reader_next(r) > 0; line++) {
        if (memchr(r->line, 0, r->line_len))
            return 0; /* not text */
        if (!line_matches(s, r->line))
            continue;
        if ((int64_t)json_array_size(s->matches) >= s->max_matches)
            return SEARCH_DONE;
        size_t n = r->line_len < TEXT_MAX ? r->line_len : TEXT_MAX;
        json_array_append_new(s->matches,
                              json_pack("{s:o, s:I, s:o}", "path", text_to_json(path, strlen(path)),
                                        "line", line, "text", text_to_json(r->line, n)));
    }
    return 0;
}

/* A glob with a slash is about the path below the root, one without about the name. */
static bool is_wanted(const struct search *s, const struct tree_entry *e)
{
    if (!S_ISREG(e->st.st_mode) || strstr(e->path, "/.git/"))
        return false;
    if (!s->glob)
        return true;
    const char *below = e->path + s->root_len;
    return fnmatch(s->glob, strchr(s->glob, '/') ? below + (*below == '/') : e->name, 0) == 0;
}

static int visit_file(const struct tree_entry *e, void *arg)
{
    struct search *s = arg;
    if (!is_wanted(s, e))
        return 0;
    _cleanup_close_ int fd =
        openat(e->dirfd, e->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? 0 : search_fd(s, fd, e->path); /* one that may not be read is passed over */
}

/* 0: all was searched; positive: it stopped early; or -errno. */
static int search_path(struct search *s, const char *path)
{
    struct stat st;
    s->root_len = strlen(path);
    if (stat(path, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return tree_walk(path, true, SEARCH_ENTRIES_MAX, visit_file, s);
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : search_fd(s, fd, path);
}

int builtin_fs_search(int argc, char **argv)
{
    struct error err = {0};
    struct search s = {0};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BUILTIN_INPUT_MAX);
    if (argc != 2)
        return builtin_failure_code("invalid_request", "usage: fs-search PATH");
    if (builtin_read_input(&text) < 0)
        return builtin_failure_code("too_large", "the pattern is too large");
    _cleanup_json_ json_t *input = json_parse_object(text.data ? text.data : "", text.len, &err);
    if (!input || parse_search(input, &s, &err) < 0 || compile_pattern(&s, &err) < 0)
        return builtin_failure_code("invalid_request", "%s", err.message);
    s.matches = json_array();
    _cleanup_json_ json_t *o = json_pack("{s:o}", "matches", s.matches);
    int r = search_path(&s, argv[1]);
    if (!s.literal)
        regfree(&s.regex);
    if (r < 0)
        return builtin_failure(-r, "%s", argv[1]);
    json_object_set_new(o, "files_searched", json_integer(s.n_files));
    json_object_set_new(o, "truncated", json_boolean(r > 0));
    return builtin_print(o);
}
