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
    int count = 1;
    unsigned long long of = 1;
    if (!text || sscanf(text, "%63[^:]:%d:%llu", armed_name, &count, &of) < 1 || of != generation)
        return;
    atomic_store(&passes_left, count);
    fault_armed = armed_name;
}

void fault_hit(const char *name)
{
    if (strcmp(name, fault_armed) == 0 && atomic_fetch_sub(&passes_left, 1) == 1)
        kill(getpid(), SIGKILL);
}
