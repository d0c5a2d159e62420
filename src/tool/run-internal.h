/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a run share. */
#pragma once

#include <jansson.h>

#include "guard/approval.h"
#include "guard/gate.h"
#include "tool/image-find.h"
#include "tool/run.h"

struct sandbox_policy;
struct shell_conventions;
struct weak;

#define RUN_PATHS_MAX    300 /* of a call: its own, and those of files written first (FILES_MAX) */
#define RUN_POLICIES_MAX 4   /* that hold for a call: its own, and its sandbox's */

/* What a look into the sandbox found before a person is asked (run-probe.c). */
struct run_probed {
    json_t *pins;  /* files that would run, or NULL */
    json_t *named; /* files that the command finds by their names, or NULL: not looked for */
    bool more;     /* there are more of these than the runner has said */
    bool plain;    /* not looked for, because the look with them had failed */
    char *program; /* where argv[0] was found, or NULL */
    json_t *diff;  /* what a write changes, or NULL */
};

struct run {
    const struct run_events *events;
    void *data;
    struct manager *manager;
    struct gate *gate;
    struct images *images;
    enum run_phase phase;
    bool one_shot;
    bool left; /* its caller has left: it must not begin to wait for a person */

    /* What a phase waits for, one of them at a time. */
    struct image_find image;
    struct sandbox_waiter ready;
    struct exec_waiter ended;
    struct exec *exec; /* referenced: the one of this phase */
    struct approval_watch watch;
    struct weak *weak; /* for answers of the approvals */

    /* What runs, and where. */
    struct sandbox *sandbox;  /* referenced; NULL until a one-shot is made */
    struct sandbox *scope_of; /* referenced; NULL without a policy of its own */
    struct spec box;          /* of a one-shot, with the rules' obligations in it */
    struct run_file *files;
    size_t n_files, next_file;
    char **file_anchors;   /* the directory that each of files is held to; NULL if there is none */
    struct exec_spec spec; /* owns what it points to */
    struct exec_path *paths;
    char **hosts; /* of spec.hosts or spec.bound; NULL: the network of its sandbox suits it */
    struct exec_sink sink;

    /* What the gate sees and says. */
    struct identity who;
    struct gate_terms terms; /* owns what it points to; approval_id: of the grant to be used */
    struct gate_call call;   /* owns what it points to; policies are not kept */
    /* Of call.paths, as the caller named them. Behind them, once that is known, the places where
     * they lead, as many again, and those of names in an archive. */
    size_t n_given;
    struct gate_decision decision;
    char *grant; /* id of the approval that is used, or NULL */
    struct run_probed probed;
};

/* --- the phases. An enter function starts what its phase waits for and returns the phase itself;
 * or, with nothing to wait for, the one to go on with, which is run_next() as a rule. A leave
 * function is called when what was waited for is there, and returns the phase to go on with. Both
 * return a negative number with err set where the run fails. A cancel function ends the wait. */

static inline int run_next(const struct run *run)
{
    return (int)run->phase + 1;
}

/* run.c. For whatever ends a wait: what was waited for is there, or failed. The run may be gone
 * afterwards. run_go_on() is the same for a phase that says itself where to go on. */
void run_resume(struct run *run, const struct error *failed);
void run_go_on(struct run *run, enum run_phase phase);
void run_fail(struct run *run, const struct error *err);
/* Starts an exec for the run's phase to wait for: true when it is under way. */
bool run_wait_exec(struct run *run, const struct exec_spec *spec, struct error *err);
void run_cancel_exec(struct run *run);

/* run-gate.c. What the rules look at, from a request: what is known at once, and the rest when the
 * image is. ERROR_TOO_LARGE where that is not all of it. */
void run_call_init(struct run *run, const struct run_request *req);
int run_call_fill(struct run *run, struct error *err);
void run_call_done(struct run *run);
int run_decide_enter(struct run *run, struct error *err);
/* Decides, and narrows the run as the rules that matched oblige. For a leave function: returns
 * run_next(), or RUN_BOX. */
