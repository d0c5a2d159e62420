/* SPDX-License-Identifier: Apache-2.0 */
#include "api/signal-name.h"

#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

int signal_parse(const json_t *value, int *ret, struct error *err)
{
    if (json_is_integer(value) && json_integer_value(value) > 0 && json_integer_value(value) < 65) {
        *ret = (int)json_integer_value(value);
        return 0;
    }
    const char *name = json_string_value(value);
    if (name && strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (int s = 1; name && s < NSIG; s++) {
        const char *known = sigabbrev_np(s);
        if (known && strcasecmp(known, name) == 0) {
            *ret = s;
            return 0;
        }
    }
    return error_field(err, "signal", "'signal' must be a name such as \"TERM\" or a number");
}
