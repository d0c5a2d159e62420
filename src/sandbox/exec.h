/* SPDX-License-Identifier: Apache-2.0 */
/* Commands (and the runner's built-in tools) in a sandbox.
 *
 *   RUNNING → COMPLETED | FAILED | TIMED_OUT | CANCELED;  RUNNING → CANCELING → CANCELED
 *
 * COMPLETED: it ended by itself, whatever its exit code. FAILED: it could not start, was killed, or
 * its sandbox died. An exec's record lives in its sandbox until the retention passes, or as long as
 * a caller holds a reference. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "sandbox/sandbox.h"

struct error;
struct exec;
struct journal;

enum exec_status {
    EXEC_RUNNING,
    EXEC_CANCELING,
    EXEC_COMPLETED,
    EXEC_FAILED,
    EXEC_CANCELED,
    EXEC_TIMED_OUT,
    _EXEC_STATUS_MAX,
};

/* Takes output instead of the journal: for downloads. The callee acknowledges with
 * exec_sink_done() when it has room again; until then the command is held back by the window. */
struct exec_sink {
    void (*on_output)(void *data, uint8_t stream, const char *bytes, size_t len);
    void *data;
};

/* What happens to output over a limit of the journal. */
enum exec_on_limit { EXEC_LIMIT_DEFAULT, EXEC_LIMIT_TRUNCATE, EXEC_LIMIT_BLOCK };

struct exec_path {
    bool writable;
    const char *path;
};

#define EXEC_CALL_SIZE 25

struct exec_spec {
    const char *call; /* what the gate calls it; NULL: part of another one */
    char *const *argv;
    char *const *env; /* KEY=VALUE, over the sandbox's */
    /* Of the sandbox's variables, only those with these names; NULL: all. */
    char *const *env_whitelist;
    const char *cwd;        /* NULL: the sandbox's workdir */
    const char *stdin_data; /* sent, then closed unless open_stdin */
    size_t stdin_len;
    bool open_stdin; /* more may come by exec_write() */
    bool pty;
    uint16_t rows, cols;
    uint64_t timeout_ms; /* 0: none */
    uint64_t limit_as_bytes;
    bool builtin;
    bool hidden; /* in no listing: file operations */
    bool narrow; /* only these paths besides the system's stay reachable */
    const struct exec_path *paths;
    size_t n_paths;
    char *const *hosts; /* what its network is narrowed to (gateway/rule.h); NULL: the sandbox's */
    char *const *bound; /* all that it may reach, which its sandbox does not go beyond while it
                           runs; NULL: it may reach what the sandbox may */
    const char *pins;   /* files that must be what was approved (toolrunner/pin.h); NULL: none */
    const struct exec_sink *sink;
    enum exec_on_limit on_limit;
};

struct exec_usage {
    uint64_t user_us, system_us, max_rss_kb, wall_us;
};

struct exec_result {
    enum exec_status status;
    bool has_exit_code;
    int exit_code; /* 128+n for signal n */
    int signo;     /* 0: it exited */
    bool oom_killed;
    bool pipe_held;  /* a background process still had its output open */
    bool alone;      /* it left no process behind; unknown after a restart */
    char error[256]; /* where status is not COMPLETED */
    bool crashed;    /* the sandbox died under it */
    int spawn_errno; /* it never started */
    struct exec_usage usage;
};

struct exec_waiter {
    struct list node;
    void (*on_done)(struct exec_waiter *w, struct exec *e);
};

struct exec_drain {
    struct list node;
    void (*on_drain)(struct exec_drain *w);
};

/* Words of a command that a caller may send. Each is parsed, judged, copied and put on record in
 * one turn of the loop, at about a microsecond under a policy: as many as the kernel would take
 * hold up every other caller. */
#define EXEC_WORDS_MAX 16384

/* Whether arguments and environment are within what execve() takes. ERROR_TOO_LARGE. */
int exec_spec_check_size(const struct exec_spec *spec, struct error *err);

