/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the bytes of a request head as they come.
 *
 * llhttp's grammar is wider than RFC 9112's in places where two parsers in a row may disagree about
 * where a request ends: it takes a bare LF as an end of line, a space before the first field, and
 * bytes over 0x7f in the target. This scanner takes only what the RFC takes, so that what is left
 * has one meaning: every line ends in CRLF, a field name is a token followed at once by a colon,
 * nothing is folded, and there are no control bytes. A bad byte is refused when it comes, not when
 * the head is complete. */
#include "net/scan.h"

#include <stdbool.h>
#include <string.h>

bool scan_is_token(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

static bool is_value(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static bool is_line(unsigned char c)
{
    return c >= 0x20 && c < 0x7f;
}

/* "METHOD SP target SP HTTP/1.x": tells a version we do not speak (505) from nonsense (400). */
static int check_request_line(const char *line, size_t len)
{
    const char *sp1 = memchr(line, ' ', len);
    if (!sp1 || sp1 == line)
        return 400;
    const char *target = sp1 + 1;
    size_t rest = len - (size_t)(target - line);
    const char *sp2 = memchr(target, ' ', rest);
    if (!sp2) /* HTTP/0.9 */
        return rest ? 505 : 400;
    const char *version = sp2 + 1;
    size_t vlen = len - (size_t)(version - line);
    if (sp2 == target || memchr(version, ' ', vlen))
        return 400;
    if (vlen == 8 && !memcmp(version, "HTTP/1.", 7) && (version[7] == '0' || version[7] == '1'))
        return 0;
    const char *slash = memchr(version, '/', vlen);
    if (!slash || slash == version)
        return 400;
    for (const char *p = version; p < slash; p++)
        if (*p < 'A' || *p > 'Z')
            return 400;
    return 505;
}

/* The next state, or minus a status. */
static int scan_byte(struct scan *s, const char *data, unsigned char c)
{
    switch (s->state) {
    case SCAN_START:
        if (c == '\r')
            return SCAN_START_LF;
        s->start = s->pos;
        return scan_is_token(c) ? SCAN_LINE : -400;
    case SCAN_START_LF:
        return c == '\n' ? SCAN_START : -400;
    case SCAN_LINE:
        if (is_line(c))
            return SCAN_LINE;
        return c == '\r' ? SCAN_LINE_LF : -400;
    case SCAN_LINE_LF: {
        if (c != '\n')
            return -400;
        int status = check_request_line(data + s->start, s->pos - 1 - s->start);
        return status ? -status : SCAN_FIELD;
    }
    case SCAN_FIELD:
        if (c == '\r')
            return SCAN_END_LF;
        return scan_is_token(c) ? SCAN_NAME : -400;
    case SCAN_NAME:
        if (scan_is_token(c))
            return SCAN_NAME;
        return c == ':' ? SCAN_VALUE : -400;
    case SCAN_VALUE:
        if (is_value(c))
            return SCAN_VALUE;
        return c == '\r' ? SCAN_VALUE_LF : -400;
    case SCAN_VALUE_LF:
        return c == '\n' ? SCAN_FIELD : -400;
    case SCAN_END_LF:
        break;
    }
    return -400;
}

ssize_t scan_head(struct scan *s, const char *data, size_t len)
{
    while (s->pos < len) {
        unsigned char c = (unsigned char)data[s->pos];
        if (s->state == SCAN_END_LF && c == '\n')
            return (ssize_t)s->pos + 1;
        /* Most bytes of a head are inside a value or the target. */
        if ((s->state == SCAN_VALUE && is_value(c)) || (s->state == SCAN_LINE && is_line(c))) {
            s->pos++;
            continue;
        }
        int next = scan_byte(s, data, c);
        if (next < 0)
            return next;
        s->state = (enum scan_state)next;
        s->pos++;
    }
    return 0;
}
