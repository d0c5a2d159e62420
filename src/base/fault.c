/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME_SIZE 64

const char *fault_armed;

static char armed_name[NAME_SIZE];
static atomic_int passes_left;

void fault_arm(const char *text, uint64_t generation)
{
    for (; text && *text; text += strcspn(text, ","), text += *text == ',') {
        char name[NAME_SIZE];
        int count = 1;
        unsigned long long of = 1;
        if (sscanf(text, "%63[^:,]:%d:%llu", name, &count, &of) < 1 || of != generation)
            continue;
        snprintf(armed_name, sizeof(armed_name), "%s", name);
        atomic_store(&passes_left, count);
        fault_armed = armed_name;
        return;
    }
}

void fault_hit(const char *name)
{
    if (strcmp(name, fault_armed) == 0 && atomic_fetch_sub(&passes_left, 1) == 1)
        kill(getpid(), SIGKILL);
}
