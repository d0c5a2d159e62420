/* One thing that runs: in a sandbox that is there, or in one made for it and thrown away.
 *
 *   gate → (create) → files written one by one → exec → done → (delete)
 *
 * This is the only way to start an exec from above: the gate is passed here, and what a lasting
 * sandbox's own policy says (tools, paths, time, how many at once) holds whoever asks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "guard/gate.h"
#include "sandbox/exec.h"

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
    struct sandbox *sandbox; /* NULL: a one-shot from spec */
    /* Whose policy holds (tool_scope): NULL is sandbox itself; a helper runs for another one. */
    struct sandbox *scope_of;
    const struct spec *spec;
    const struct identity *who;
    struct gate_call call; /* who and argv are filled in */
    const struct run_file *files;
    size_t n_files;
    struct exec_spec exec;
};

struct run_events {
    /* Optional. The command is on its way; its journal can be read. */
    void (*on_started)(void *data, struct run *run, struct exec *e);
    /* Once. err set: nothing ran. Otherwise e is done. The run is freed when it returns. */
    void (*on_done)(void *data, struct run *run, struct exec *e, const struct error *err);
};

/* Everything in req is copied. NULL with err set when refused; otherwise on_done comes, always
 * later. on_started may come from inside. */
struct run *run_start(const struct run_request *req, const struct run_events *events, void *data,
                      struct error *err);
/* Nobody waits any more: kills a one-shot, lets a command in a lasting sandbox go on. No event
 * comes afterwards. */
void run_abandon(struct run *run);
struct sandbox *run_sandbox(const struct run *run);
