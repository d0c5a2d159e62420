/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/approval-show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/output.h"

#define KEY_WIDTH   12
#define TEXT_INDENT 2

static void print_line(const char *key, const char *value)
{
    _cleanup_free_ char *name = printable(key), *text = printable(value);
    int n = printf("%-*s ", KEY_WIDTH, name);
    print_wrapped((size_t)n, KEY_WIDTH + 1, text);
}

static void print_member(const char *key, const json_t *obj, const char *member)
{
    const char *value = json_string_value(json_object_get(obj, member));
    if (value && *value)
        print_line(key, value);
}

/* Any value under its name: a line for each scalar in it. */
static void print_value(const char *key, const json_t *value)
{
    const char *member;
    size_t i;
    json_t *item;
    if (json_is_object(value) && json_object_size(value) > 0) {
        json_object_foreach((json_t *)value, member, item)
        {
            _cleanup_free_ char *name = xasprintf("%s.%s", key, member);
            print_value(name, item);
        }
    } else if (json_is_array(value) && json_array_size(value) > 0) {
        json_array_foreach(value, i, item) print_value(key, item);
    } else if (json_is_string(value)) {
        print_line(key, json_string_value(value));
    } else if (json_is_object(value) || json_is_array(value) || json_is_null(value)) {
        print_line(key, "-");
    } else {
        _cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY);
        print_line(key, text ? text : "?");
    }
}

/* A text of several lines. */
static void print_text(const char *title, const char *text)
{
    if (!text || !*text)
        return;
    _cleanup_free_ char *clean_title = printable(title), *head = xasprintf("%s:", clean_title);
    print_wrapped(0, TEXT_INDENT, head);
    while (*text) {
        size_t n = strcspn(text, "\n");
        _cleanup_free_ char *line = xstrndup(text, n), *clean = printable(line);
        printf("%*s", TEXT_INDENT, "");
        print_wrapped(TEXT_INDENT, 2 * TEXT_INDENT, clean);
        text += n + (text[n] == '\n');
    }
}

/* --- what is unusual */

static void print_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void print_warning(const char *fmt, ...)
{
    _cleanup_free_ char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    _cleanup_free_ char *clean = printable(text);
    printf("%s%-*s%s ", colour(COLOUR_YELLOW), KEY_WIDTH, "look", colour(COLOUR_OFF));
    print_wrapped(KEY_WIDTH + 1, KEY_WIDTH + 1, clean);
}

static bool value_hides(const json_t *value)
{
    const char *key;
    size_t i;
    json_t *item;
    if (json_is_string(value))
        return has_hidden(json_string_value(value));
    json_array_foreach(value, i, item)
    {
        if (value_hides(item))
            return true;
    }
    json_object_foreach((json_t *)value, key, item)
    {
        if (has_hidden(key) || value_hides(item))
            return true;
    }
    return false;
}

/* What a pin is about: a file, a variable, a command that is run in turn, or what a program loads
 * by itself. */
static const char *pin_name(const json_t *pin)
{
    static const char *const members[] = {"path", "env", "command", "loads"};
    const char *name = NULL;
    for (size_t i = 0; !name && i < ELEMENTS(members); i++)
        name = json_string_value(json_object_get(pin, members[i]));
    return name ? name : "?";
}

static void warn_pin(const json_t *pin)
{
    const char *why = json_member_text(pin, "not_pinned"), *of = json_member_text(pin, "of");
    const char *by = json_member_text(pin, "by");
    if (*why)
        print_warning("not pinned: %s (%s%s%s%s%s)", pin_name(pin), why, *of ? ", set by the " : "",
                      of, *by ? ", for " : "", by);
}

static void warn_mount(const json_t *mount)
{
    const char *source = json_member_text(mount, "source");
    bool read_only = json_is_true(json_object_get(mount, "read_only"));
    print_warning("%s the host's %s", read_only ? "reads" : "writes to", *source ? source : "?");
}

static void warn_finding(const json_t *finding)
{
    const char *id = json_member_text(finding, "id");
    const char *message = json_member_text(finding, "message");
    print_warning("%s: %s", *id ? id : "?", message);
}

static void warn_each(const json_t *obj, const char *key, void (*warn_one)(const json_t *item))
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(obj, key), i, item) warn_one(item);
}

