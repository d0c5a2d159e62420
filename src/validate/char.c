/* SPDX-License-Identifier: Apache-2.0 */
/* Code points: which of them do not show, and which show as something else. */
#include <string.h>

#include "base/utf8.h"
#include "validate/internal.h"

#define ELEMENTS_OF(a) (sizeof(a) / sizeof((a)[0]))

static size_t sequence_length(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

int32_t validate_next(const char *text, size_t len, size_t *pos)
{
    const unsigned char *p = (const unsigned char *)text + *pos;
    size_t n = sequence_length(*p);
    if (n == 1) {
        (*pos)++;
        return *p;
    }
    if (n > len - *pos || utf8_valid_prefix(text + *pos, n) != n) {
        (*pos)++;
        return -1;
    }
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    int32_t cp = *p & masks[n];
    for (size_t i = 1; i < n; i++)
        cp = cp << 6 | (p[i] & 0x3f);
    *pos += n;
    return cp;
}

void validate_put(struct strbuf *b, int32_t cp)
{
    unsigned char out[4];
    size_t n = 0;
    if (cp < 0x80) {
        out[n++] = (unsigned char)cp;
    } else if (cp < 0x800) {
        out[n++] = (unsigned char)(0xc0 | cp >> 6);
        out[n++] = (unsigned char)(0x80 | (cp & 0x3f));
    } else if (cp < 0x10000) {
        out[n++] = (unsigned char)(0xe0 | cp >> 12);
        out[n++] = (unsigned char)(0x80 | (cp >> 6 & 0x3f));
        out[n++] = (unsigned char)(0x80 | (cp & 0x3f));
    } else {
        out[n++] = (unsigned char)(0xf0 | cp >> 18);
        out[n++] = (unsigned char)(0x80 | (cp >> 12 & 0x3f));
        out[n++] = (unsigned char)(0x80 | (cp >> 6 & 0x3f));
        out[n++] = (unsigned char)(0x80 | (cp & 0x3f));
    }
    strbuf_append(b, out, n);
}

/* --- what does not show */

/* Controls, and every character that Unicode calls default ignorable. */
static const struct {
    int32_t first, last;
    enum char_class class;
} classes[] = {
    {0x00, 0x08, CHAR_CONTROL},          {0x0b, 0x0c, CHAR_CONTROL},
    {0x0e, 0x1f, CHAR_CONTROL},          {0x7f, 0x9f, CHAR_CONTROL},
    {0xad, 0xad, CHAR_ZERO_WIDTH},       {0x34f, 0x34f, CHAR_ZERO_WIDTH},
    {0x61c, 0x61c, CHAR_BIDI_MARK},      {0x115f, 0x1160, CHAR_ZERO_WIDTH},
    {0x17b4, 0x17b5, CHAR_ZERO_WIDTH},   {0x180b, 0x180f, CHAR_ZERO_WIDTH},
    {0x200b, 0x200b, CHAR_ZERO_WIDTH},   {0x200c, 0x200d, CHAR_JOINER},
    {0x200e, 0x200f, CHAR_BIDI_MARK},    {0x202a, 0x202e, CHAR_BIDI},
    {0x2060, 0x2065, CHAR_ZERO_WIDTH},   {0x2066, 0x2069, CHAR_BIDI},
    {0x206a, 0x206f, CHAR_ZERO_WIDTH},   {0x3164, 0x3164, CHAR_ZERO_WIDTH},
    {0xfe00, 0xfe0f, CHAR_VARIATION},    {0xfeff, 0xfeff, CHAR_ZERO_WIDTH},
    {0xffa0, 0xffa0, CHAR_ZERO_WIDTH},   {0xfff0, 0xfffb, CHAR_ZERO_WIDTH},
    {0x1bca0, 0x1bca3, CHAR_ZERO_WIDTH}, {0x1d173, 0x1d17a, CHAR_ZERO_WIDTH},
    {0xe0000, 0xe007f, CHAR_TAG},        {0xe0080, 0xe00ff, CHAR_ZERO_WIDTH},
    {0xe0100, 0xe01ef, CHAR_VARIATION},  {0xe01f0, 0xe0fff, CHAR_ZERO_WIDTH},
};

enum char_class validate_class(int32_t cp)
{
    if (cp < 0)
        return CHAR_INVALID;
    if (cp >= ' ' && cp < 0x7f)
        return CHAR_PLAIN;
    for (size_t i = 0; i < ELEMENTS_OF(classes) && classes[i].first <= cp; i++)
        if (cp <= classes[i].last)
            return classes[i].class;
    return CHAR_PLAIN;
}

/* What a reader cannot tell from a space, from nothing or from its neighbours, although text may
 * need it: spaces that are not U+0020, separators of lines and paragraphs, the empty pattern of
 * Braille, marks that format other scripts, characters whose look only the font knows. */
static const struct {
    int32_t first, last;
} doubtful[] = {
    {0xa0, 0xa0},       {0x600, 0x605},     {0x6dd, 0x6dd},      {0x70f, 0x70f},
    {0x890, 0x891},     {0x8e2, 0x8e2},     {0x1680, 0x1680},    {0x2000, 0x200a},
    {0x2028, 0x2029},   {0x202f, 0x202f},   {0x205f, 0x205f},    {0x2800, 0x2800},
    {0x3000, 0x3000},   {0xe000, 0xf8ff},   {0xfdd0, 0xfdef},    {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0xf0000, 0x10ffff},
};

bool validate_shows(int32_t cp)
{
    if (cp < ' ' || validate_class(cp) != CHAR_PLAIN)
        return false;
    for (size_t i = 0; i < ELEMENTS_OF(doubtful) && doubtful[i].first <= cp; i++)
        if (cp <= doubtful[i].last)
            return false;
    return (cp & 0xfffe) != 0xfffe; /* the last two of each plane are no characters */
}

/* --- what shows as ASCII */

/* U+00C0 to U+017F without their marks. */
static const char latin[] = "aaaaaaaceeeeiiiidnoooooxouuuuytsaaaaaaaceeeeiiiidnooooo/ouuuuyty"
                            "aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkk"
                            "llllllllllnnnnnnnnnoooooooorrrrrrsssssssstttttt"
                            "uuuuuuuuuuuuwwyyyzzzzzzs";
_Static_assert(sizeof(latin) - 1 == 0x180 - 0xc0, "a letter for each");

static int32_t fold_sign(int32_t cp)
{
    static const struct {
        int32_t first, last, to;
    } signs[] = {
        {0xa0, 0xa0, ' '},      {0x1680, 0x1680, ' '}, {0x2000, 0x200a, ' '}, {0x2010, 0x2015, '-'},
        {0x2018, 0x201b, '\''}, {0x201c, 0x201f, '"'}, {0x2024, 0x2024, '.'}, {0x202f, 0x202f, ' '},
        {0x2032, 0x2032, '\''}, {0x2044, 0x2044, '/'}, {0x205f, 0x205f, ' '}, {0x2212, 0x2212, '-'},
        {0x2215, 0x2215, '/'},  {0x2223, 0x2223, '|'}, {0x3000, 0x3000, ' '},
    };
    for (size_t i = 0; i < ELEMENTS_OF(signs); i++)
        if (cp >= signs[i].first && cp <= signs[i].last)
            return signs[i].to;
    return cp;
}

/* Letters and digits that exist again in other shapes: bold, circled, wide. */
static int32_t fold_shape(int32_t cp)
{
    if (cp >= 0xff01 && cp <= 0xff5e)
        return cp - 0xff01 + '!';
    if (cp >= 0x1d400 && cp <= 0x1d6a3)
        return 'a' + (cp - 0x1d400) % 52 % 26;
    if (cp >= 0x1d7ce && cp <= 0x1d7ff)
        return '0' + (cp - 0x1d7ce) % 10;
    if (cp >= 0x24b6 && cp <= 0x24e9)
        return 'a' + (cp - 0x24b6) % 26;
    if (cp >= 0x249c && cp <= 0x24b5)
        return 'a' + (cp - 0x249c);
    if (cp >= 0x1f130 && cp <= 0x1f149)
        return 'a' + (cp - 0x1f130);
    return cp;
}

int32_t validate_fold(int32_t cp)
{
    if (cp >= 0 && cp < 0x80)
        return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    if (cp >= 0xc0 && cp <= 0x17f)
        return latin[cp - 0xc0];
    if (cp >= 0x300 && cp <= 0x36f)
        return -1; /* marks on the letter before */
    if ((cp >= 0x391 && cp <= 0x3a9) || (cp >= 0x410 && cp <= 0x42f))
        return cp + 32; /* capitals of Greek and Cyrillic */
    cp = fold_sign(fold_shape(cp));
    return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
}

char validate_look_alike(int32_t cp)
{
    static const struct {
        int32_t cp;
        char to;
    } table[] = {
        {0x391, 'a'}, {0x392, 'b'}, {0x395, 'e'}, {0x396, 'z'}, {0x397, 'h'}, {0x399, 'i'},
        {0x39a, 'k'}, {0x39c, 'm'}, {0x39d, 'n'}, {0x39f, 'o'}, {0x3a1, 'p'}, {0x3a4, 't'},
        {0x3a5, 'y'}, {0x3a7, 'x'}, {0x3b1, 'a'}, {0x3b5, 'e'}, {0x3b9, 'i'}, {0x3ba, 'k'},
        {0x3bd, 'v'}, {0x3bf, 'o'}, {0x3c1, 'p'}, {0x3c4, 't'}, {0x3c5, 'u'}, {0x3c7, 'x'},
        {0x405, 's'}, {0x406, 'i'}, {0x408, 'j'}, {0x410, 'a'}, {0x412, 'b'}, {0x415, 'e'},
        {0x41a, 'k'}, {0x41c, 'm'}, {0x41d, 'h'}, {0x41e, 'o'}, {0x420, 'p'}, {0x421, 'c'},
        {0x422, 't'}, {0x423, 'y'}, {0x425, 'x'}, {0x430, 'a'}, {0x432, 'b'}, {0x435, 'e'},
        {0x43a, 'k'}, {0x43c, 'm'}, {0x43d, 'h'}, {0x43e, 'o'}, {0x440, 'p'}, {0x441, 'c'},
        {0x442, 't'}, {0x443, 'y'}, {0x445, 'x'}, {0x455, 's'}, {0x456, 'i'}, {0x458, 'j'},
        {0x501, 'd'}, {0x51b, 'q'}, {0x51d, 'w'}, {0x261, 'g'}, {0x131, 'i'}, {0x251, 'a'},
    };
    for (size_t i = 0; cp >= 0x80 && i < ELEMENTS_OF(table); i++)
        if (table[i].cp == cp)
            return table[i].to;
    return 0;
}
