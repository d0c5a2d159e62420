/* SPDX-License-Identifier: Apache-2.0 */
#include "toolnet/args.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "toolnet/toolnet.h"

static int parse_timeout(const json_t *value, int64_t *ret_ms)
{
    if (json_is_number(value)) {
        double s = json_number_value(value);
        if (!(s >= 0 && s < 1e9))
            return -1;
        *ret_ms = (int64_t)ceil(s * 1000);
        return 0;
    }
    const char *text = json_string_value(value);
    if (!text || !*text)
        return -1;
    _cleanup_free_ char *with_unit =
        xasprintf("%s%s", text, strspn(text, "0123456789.") == strlen(text) ? "s" : "");
    int64_t ns;
    if (clock_parse_duration(with_unit, &ns) < 0 || ns < 0)
        return -1;
    *ret_ms = ns / 1000000 + (ns % 1000000 != 0);
    return 0;
}

int args_timeout(const struct toolnet *net, const json_t *args, int64_t *ret_ms, struct error *err)
{
    int64_t ms = 0;
    const json_t *value = json_object_get(args, "timeout");
    if (value && !json_is_null(value) && parse_timeout(value, &ms) < 0)
        return error_field(err, "timeout", "'timeout' must be seconds or a duration like \"30s\"");
    if (ms == 0)
        ms = TOOLNET_TIMEOUT_MS;
    *ret_ms = ms < net->max_timeout_ms ? ms : net->max_timeout_ms;
    return 0;
}

int args_string(const json_t *args, const char *key, const char **ret, struct error *err)
{
    int r = json_member_string(args, key, ret, err);
    if (r < 0)
        return r;
    return r > 0 && **ret ? 0 : error_field(err, key, "'%s' is required", key);
}
