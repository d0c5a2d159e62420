/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/record.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/json-format.h"
#include "identity/identity.h"

#define KIND_ROW(name, flags) {name, flags},

static const struct {
    const char *name;
    int flags;
} kinds[] = {AUDIT_KINDS(KIND_ROW)};

int audit_kind_flags(const char *kind)
{
    for (size_t i = 0; kind && i < ELEMENTS(kinds); i++)
        if (strcmp(kinds[i].name, kind) == 0)
            return kinds[i].flags;
    return -1;
}

const char *audit_kind_at(size_t i)
{
    return i < ELEMENTS(kinds) ? kinds[i].name : NULL;
}

/* --- writing */

/* Always the same bytes for the same text: searches look for them. */
int audit_record_escape(struct strbuf *out, const char *text)
{
    return json_format_inside(out, text, strlen(text),
                              JSON_REPLACE_BYTES | JSON_CONTROLS_AS_NUMBERS);
}

static int put_string(struct strbuf *out, const char *name, const char *value)
{
    if (!value || !*value)
        return 0;
    int r = strbuf_append(out, ",\"", 2);
    if (r < 0)
        return r;
    r = strbuf_puts(out, name);
    if (r < 0)
        return r;
    r = strbuf_append(out, "\":\"", 3);
    if (r < 0)
        return r;
    r = audit_record_escape(out, value);
    if (r < 0)
        return r;
    return strbuf_append(out, "\"", 1);
}

static int put_who(struct strbuf *out, const struct identity *who)
{
    if (!who)
        return 0;
    int r = put_string(out, "key", who->key);
    if (r < 0)
        return r;
    r = put_string(out, "name", who->name);
    if (r < 0)
        return r;
    return put_string(out, "auth", who->authenticated ? "key" : "unauthenticated");
}

static int put_text(struct strbuf *out, const char *text, size_t len)
{
    int r = strbuf_puts(out, ",\"details\":");
    if (r < 0)
        return r;
    r = strbuf_append(out, text, len);
    if (r < 0)
        return r;
    return strbuf_append(out, "}", 1);
}

static int put_details(struct strbuf *out, const char *text, size_t len)
{
    size_t before = out->len;
    int r = put_text(out, text, len);
    if (r != -EFBIG)
        return r;
    char digest[AUDIT_DIGEST_SIZE];
    audit_digest(text, len, digest);
    out->len = before;
    return strbuf_printf(out, ",\"details\":{\"omitted_bytes\":%zu,\"digest\":\"%s\"}}", len,
                         digest);
}

static int put_end(struct strbuf *out, const struct audit_record *r)
{
    if (r->details_text)
        return put_details(out, r->details_text, strlen(r->details_text));
    if (!r->details)
        return strbuf_append(out, "}", 1);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SIZE_MAX / 4);
    int e = json_format(r->details, &text);
    return e < 0 ? e : put_details(out, text.data, text.len);
}

int audit_record_format(const struct audit_record *r, uint64_t seq, int64_t time_ns,
                        struct strbuf *out)
{
    char time[CLOCK_RFC3339_SIZE];
    if (audit_kind_flags(r->kind) < 0)
        return -EINVAL;
    clock_format_rfc3339(time_ns, time);
    strbuf_reset(out);
    int e = strbuf_append(out, "{\"seq\":", 7);
    if (e < 0)
        return e;
    e = json_format_int(out, (int64_t)seq);
    const struct {
        const char *name, *value;
    } head[] = {{"time", time}, {"kind", r->kind}},
      rest[] = {
          {"call", r->call_id}, {"action", r->action_id},  {"sandbox", r->sandbox},
          {"exec", r->exec},    {"tool", r->tool},         {"outcome", r->outcome},
          {"rule", r->rule},    {"revision", r->revision},
      };
    for (size_t i = 0; e >= 0 && i < ELEMENTS(head); i++)
        e = put_string(out, head[i].name, head[i].value);
    if (e < 0)
        return e;
    e = put_who(out, r->who);
    for (size_t i = 0; e >= 0 && i < ELEMENTS(rest); i++)
        e = put_string(out, rest[i].name, rest[i].value);
    if (e < 0)
        return e;
    return put_end(out, r);
}

/* --- reading */

/* The end of a string's inside that starts at `at`, or len. */
static size_t string_end(const char *line, size_t len, size_t at)
{
    while (at < len && line[at] != '"')
        at += line[at] == '\\' ? 2 : 1;
    return at < len ? at : len;
}

bool audit_record_next(const char *line, size_t len, size_t *at, struct audit_member *ret)
{
    size_t i = *at;
    if (i + 2 >= len || line[i] != (i ? ',' : '{') || line[i + 1] != '"')
        return false;
    size_t name = i + 2, name_end = string_end(line, len, name);
    if (name_end + 3 > len || line[name_end + 1] != ':')
        return false;
    size_t text = name_end + 2;
    *ret = (struct audit_member){.name = line + name, .name_len = name_end - name};
    if (line[text] == '"') {
        size_t end = string_end(line, len, ++text);
        if (end == len)
            return false;
        *at = end + 1;
        ret->text_len = end - text;
    } else {
        size_t end = text;
        while (end < len && line[end] >= '0' && line[end] <= '9')
            end++;
        if (end == text)
            return false; /* details, or nothing of ours */
        *at = end;
        ret->text_len = end - text;
    }
    ret->text = line + text;
    return true;
}

bool audit_record_find(const char *line, size_t len, const char *name, struct audit_member *ret)
{
    size_t at = 0, name_len = strlen(name);
    while (audit_record_next(line, len, &at, ret))
        if (ret->name_len == name_len && memcmp(ret->name, name, name_len) == 0)
            return true;
    return false;
}

uint64_t audit_record_seq(const char *line, size_t len)
{
    static const char start[] = "{\"seq\":";
    size_t i = sizeof(start) - 1;
    uint64_t seq = 0;
    if (len <= i || memcmp(line, start, i) != 0 || line[i] == '0')
        return 0;
    for (; i < len && line[i] >= '0' && line[i] <= '9'; i++) {
        if (seq > (INT64_MAX - 9) / 10)
            return 0;
        seq = seq * 10 + (uint64_t)(line[i] - '0');
    }
    return i < len && line[i] == ',' ? seq : 0;
}
