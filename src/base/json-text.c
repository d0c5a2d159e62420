/* SPDX-License-Identifier: Apache-2.0 */
/* JSON strings of bytes that may be anything. This is a file of its own because mas-oci, which is
 * root, makes JSON and reads none. */
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"

/* One replacement character for each byte that fits nowhere, so that the length of the damage
 * stays visible and the next valid character is found. */
json_t *json_string_from_bytes(const char *data, size_t len, bool *ret_lossy)
{
    *ret_lossy = false;
    if (utf8_valid_prefix(data, len) == len)
        return json_stringn_nocheck(data, len);
    struct strbuf b = STRBUF_INIT(len * 3);
    while (len) {
        size_t good = utf8_valid_prefix(data, len);
        strbuf_append(&b, data, good);
        data += good;
        len -= good;
        if (len) {
            strbuf_puts(&b, "\xef\xbf\xbd");
            data++;
            len--;
            *ret_lossy = true;
        }
    }
    json_t *s = json_stringn_nocheck(b.data ? b.data : "", b.len);
    strbuf_done(&b);
    return s;
}

json_t *json_message(const char *text)
{
    bool lossy;
    return json_string_from_bytes(text, strlen(text), &lossy);
}

json_t *json_from_words(const char *const *words)
{
    json_t *array = json_array();
    for (; words && *words; words++)
        json_array_append_new(array, json_message(*words));
    return array;
}