/* The caller borrows the exec; the sandbox owns a reference while it remembers it. */
struct exec *exec_start(struct sandbox *sb, const struct exec_spec *spec, struct error *err);
struct exec *exec_find(struct sandbox *sb, const char *id);
struct exec *exec_ref(struct exec *e);
void exec_unref(struct exec *e);

/* Records it, so that its id can be given out: it is known after a restart, whatever happens, and
 * the runner has it. on_durable comes once, perhaps from inside. */
void exec_persist(struct exec *e, void (*on_durable)(void *data, const struct error *err),
                  void *data);

/* The same at once, for an id that is about to be seen: it is known after kill -9 of everything.
 * Where the disk is full it may not be. */
void exec_keep(struct exec *e);

/* The same for what has changed since: a cancel. For an exec that has not ended. */
void exec_record(struct exec *e, void (*on_durable)(void *data, const struct error *err),
                 void *data);

/* on_done comes once, from inside when it ended already. */
void exec_wait(struct exec *e, struct exec_waiter *w);
void exec_waiter_cancel(struct exec_waiter *w);

/* Queues bytes for its stdin. ERROR_CONFLICT when it is closed, ERROR_LIMIT when the queue is full.
 */
int exec_write(struct exec *e, const char *data, size_t len, struct error *err);
int exec_close_stdin(struct exec *e, struct error *err);
size_t exec_stdin_queued(const struct exec *e);
/* on_drain comes each time the queue has emptied, and when the exec ends. It must not end a watch.
 */
void exec_watch_stdin(struct exec *e, struct exec_drain *w);
void exec_unwatch_stdin(struct exec_drain *w); /* legal at any time, also when not watching */
int exec_signal(struct exec *e, int signo, struct error *err);
int exec_resize(struct exec *e, uint16_t rows, uint16_t cols, struct error *err);
/* SIGTERM, then SIGKILL after the grace. ERROR_CONFLICT when terminal or already canceling. */
int exec_cancel(struct exec *e, struct error *err);
void exec_sink_done(struct exec *e, uint8_t stream, size_t bytes);
/* The sink's owner is gone: output is dropped from here on. */
void exec_sink_detach(struct exec *e);

/* Output that a stream container brings (sandbox/ingest.c). Whether an exec's output comes so. */
bool exec_is_streamed(const struct exec *e);
/* offset: of the first byte, or negative for "what follows". What is known already is dropped.
 * n_replaced: bytes of data that stand for a U+FFFD which was brought. ERROR_INVALID for what does
 * not fit to what came before. */
int exec_ingest(struct exec *e, uint8_t stream, int64_t offset, const char *data, size_t len,
                size_t n_replaced, struct error *err);
/* All of it was brought. The exec ends when its runner has said so, too. */
void exec_ingest_end(struct exec *e);

const char *exec_id(const struct exec *e);
const char *exec_call(const struct exec *e);
bool exec_is_hidden(const struct exec *e); /* a helper's, or a file operation */
/* Of manager_options.on_input. */
void **exec_input_state(struct exec *e); /* "" for none */
struct sandbox *exec_sandbox(const struct exec *e);
enum exec_status exec_status(const struct exec *e);
bool exec_is_done(const struct exec *e);
const char *exec_status_name(enum exec_status s);
const struct exec_result *exec_result(const struct exec *e);
struct journal *exec_journal(const struct exec *e); /* NULL with a sink */
/* It waits in write(): its journal is full and does not cut. */
bool exec_output_blocked(const struct exec *e);
char *const *exec_argv(const struct exec *e);
bool exec_has_pty(const struct exec *e);
int64_t exec_started_ns(const struct exec *e);
int64_t exec_finished_ns(const struct exec *e); /* 0: running */
uint64_t exec_timeout_ms(const struct exec *e);

/* Oldest first; returns how many. */
size_t exec_list(struct sandbox *sb, struct exec **ret, size_t max);
