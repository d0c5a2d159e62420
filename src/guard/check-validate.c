/* SPDX-License-Identifier: Apache-2.0 */
/* The check `validate`: texts of a call (a tool's arguments, a command's words) as validation sees
 * them. A finding is named by its category, so that a rule can say `finding: [tool_hijacking]`; it
 * holds none of the text, because findings go to the audit. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "guard/check-internal.h"
#include "guard/gate.h"
#include "validate/validate.h"

#define PART_MAX   (8 * 1024) /* of a call's text at each end: it is looked at on the loop */
#define TIMEOUT_MS 50         /* of each part */
#define DEPTH_MAX  16
#define GATHER_MAX (16u << 20) /* more than any request may hold */

static void add_text(struct strbuf *b, bool *whole, const char *text, size_t len)
{
    *whole = strbuf_append(b, text, len) >= 0 && strbuf_append(b, "\n", 1) >= 0 && *whole;
}

static void add_json(struct strbuf *b, bool *whole, const json_t *value, int depth)
{
    size_t i;
    const char *key;
    json_t *item;
    if (depth > DEPTH_MAX) {
        *whole = false;
    } else if (json_is_string(value)) {
        add_text(b, whole, json_string_value(value), json_string_length(value));
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, item) add_json(b, whole, item, depth + 1);
    } else if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, item) add_json(b, whole, item, depth + 1);
    }
}

static void add_words(struct strbuf *b, bool *whole, char *const *argv)
{
    for (; argv && *argv; argv++)
        add_text(b, whole, *argv, strlen(*argv));
}

static enum risk risk_of(enum threat t)
{
    static const enum risk risks[] = {RISK_LOW, RISK_LOW, RISK_MEDIUM, RISK_HIGH, RISK_CRITICAL};
    _Static_assert(ELEMENTS(risks) == _THREAT_MAX, "a risk each");
    return risks[t];
}

/* One finding per category, which is the worst match. */
static void add_findings(const struct validation *v, struct findings *f)
{
    for (int c = 0; c < _VALIDATE_CATEGORY_MAX; c++) {
        const struct validate_match *worst = NULL;
        for (size_t i = 0; i < v->n_matches; i++) {
            const struct validate_match *m = &v->matches[i];
            if ((int)m->category == c && m->threat > (worst ? worst->threat : THREAT_LOW))
                worst = m;
        }
        char message[160];
        if (!worst)
            continue;
        snprintf(message, sizeof(message), "%s: %s", worst->id, worst->message);
        finding_add(f, "validate", validate_category_name(worst->category), risk_of(worst->threat),
                    message);
    }
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static void look_at(const char *text, size_t len, bool *whole, struct findings *f)
{
    const struct validate_limits limits = {len, TIMEOUT_MS};
    struct validation v;
    validate_text(text, len, &limits, &v);
    add_findings(&v, f);
    *whole = *whole && v.complete;
    validation_done(&v);
}

/* Of a text that is too long the beginning and the end are checked, so that padding on either side
 * hides nothing there, and a finding says that the rest was not. */
static void look_at_ends(const struct strbuf *text, struct findings *f)
{
    size_t head = PART_MAX, tail = text->len - PART_MAX;
    bool whole = true;
    while (head && is_continuation(text->data[head]))
        head--;
    while (tail < text->len && is_continuation(text->data[tail]))
        tail++;
    look_at(text->data, head, &whole, f);
    look_at(text->data + tail, text->len - tail, &whole, f);
}

void check_validate(const struct gate_call *call, struct findings *f)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(GATHER_MAX);
    bool whole = true;
    if (call->args)
        add_json(&text, &whole, call->args, 0);
    else if (!call->builtin)
        add_words(&text, &whole, call->argv);
    if (text.len > 2 * PART_MAX) {
        look_at_ends(&text, f);
        whole = false;
    } else if (text.len) {
        look_at(text.data, text.len, &whole, f);
    }
    if (!whole)
        finding_add(f, "validate", FINDING_NOT_FULLY_CHECKED, RISK_HIGH,
                    "there is more text than is looked at, or it took too long");
}
