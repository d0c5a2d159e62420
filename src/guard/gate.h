/* SPDX-License-Identifier: Apache-2.0 */
/* The one gate. Every way in (HTTP, line protocol, MCP, CLI through them) that makes anything run
 * ends in run_start() (tool/run.c), which asks here, in this order. Two more ask, where nothing
 * runs that does not run already: gate-port.c asks the first three about ports, and
 * tool/network-change.c about what widens the network of a sandbox.
 *
 *   1. request policies   the sandbox's and the call's own; they only narrow
 *   2. checks             named steps (check.h) that yield findings
 *   3. the ruleset        the operator's policy file: allow, ask or deny, with obligations
 *   4. approval           for ask: a grant over the hash of all that will run (approval.h)
 *   5. intent             the audit record without which nothing runs
 *
 * A refusal is a record too. What started and how it ended is noted by gate_note_*(). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "audit/audit.h"
#include "guard/approval.h"
#include "guard/check.h"
#include "identity/identity.h"
#include "policy/rules.h"

struct approvals;
struct error;
struct event_journal;
struct gate;
struct keys;
struct policy;
struct ruleset;
struct store;

/* How a call wants to be treated by the gate. Borrowed; zero is the usual way. */
struct gate_terms {
    const char *approval_id; /* X-Mas-Approval-Id: what was granted for this very call */
    const char *action_id; /* the actions API's action that this call is; an approval gets its id */
    bool wait;             /* X-Mas-Approval: wait; else the answer is "pending" */
    bool ask;              /* a person is asked even where the policy allows */
    enum risk ask_risk;    /* and the least risk of that */
};

/* All that will run, as far as the rules look at it. Borrowed. */
struct json_text;

struct gate_call {
    const char *tool;      /* "exec", "file.read", or a tool's name */
    unsigned capabilities; /* enum capability */
    const json_t *args;    /* of a tool, or NULL */
    const char *host;      /* of a URL tool, as its URL writes it; NULL otherwise */
    uint16_t port;
    const struct policy *const *policies; /* the sandbox's, then the call's: each must allow */
    size_t n_policies;
    const struct rules_path *paths; /* that a file operation names */
    size_t n_paths;
    /* filled in by run_start() */
    const struct identity *who;
    const struct gate_terms *terms;
    char *const *argv;
    bool builtin; /* argv is code of ours, not a command */
    const char *cwd;
    char *const *env, *const *sandbox_env, *const *image_env;
    const char *runtime;
    char *const *image_names; /* of rules_call */
    const char *image_digest;
    struct rules_limits limits;
    const char *sandbox; /* its id; NULL: a one-shot */
    /* What an intent says of it beyond that, into its details; NULL: nothing. */
    void (*put_parts)(const struct gate_call *call, struct json_text *t);
};

struct gate_decision {
    struct rules_decision rules;
    struct findings findings;
    char call_id[AUDIT_CALL_ID_SIZE];
    struct ruleset *ruleset; /* that decided, referenced; NULL if none is configured */
    int64_t at_s;            /* when, in real time */
};
void gate_decision_done(struct gate_decision *d);

struct gate_options {
    uv_loop_t *loop;
    struct store *store; /* NULL if approvals end with the process */
    struct keys *keys;   /* NULL if there are none; outlives the gate's use */
    struct audit *audit;
    struct event_journal *events; /* NULL if changes are not published */
    struct approvals_config approvals;
    char *const *env; /* KEY=VALUE that the operator gives every sandbox; outlives the gate */
};

struct gate *gate_new(const struct gate_options *o, struct error *err);
void gate_free(struct gate *g); /* after the loop; NULL is fine */
struct approvals *gate_approvals(const struct gate *g);
struct audit *gate_audit(const struct gate *g);
struct event_journal *gate_events(const struct gate *g); /* or NULL */

/* --- the policy (gate-policy.c) */

bool gate_has_policy(const struct gate *g);
const char *gate_revision(const struct gate *g);              /* "" without a policy */
bool gate_names_rule(const struct gate *g, const char *rule); /* ruleset_names() of the policy */
/* Parses text and makes it the policy, all at once: grants over another revision are void from then
 * on. On failure the old one stays, and err and the audit say so. who (NULL: the daemon itself) is
 * for the audit. 1: changed, 0: the same as before. */
int gate_load_policy(struct gate *g, const char *name, const char *text, size_t len,
                     const struct identity *who, struct error *err);
