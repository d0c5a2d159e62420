/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the attack program share; see attack.c. */
#pragma once

#include <errno.h>

struct attack {
    const char *name, *usage;
    int (*run)(char **args); /* 0: it worked; -errno: refused */
};

/* Tables, ended by a row without a name. */
extern const struct attack attacks_on_calls[];
extern const struct attack attacks_on_files[];
extern const struct attack attacks_on_processes[];
extern const struct attack attacks_on_network[];
extern const struct attack attacks_by_taking[];

/* What a call's answer means for an attack. */
static inline int attack_result(long r)
{
    return r < 0 ? -errno : 0;
}
