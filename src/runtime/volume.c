/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/volume.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define BYTES_MAX (1ull << 50)

static const char *const modes[] = {
    [VOLUME_EMPTY] = "emptydir", [VOLUME_HOST] = "hostpath", [VOLUME_CLAIM] = "pvc"};
static_assert(ELEMENTS(modes) == _VOLUME_MODE_MAX, "a word for every mode");
static const char *const accesses[] = {[VOLUME_READ_WRITE_ONCE] = "ReadWriteOnce",
                                       [VOLUME_READ_WRITE_ONCE_POD] = "ReadWriteOncePod",
                                       [VOLUME_READ_WRITE_MANY] = "ReadWriteMany"};
static_assert(ELEMENTS(accesses) == _VOLUME_ACCESS_MAX, "a word for every access");

static int find_word(const char *const *words, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

int volume_mode_parse(const char *word)
{
    return find_word(modes, _VOLUME_MODE_MAX, word);
}

const char *volume_mode_name(enum volume_mode mode)
{
    return modes[mode];
}

int volume_access_parse(const char *word)
{
    return find_word(accesses, _VOLUME_ACCESS_MAX, word);
}

const char *volume_access_name(enum volume_access access)
{
    return accesses[access];
}

int volume_size_parse(const char *text, uint64_t *ret_bytes)
{
    static const struct {
        const char *suffix;
        double unit;
    } units[] = {{"", 1},         {"k", 1e3},         {"M", 1e6},
                 {"G", 1e9},      {"T", 1e12},        {"Ki", 1ull << 10},
                 {"Mi", 1 << 20}, {"Gi", 1ull << 30}, {"Ti", 1ull << 40}};
    size_t digits = strspn(text, "0123456789.");
    char number[32], *end;
    if (!isdigit((unsigned char)*text) || digits >= sizeof(number))
        return -EINVAL;
    memcpy(number, text, digits);
    number[digits] = 0;
    double value = strtod(number, &end);
    for (size_t i = 0; i < ELEMENTS(units) && !*end; i++) {
        if (strcmp(text + digits, units[i].suffix) != 0)
            continue;
        value *= units[i].unit;
        if (value < 1 || value > (double)BYTES_MAX)
            return -ERANGE;
        *ret_bytes = (uint64_t)value;
        return 0;
    }
    return -EINVAL;
}
