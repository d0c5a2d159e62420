/* The one gate. Every way in (HTTP, line protocol, CLI through them) that makes anything run ends
 * in gate_check(), which is called by run_start() and by nothing around it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct identity;
struct policy;

/* All that will run, as far as it is known before it does. */
struct gate_call {
    const struct identity *who;
    const char *tool;      /* "exec", "file.read", or a tool's name */
    unsigned capabilities; /* enum capability */
    char *const *argv;
    const char *host; /* of a URL tool, as its URL writes it; NULL otherwise */
    uint16_t port;
    const struct policy *const *policies; /* the sandbox's, then the call's: each must allow */
    size_t n_policies;
};

/* 0, or ERROR_DENIED with the reason. */
int gate_check(const struct gate_call *call, struct error *err);
