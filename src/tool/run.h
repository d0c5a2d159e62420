/* SPDX-License-Identifier: Apache-2.0 */
/* One thing that runs: in a sandbox that is there, or in one made for it and thrown away.
 *
 * This is the only way to start an exec from above: the gate (guard/gate.h) is passed here, and
 * what a lasting sandbox's own policy says (tools, paths, time, how many at once) holds for every
 * caller.
 *
 * A run is in exactly one phase (enum run_phase), and each phase waits for one thing at most. The
 * phases come in the order of the enum; most calls have nothing to do in most of them and pass
 * through without waiting. Only run_step() (run.c) enters a phase, by the table of phases there.
 *
 * Where a person has to decide, the run waits in RUN_ASK. With terms.wait it goes on once that has
 * happened; else it ends with ERROR_PENDING, and the caller repeats the same call with the
 * approval's id. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "guard/gate.h"
#include "sandbox/exec.h"

struct approval;
struct error;
struct images;
struct run;

/* What a run waits for in each phase, what ends the wait, and whether the gate is asked again then.
 *
 *  phase    waits for                       until                        asked again
 *  IMAGE    what its image is               it is found or fetched       in DECIDE
 *  DECIDE   nothing                         -                            for the first time
 *  BOX      the sandbox, to look into it    it is READY                  in RESOLVE
 *  RESOLVE  where its paths lead            the runner has answered      always
 *  INPUT    the rest of its input           run_set_input()              always
 *  NAMES    what is in an archive           the runner has answered      always
 *  PROBE    what the command would run      the runner has answered      in ASK
 *  ASK      a person, and then the record   a grant is used              before and after
 *           that the grant is used
 *  INTENT   nothing: the intent is put      -                            -
 *           on record here
 *  CREATE   the sandbox, to run in it       it is READY                  if anything has changed
 *  FILES    a file that is written          the runner has answered      if anything has changed
 *  COMMAND  the command                     it has ended                 -
 *
 * A run leaves a phase for the next one. It goes back from ASK to PROBE when a person has said yes,
 * from ASK to BOX when the grant is used, and from each decision to BOX where a one-shot that was
 * made to look into is larger than the rules allow by then.
 *
 * Cancels. When the client has gone, the front end calls run_abandon() or run_leave().
 * run_abandon() ends the run in every phase: it stops the wait (in IMAGE the fetch too, if it is
 * the only one who waits for it; in ASK the question stays), deletes a one-shot's sandbox, and puts
 * on record that the call was canceled where its intent is on record and its command does not run
 * yet. A command in a lasting sandbox goes on. run_leave() lets a run in a lasting sandbox go on in
 * every phase but those that are about a person (PROBE, ASK, and all before INTENT with a grant).
 * The end of a key and a new policy end no wait: the gate refuses the run when it is asked again.
 * When the daemon ends, sandboxes are deleted, which fails every wait for one or in one; what still
 * waits for an image or a person ends with its client's connection. */
enum run_phase {
    RUN_IMAGE,
    RUN_DECIDE,
    RUN_BOX,
    RUN_RESOLVE,
    RUN_INPUT,
    RUN_NAMES,
    RUN_PROBE,
    RUN_ASK,
    RUN_INTENT,
    RUN_CREATE,
    RUN_FILES,
    RUN_COMMAND,
    RUN_DONE, /* only passed on: there is no run any more */
};

struct run_file {
    char *path;
    char *data;
    size_t len;
    unsigned mode;
};

struct run_request {
    struct manager *manager;
    struct gate *gate;
    struct sandbox *sandbox; /* NULL means a one-shot from spec */
    /* Whose own policy holds (sandbox_policy()): NULL is sandbox itself; a helper runs for another
     * one. */
    struct sandbox *scope_of;
    const struct spec *spec;
    struct images *images; /* where an image of spec is looked for; NULL if there are none */
    const struct identity *who;
    const struct gate_terms *terms; /* NULL means the usual ones */
    struct gate_call call;
    const struct run_file *files;
    size_t n_files;
    struct exec_spec exec;
};

struct run_events {
    /* Optional. The command is on its way; its journal can be read. */
    void (*on_started)(void *data, struct run *run, struct exec *e);
    /* Once. err set: nothing ran. Otherwise e is done. The run is freed when it returns. */
    void (*on_done)(void *data, struct run *run, struct exec *e, const struct error *err);
    /* Optional, with terms.wait: a person is asked, and the run waits. It may be abandoned from
     * inside. */
    void (*on_asked)(void *data, struct run *run, struct approval *a);
    /* For a file operation with open_stdin: its input has to be known before it can be decided on.
     * The caller reads all of it and calls run_set_input(), never from inside. Without this event
     * such an operation is refused. */
    void (*on_input_wanted)(void *data, struct run *run);
};

/* Everything in req is copied. NULL with err set when refused; otherwise on_done comes, always
 * later. on_started may come from inside. */
struct run *run_start(const struct run_request *req, const struct run_events *events, void *data,
                      struct error *err);
/* The caller does not wait any more: kills a one-shot, lets a command in a lasting sandbox go on.
 * No event comes afterwards. */
void run_abandon(struct run *run);
/* The caller does not wait any more, but what runs in a lasting sandbox goes on and is counted.
 * True: it waited for a person, has not run and is gone, no event comes. Otherwise on_done comes,
 * and it fails where it would have to wait for a person. */
bool run_leave(struct run *run);
/* A person has to decide first, or has decided and that is being looked at. */
bool run_is_waiting(const struct run *run);
/* All of its input, copied, after on_input_wanted. on_done may come from inside. */
void run_set_input(struct run *run, const char *data, size_t len);

/* For struct manager_options, with the gate as data: puts starts and ends on record. */
void run_on_exec(void *data, struct exec *e, enum exec_event event);
void run_on_input(void *data, void **state, const char *bytes, size_t len);
/* Put on record, before it is done, what a caller does to a sandbox or to a command in it. The
 * audit may be NULL. Takes details, which may be NULL. Negative: it must not be done. */
int run_record_sandbox(struct audit *a, struct sandbox *sb, const struct identity *who,
                       const char *what, json_t *details, struct error *err);
int run_record_steer(struct audit *a, struct exec *e, const struct identity *who, const char *what,
                     json_t *details, struct error *err);
/* Of input that was taken: how much, and its keyed hash. Ends the stream; NULL is fine. */
void run_record_input(struct audit *a, struct exec *e, const struct identity *who,
                      struct audit_stream *input);
/* A sandbox's spec as members of an open record: without what may be secret. */
void run_put_spec(struct json_text *t, const struct audit *a, const struct spec *s);
bool run_is_call_of(void *data, const char *call, const struct sandbox *sb);