/* {"file","revision","loaded_at","error"?} for /v1/status; null without a policy. */
json_t *gate_policy_view(const struct gate *g);

/* --- a call */

/* What a sandbox's caller set beyond what the operator gives every sandbox, and what its image
 * sets: where an image's own programs are is no news. Borrowed strings in a list to be freed. */
char **gate_asked_env(const struct gate *g, char *const *env, char *const *image_env);

/* Step 1, and the call's id. Negative: denied, recorded, ERROR_DENIED. d is the caller's to end in
 * both cases. */
int gate_begin(struct gate *g, const struct gate_call *call, struct gate_decision *d,
               struct error *err);
/* Steps 2 and 3, with the policy, the hours and the findings of this moment, and whether the key
 * lives. At first, and again whenever the call has waited or more is known of it (where its paths
 * lead, what is in an archive). 0: look at d->rules.verdict, allow or ask. Negative: denied,
 * recorded, ERROR_DENIED with the rule. The call keeps its id; what only asks again is not recorded
 * again. *d is another decision in both cases. */
int gate_decide(struct gate *g, const struct gate_call *call, struct gate_decision *d,
                struct error *err);
/* After a wait in which nothing new was learned of the call, when what d says is on record or done
 * already: negative where the key has ended, or where another policy or another hour has
 * another verdict or other obligations. Costs next to nothing within a minute. */
int gate_confirm(struct gate *g, const struct gate_call *call, struct gate_decision *d,
                 struct error *err);
/* Whether the rules have the same verdict and obligations for call as d says. No effect, no record.
 */
bool gate_agrees(struct gate *g, const struct gate_call *call, const struct gate_decision *d);
/* Whether a rule denies an image by itself (gate-image.c), or the key has ended: recorded,
 * ERROR_DENIED with the rule. names and digest are rules_call's; digest may be NULL while it is
 * not known. */
#define GATE_IMAGE "image" /* the tool's name in that decision */
int gate_check_image(struct gate *g, const struct identity *who, char *const *names,
                     const char *digest, struct error *err);
/* Whether the rules let a sandbox have a network to these hosts (gateway/rule.h), each of them:
 * a refusal is recorded, ERROR_DENIED with the rule. */
#define GATE_NETWORK "network" /* the tool's name in that decision */
int gate_check_network(struct gate *g, const struct identity *who, const char *runtime,
                       char *const *hosts, struct error *err);
/* Who owns a sandbox, with the roles of this moment. */
struct identity gate_owner(const struct gate *g, const char *owner);
/* The hosts that rules of this moment deny to what a sandbox of the key `owner` connects to, also
 * by the addresses that its names lead to. tool: GATE_NETWORK, or GATE_URL for what is not known
 * further. The caller frees with strv_free(). */
#define GATE_URL "url"
char **gate_denied_hosts(const struct gate *g, const char *owner, const char *runtime,
                         const char *tool);
/* Whether a port of a sandbox may be reached (GATE_PORT), or a token for its ports be made
 * (GATE_PORT_TOKEN): about has the tool, who asks, the sandbox with its runtime, image and limits,
 * and its own policy. A refusal is recorded, ERROR_DENIED with the rule. */
#define GATE_PORT       "port"
#define GATE_PORT_TOKEN "port.token"
int gate_check_port(struct gate *g, const struct gate_call *about, struct error *err);
/* A refusal for a reason found after gate_begin(); sets ERROR_DENIED unless err is set already. */
int gate_refuse(struct gate *g, const struct gate_call *call, struct gate_decision *d,
                const char *rule, const char *reason, struct error *err);
/* Step 5. Negative: the call must not run. grant: the approval's id, or NULL. */
int gate_intent(struct gate *g, const struct gate_call *call, const struct gate_decision *d,
                const char *grant, struct error *err);
/* Afterwards, for a call with an intent: it runs; it ended, or never began. details is a JSON
 * object as text, or NULL. */
void gate_note_started(struct gate *g, const char *call_id, const char *sandbox, const char *exec,
                       const char *outcome, const char *details);
void gate_note_ended(struct gate *g, const char *call_id, const char *sandbox, const char *exec,
                     const char *outcome, const char *details);
/* Any other record of kind, about an action. A record that cannot be written is an error. */
int gate_record(struct gate *g, const char *kind, const struct identity *who, const char *action_id,
                const char *tool, const char *outcome, json_t *details, struct error *err);
