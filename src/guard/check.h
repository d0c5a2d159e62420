/* Named steps between validation and the policy, each of which may find something. What they find
 * feeds the policy (rules match on findings) and is shown to whoever is asked; none of them decides
 * by itself. The order is that of the table and is written into the audit with every decision. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "guard/rules.h"

struct gate_call;

#define CHECK_FINDINGS_MAX 16
/* Stands for everything that may be in the part nobody looked at: rules that ask or deny because of
 * any finding of its check match it. */
#define FINDING_NOT_FULLY_CHECKED "not_fully_checked"

struct finding {
    const char *check; /* the name of its row */
    const char *id;    /* what was found, as rules name it: "prompt_injection", ... */
    enum risk severity;
    char message[200];
};

struct findings {
    struct finding list[CHECK_FINDINGS_MAX];
    size_t n;
};

struct check {
    const char *name;
    /* Appends to f; has no effect beyond it and no unbounded cost. */
    void (*run)(const struct gate_call *call, struct findings *f);
};

extern const struct check checks[];
extern const size_t n_checks;

/* Runs all of them in order. */
void checks_run(const struct gate_call *call, struct findings *ret);
/* For a check: past CHECK_FINDINGS_MAX the last one says that there are more. */
void finding_add(struct findings *f, const char *check, const char *id, enum risk severity,
                 const char *message);
json_t *findings_to_json(const struct findings *f);
