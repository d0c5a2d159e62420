/* What the files of a run share. */
#pragma once

#include <jansson.h>

#include "guard/approval.h"
#include "guard/gate.h"
#include "tool/run.h"

struct sandbox_policy;

#define RUN_PATHS_MAX    300 /* of a call: its own, and those of files written first (FILES_MAX) */
#define RUN_POLICIES_MAX 4   /* that hold for a call: its own, and its sandbox's */

struct run_asking;
struct run_names;
struct run_probe;
struct run_resolve;

struct run {
    const struct run_events *events;
    void *data;
    struct manager *manager;
    struct sandbox *sandbox;  /* referenced; NULL until a one-shot is made */
    struct sandbox *scope_of; /* referenced; NULL without a policy of its own */
    bool one_shot;
    struct sandbox_waiter ready;
    struct exec_waiter done;
    struct exec *exec; /* referenced; the file being written, then the command */
    struct run_file *files;
    size_t n_files, next_file;
    struct exec_spec spec; /* owns what it points to */
    struct exec_path *paths;
    struct exec_sink sink;
    bool command_started;
    bool left; /* nobody waits for it: it must not begin to wait for a person */

    /* the gate's part */
    struct gate *gate;
    struct identity who;
    struct gate_terms terms;
    struct gate_call call; /* owns what it points to; policies are not kept */
    /* Of call.paths, as the caller named them. Behind them, once that is known, the places where
     * they lead, as many again, and those of names in an archive. */
    size_t n_given;
    struct gate_decision decision;
    char *grant;     /* id of the approval that is used, or NULL */
    struct spec box; /* of a one-shot, with the rules' obligations in it */
    bool intent;     /* on record, and the command's own end is not to be */
    struct run_asking *asking;
    struct run_resolve *resolve;
    struct run_names *names;
    bool wants_names;    /* of an archive, before it can be decided on */
    char **file_anchors; /* the directory that each of files is held to; NULL: none */
    struct run_probe *probe;
    json_t *pins;  /* what the probe found, or NULL */
    char *program; /* where argv[0] was found, or NULL */
    json_t *diff;  /* what a write changes, or NULL */
};

/* run-call.c. What the rules look at, from a request: all of it, or ERROR_TOO_LARGE. paths has room
 * for RUN_PATHS_MAX, texts of normalized ones are put into *owned, which the caller frees. */
int run_call_fill(const struct run_request *req, struct gate_call *call, struct rules_path *paths,
                  char ***owned, struct error *err);
/* Copies a call whose argv and cwd are run->spec's. */
void run_call_copy(struct run *run, const struct gate_call *call);
void run_call_done(struct run *run);
/* Narrows the run as the rules that matched oblige, or refuses it on record. */
int run_oblige(struct run *run, struct error *err);

/* run-scope.c. gate_decide() under the policies of the call and of the sandbox (scope; may be
 * NULL), and how many of its calls may run at once. run_scope_enter() narrows the run to that
 * policy and counts it among them. */
int run_scope_decide(const struct run_request *req, const struct sandbox_policy *scope,
                     struct gate_call *call, struct gate_decision *d, struct error *err);
void run_scope_enter(struct run *run, struct sandbox *scope_of);

/* run-ask.c. A person has to decide, or has: starts whatever is needed to find out. */
int run_ask(struct run *run, struct error *err);
void run_ask_cancel(struct run *run);
/* Decides once more on a run whose grant is used: negative when that is not enough by now. */
int run_ask_again(struct run *run, struct error *err);

/* run.c, for run-ask.c: a person has allowed it; grant is the approval used. */
void run_go_on(struct run *run, const char *grant);
void run_fail(struct run *run, const struct error *err);

/* run-paths.c. Fills paths, as run_call_fill(), and tells how many. Paths of a command's files
 * start at workdir, others at cwd; NULL: not known. */
int run_paths_fill(const struct run_request *req, const char *cwd, const char *workdir,
                   struct rules_path *paths, size_t *ret_n, char ***owned, struct error *err);
char run_paths_mode(const struct run *run); /* fs-resolve's; 0: there is nothing to resolve */
/* One of call.paths as the operation will have it; and whether that means all that is below it. */
const char *run_paths_given(const struct run *run, size_t i);
bool run_paths_has_tree(const struct run *run, size_t i);

/* run-resolve.c. Whether call.paths have to be resolved inside the sandbox before the run may go
 * on. run_resolve_start() does it, in one that is READY: done comes later, when the places are
 * among call.paths and the run is held to them. moved: they were known, and something leads
 * elsewhere. */
bool run_resolve_wanted(const struct run *run);
int run_resolve_start(struct run *run,
                      void (*done)(struct run *run, bool moved, const struct error *err),
                      struct error *err);
void run_resolve_cancel(struct run *run);
/* Where a file that comes with the command may be written, once that is known; borrowed. out has
 * room for one more than the run has paths. */
size_t run_resolve_places(const struct run *run, size_t file, struct exec_path *out);

/* run-names.c. Whether it depends on the names in an archive, which is the run's input, what the
 * gate says; run_names_start() adds them to call.paths, then done comes, later. */
bool run_names_wanted(struct run *run);
int run_names_start(struct run *run, void (*done)(struct run *run, const struct error *err),
                    struct error *err);
void run_names_cancel(struct run *run);

/* run-probe.c. False: there is nothing to look up, and done does not come; else it comes later. */
bool run_probe_start(struct run *run, void (*done)(struct run *run));
void run_probe_cancel(struct run *run);
/* run-pins.c */
json_t *run_pins(const struct run *run); /* for the subject; a new reference */
void run_apply_pins(struct run *run);    /* once the grant is used */

/* run-subject.c. New references: all that will run; what helps a person to decide. */
json_t *run_subject(const struct run *run);

/* run-parts.c */
void run_put_parts(const struct gate_call *call, struct json_text *t);
json_t *run_shown(const struct run *run);