int run_decide(struct run *run, struct error *err);
/* The same after the intent: nothing has happened that makes the decision another one. Returns
 * run_next(). */
int run_confirm(struct run *run, struct error *err);

/* run-scope.c. Begins the call at the gate, under the policies that were given with it and that of
 * its sandbox (may be NULL), and checks how many calls the latter lets run at once.
 * run_scope_enter() narrows the run to the sandbox's policy and counts it among those calls. */
int run_scope_begin(struct run *run, const struct gate_call *given,
                    const struct sandbox_policy *scope, struct error *err);
void run_scope_enter(struct run *run, struct sandbox *scope_of);
void run_scope_end(struct run *run);

/* run-box.c. The sandbox that a run is in. */
int run_box_enter(struct run *run, struct error *err);
int run_create_enter(struct run *run, struct error *err);
/* True: it is being created, and the run's phase waits for that. */
bool run_wait_ready(struct run *run);
void run_cancel_ready(struct run *run);
/* Of a one-shot that was made to look into, and in which nothing has been written. */
void run_drop_box(struct run *run);
/* At the end of the run: a one-shot is deleted, now or a little later. */
void run_end_box(struct run *run);

/* run-paths.c. Makes call.paths of what the caller gave. Paths of a command's files start at
 * workdir, others at call.cwd; NULL if it is not known. */
int run_paths_fill(struct run *run, const char *workdir, struct error *err);
char run_paths_mode(const struct run *run); /* fs-resolve's; 0 if there is nothing to resolve */
/* One of call.paths as the operation will have it; and whether that means all that is below it. */
const char *run_paths_given(const struct run *run, size_t i);
bool run_paths_has_tree(const struct run *run, size_t i);

/* run-resolve.c. */
bool run_resolve_wanted(const struct run *run);
int run_resolve_enter(struct run *run, struct error *err);
int run_resolve_leave(struct run *run, struct error *err);
/* Where a file that comes with the command may be written, once that is known; borrowed. out has
 * room for one more than the run has paths. */
size_t run_resolve_places(const struct run *run, size_t file, struct exec_path *out);

/* run-names.c */
int run_input_enter(struct run *run, struct error *err);
int run_names_enter(struct run *run, struct error *err);
int run_names_leave(struct run *run, struct error *err);

/* run-probe.c */
int run_probe_enter(struct run *run, struct error *err);
int run_probe_leave(struct run *run, struct error *err);
void run_probe_cancel(struct run *run);
void run_probed_done(struct run_probed *p);
/* run-pins.c */
json_t *run_pins(const struct run *run); /* for the subject; a new reference */
/* Which files the command finds by itself. Free with shell_conventions_done(). */
void run_conventions(const struct run *run, struct shell_conventions *ret);
void run_apply_pins(struct run *run); /* once the grant is used */

/* run-ask.c */
bool run_ask_wanted(const struct run *run); /* a person has to decide, or has */
int run_ask_enter(struct run *run, struct error *err);
void run_ask_cancel(struct run *run);
/* Whether the grant that is used is still enough for the decision. */
int run_ask_check(struct run *run, struct error *err);
/* Decides once more on a run whose grant is used, when it was looked where its paths lead. */
int run_ask_confirm(struct run *run, bool moved, struct error *err);

/* run-command.c */
int run_intent_enter(struct run *run, struct error *err);
/* For an intent that no exec will end; without one that is open nothing happens. */
void run_intent_end(struct run *run, const char *outcome, const char *why);
int run_files_enter(struct run *run, struct error *err);
int run_files_leave(struct run *run, struct error *err);
int run_command_enter(struct run *run, struct error *err);

/* run-subject.c. New references: all that will run; what helps a person to decide. */
json_t *run_subject(const struct run *run);

/* run-parts.c */
void run_put_parts(const struct gate_call *call, struct json_text *t);
json_t *run_shown(const struct run *run);
