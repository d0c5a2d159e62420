/* One thing that runs: in a sandbox that is there, or in one made for it and thrown away.
 *
 *   gate → (inside: where do its paths lead? gate) → (a person → inside again) → intent → (create)
 *        → files written one by one → exec → done → (delete)
 *
 * This is the only way to start an exec from above: the gate (guard/gate.h) is passed here, and
 * what a lasting sandbox's own policy says (tools, paths, time, how many at once) holds whoever
 * asks.
 *
 * Where a person has to decide, the run is parked (run-ask.c). With terms.wait it goes on once that
 * has happened; else it ends with ERROR_PENDING, and the caller repeats the same call with the
 * approval's id. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "guard/gate.h"
#include "sandbox/exec.h"

struct approval;
struct error;
struct run;

struct run_file {
    char *path;
    char *data;
    size_t len;
    unsigned mode;
};

struct run_request {
    struct manager *manager;
    struct gate *gate;
    struct sandbox *sandbox; /* NULL: a one-shot from spec */
    /* Whose own policy holds (sandbox_policy()): NULL is sandbox itself; a helper runs for another
     * one. */
    struct sandbox *scope_of;
    const struct spec *spec;
    const struct identity *who;
    const struct gate_terms *terms; /* NULL: the usual ones */
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
/* Nobody waits any more: kills a one-shot, lets a command in a lasting sandbox go on. No event
 * comes afterwards. */
void run_abandon(struct run *run);
/* Nobody waits for it any more, but what runs in a lasting sandbox goes on and is counted. True: it
 * waited for a person, has not run and is gone, no event comes. Otherwise on_done comes, and it
 * fails where it would have to wait for a person. */
bool run_leave(struct run *run);
/* A person has to decide first, or has decided and that is being looked at. */
bool run_is_waiting(const struct run *run);
struct sandbox *run_sandbox(const struct run *run); /* NULL: not made yet */
/* All of its input, copied, after on_input_wanted. on_done may come from inside. */
void run_set_input(struct run *run, const char *data, size_t len);

/* For struct manager_options, with the gate as data: puts starts and ends on record. */
void run_on_exec(void *data, struct exec *e, enum exec_event event);
void run_on_input(void *data, void **state, const char *bytes, size_t len);
/* Put on record, before it is done, what a caller does to a sandbox or to a command in it. The
 * audit may be NULL. Takes details, which may be NULL. Negative: it must not be done. */
int run_record_sandbox(struct audit *a, struct sandbox *sb, const struct identity *who,
                       const char *what, struct error *err);
int run_record_steer(struct audit *a, struct exec *e, const struct identity *who, const char *what,
                     json_t *details, struct error *err);
/* Of input that was taken: how much, and its keyed hash. Ends the stream; NULL is fine. */
void run_record_input(struct audit *a, struct exec *e, const struct identity *who,
                      struct audit_stream *input);
/* A sandbox's spec as members of an open record: without what may be secret. */
void run_put_spec(struct json_text *t, const struct audit *a, const struct spec *s);
bool run_is_call_of(void *data, const char *call, const struct sandbox *sb);