/* Not a finding of the gate's: what a person could overlook in so many lines. */
static void print_unusual(const json_t *subject, const json_t *shown)
{
    const json_t *spec = json_object_get(subject, "spec"), *in = json_object_get(subject, "stdin");
    if (value_hides(subject) || value_hides(shown))
        print_warning(
            "some of the text below has characters that do not show: they are written as \\u....");
    if (json_is_true(json_object_get(in, "open")))
        print_warning("more input may be sent to it while it runs");
    if (json_is_true(json_object_get(subject, "pty")))
        print_warning("it has a terminal");
    if (json_is_true(json_object_get(shown, "not_shown_in_full")))
        print_warning("its input is not shown in full");
    if (json_array_size(json_object_get(subject, "env")) > 0)
        print_warning("it sets variables (env)");
    if (json_is_true(json_object_get(spec, "tool_net")) ||
        json_array_size(json_object_get(spec, "hosts")) > 0)
        print_warning("it reaches the network");
    if (json_array_size(json_object_get(spec, "weaker")) > 0)
        print_warning("its sandbox accepts weaker walls (spec.weaker)");
    warn_each(spec, "mounts", warn_mount);
    warn_each(subject, "pins", warn_pin);
    warn_each(shown, "findings", warn_finding);
}

/* --- all of it */

static void print_image(const json_t *a)
{
    const char *name = json_string_value(json_object_get(a, "image"));
    const char *digest = json_string_value(json_object_get(a, "image_digest"));
    if (!name || !digest)
        return;
    _cleanup_free_ char *text = xasprintf("%s (sha256:%s)", name, digest);
    print_line("image", text);
}

static void print_head(const json_t *a)
{
    const json_t *who = json_object_get(a, "requester");
    print_member("id", a, "id");
    print_member("status", a, "status");
    print_member("reason", a, "reason");
    print_member("risk", a, "risk");
    print_member("why", a, "why");
    print_member("rule", a, "rule");
    print_member("asked by", who, "name");
    print_member("key", who, "key");
    print_member("created", a, "created_at");
    print_member("expires", a, "expires_at");
    print_member("digest", a, "digest");
    print_image(a);
    print_value("confirmed", json_object_get(a, "confirmations"));
    print_value("needed", json_object_get(a, "confirmations_needed"));
}

/* In the order of what decides most; whatever else the subject has follows. */
static const char *const order[] = {"tool",  "argv",  "args",       "cwd",           "env",
                                    "stdin", "pty",   "files",      "pins",          "sandbox",
                                    "spec",  "paths", "timeout_ms", "limit_as_bytes"};

static bool is_ordered(const char *key)
{
    for (size_t i = 0; i < ELEMENTS(order); i++)
        if (strcmp(order[i], key) == 0)
            return true;
    return false;
}

static void print_pins(const json_t *pins)
{
    size_t i;
    json_t *pin;
    json_array_foreach(pins, i, pin)
    {
        const char *hash = json_string_value(json_object_get(pin, "sha256"));
        bool pinned = !json_object_get(pin, "not_pinned");
        _cleanup_free_ char *text =
            xasprintf("%s %s%s%s", pin_name(pin), pinned ? "is pinned" : "is not pinned",
                      hash ? ", sha256:" : "", hash ? hash : "");
        print_line("pin", text);
    }
    if (json_array_size(pins) == 0)
        print_line("pin", "-");
}

static void print_subject(const json_t *subject)
{
    const char *key;
    json_t *value;
    for (size_t i = 0; i < ELEMENTS(order); i++) {
        value = json_object_get(subject, order[i]);
        if (value && strcmp(order[i], "pins") == 0)
            print_pins(value);
        else if (value)
            print_value(order[i], value);
    }
    json_object_foreach((json_t *)subject, key, value)
    {
        if (!is_ordered(key))
            print_value(key, value);
    }
}

static void print_shown(const json_t *shown)
{
    size_t i;
    json_t *item;
    print_member("runtime", shown, "runtime");
    print_value("hosts", json_object_get(shown, "hosts"));
    print_value("obliged", json_object_get(shown, "obligations"));
    print_text("diff", json_string_value(json_object_get(shown, "diff")));
    print_text("stdin", json_string_value(json_object_get(shown, "stdin")));
    json_array_foreach(json_object_get(shown, "files"), i, item)
    {
        _cleanup_free_ char *title = xasprintf("content of %s", json_member_text(item, "path"));
        print_text(title, json_member_text(item, "content"));
    }
}

void approval_print(const json_t *approval)
{
    const json_t *subject = json_object_get(approval, "subject");
    const json_t *shown = json_object_get(approval, "shown");
    print_head(approval);
    print_unusual(subject, shown);
    print_subject(subject);
    print_value("decisions", json_object_get(approval, "decisions"));
    if (shown)
        print_shown(shown);
}
