/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in tools of the MAS API, and ours: a table, and one way to call any of them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "identity/identity.h"
#include "policy/policy.h"
#include "sandbox/exec.h"

struct error;
struct member;
struct run_request;
struct tool_call;

/* What a tool's arguments turn into; freed by tool_command_done(). */
struct tool_command {
    char **argv;
    char *stdin_data;
    size_t stdin_len;
    char *host; /* of its URL, for the gate */
    uint16_t port;
    char *file; /* code to be written there first, or NULL */
    char *file_data;
};

enum tool_place {
    TOOL_IN_RUNNER,  /* code of the runner's, answers with a JSON object */
    TOOL_IN_HELPER,  /* mas-tool-net in a helper sandbox, answers with a JSON object */
    TOOL_AS_COMMAND, /* a command; its output is the result */
};

struct tool {
    const char *name;
    unsigned capabilities; /* enum capability */
    enum tool_place place;
    const char *summary;
    /* args is an object, never NULL, and its members have their types: see tool_build(). */
    int (*build)(const json_t *args, struct tool_command *ret, struct error *err);
    const struct member *args; /* that it knows */
};

extern const struct tool tools[];
extern const size_t n_tools;
const struct tool *tool_find(const char *name);
/* What the arguments mean, or why they mean nothing. Also where it fails, *ret is the caller's to
 * give to tool_command_done(). */
int tool_build(const struct tool *tool, const json_t *args, struct tool_command *ret,
               struct error *err);
void tool_command_done(struct tool_command *c);
/* argv (and for a long program a file) that runs code in a language. */
int tool_build_code(const char *language, const char *code, struct tool_command *ret,
                    struct error *err);

struct tool_options {
    struct manager *manager;
    struct gate *gate;
    char *const *mounts_allow;
    const struct spec *default_spec; /* of one-shot sandboxes */
    const char *web_search_endpoint;
    uint64_t max_timeout_ms;
    size_t max_output_bytes; /* of stdout and stderr each in a result */
};

/* Narrows spec by a policy before a sandbox is made from it: memory, environment, and host paths
 * that the operator allows. ERROR_DENIED for a host Workdir that is not. */
int tool_narrow_spec(struct spec *spec, const struct policy *p, char *const *mounts_allow,
                     struct error *err);

struct tool_request {
    const struct gate_terms *terms; /* NULL means the usual ones */
    const struct identity *who;
    const char *name;
    const json_t *args;          /* may be NULL */
    struct sandbox *sandbox;     /* NULL means one-shot */
    const struct policy *policy; /* the call's, or NULL */
};

struct tool_result {
    bool ok;
    json_t *result;          /* may be NULL; borrowed from the call */
    const char *approval_id; /* not NULL: a person has to decide about that first */
    const char *code;        /* the MAS API's: policy_denied, ... where not ok */
    const char *message;
    int exit_code;
    struct exec_usage usage;
    const char *stderr_text; /* may be NULL */
};

/* Whether the tool itself answers that what it was asked for did not succeed: no file of that name,
 * a server that refuses. Clients of the MAS API have that as a result, whose "success" and "error"
 * a model reads, and end the whole run of an agent at an error. */
bool tool_result_is_unsuccessful(const struct tool_result *r);

/* on_done comes exactly once, from inside or later; the call is gone when it returns. Returns the
 * call while it is under way, NULL when on_done has come already. */
struct tool_call *tool_call_start(const struct tool_options *o, const struct tool_request *req,
                                  void (*on_done)(void *data, const struct tool_result *r),
                                  void *data);
bool tool_call_is_waiting(const struct tool_call *call); /* for a person, as run_is_waiting() */
/* The caller does not wait any more. What runs in a lasting sandbox goes on. */
void tool_call_abandon(struct tool_call *call);
