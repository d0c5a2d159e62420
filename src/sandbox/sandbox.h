/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes: their ids, states, owners and ends.
 *
 *   CREATING ── the runtime is building it            delete: stops it, ends in GONE
 *   READY    ── execs run                             delete: STOPPING
 *               (its connection may be lost and is made again: reconnect.c)
 *   CRASHED  ── it died by itself; its record stays   delete: GONE
 *   STOPPING ── being killed                          delete: waits with the first
 *   GONE     ── out of the tables; freed when the last reference goes
 *
 * Only sandbox.c writes the state, sandbox-create.c the first and that of one whose start failed.
 * Ids: canonical `sbx-<x>`; the caller's own name for it (alias) is found too, per owner. All calls
 * are on the loop's thread; waiters and watchers are embedded in their callers and may be taken out
 * at any time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "runtime/runtime.h"
#include "sandbox/journal.h"
#include "sandbox/pool.h"

struct error;
struct event_journal;
struct exec;
struct manager;
struct map;
struct sandbox;
struct sandbox_policy;
struct store;
struct target;

#define SANDBOX_GENERATION_SIZE 25

/* What happened to an exec: the runner has confirmed that it runs; it was found running by a later
 * control plane; it has ended, however. */
enum exec_event { EXEC_EVENT_STARTED, EXEC_EVENT_RESUMED, EXEC_EVENT_ENDED };

enum sandbox_state {
    SANDBOX_CREATING,
    SANDBOX_READY,
    SANDBOX_CRASHED,
    SANDBOX_STOPPING,
    SANDBOX_GONE,
    _SANDBOX_STATE_MAX,
};

/* What one owner may have at once; 0: no limit of its own. */
struct owner_quota {
    size_t sandboxes, execs;
};

enum journal_full { JOURNAL_FULL_TRUNCATE, JOURNAL_FULL_BLOCK };

/* What an operator may set (configuration keys in config/table.c). */
struct manager_config {
    size_t max_sandboxes, max_execs, max_execs_per_sandbox;
    unsigned reserve_percent;       /* of the first two, for owners below an even share */
    uint64_t journal_sandbox_bytes; /* kept of one sandbox's commands; 0: no limit of its own */
    enum journal_full journal_full; /* at a limit, unless the command says otherwise */
    size_t max_stdin_queue;
    uint64_t idle_ttl_ms;  /* 0: never */
    uint64_t retention_ms; /* of finished execs */
    uint64_t create_timeout_ms;
    uint64_t reconnect_timeout_ms;  /* without a connection to its runner, where those may break */
    uint32_t reconnects_per_minute; /* of one sandbox, before that counts as a crash */
    uint32_t drain_grace_ms, kill_grace_ms;
    uint32_t network_records_per_minute; /* of one sandbox's proxy, one by one */
    size_t max_snapshots;                /* of one owner */
    bool streams; /* output is brought by a container beside it, where the runtime has such */
};

typedef void (*ask_network_fn)(void *data, const struct error *err);

/* Where the secrets are that sandboxes name (secret/secrets.h); all NULL: there are none. */
struct manager_secrets {
    char **(*find_hosts)(void *data, const char *owner, char *const *names, struct error *err);
    int (*open_pairs)(void *data, const char *owner, char *const *names, char *const *hosts,
                      const char *generation, struct error *err);
    void *data;
};

struct manager_options {
    struct manager_config config;
    struct manager_secrets secrets;
    uv_loop_t *loop;
    struct store *store;          /* NULL: nothing survives */
    struct event_journal *events; /* changes are announced there; NULL: they are not */
    /* Optional. Every exec with a call (exec_spec.call), before any waiter hears of it. */
    void (*on_exec)(void *data, struct exec *e, enum exec_event event);
    void *on_exec_data;
    /* Optional, with on_exec_data. Bytes for the stdin of an exec with a call; state is the exec's
     * own place for the callback to count them in, NULL at first and in on_exec at its end. */
    void (*on_input)(void *data, void **state, const char *bytes, size_t len);
    /* Optional, with on_exec_data. Whether that call was let into that sandbox: a runner that
     * remembers a command names the call it belongs to, and a runner is not trusted. */
    bool (*is_call_of)(void *data, const char *call, const struct sandbox *sb);
    /* Optional, each with on_record_data. A lasting sandbox is READY, CRASHED or GONE. */
    void (*on_sandbox)(void *data, struct sandbox *sb);
    /* A connection that the command of `call` asked the gateway for, what the gateway answered,
     * and the rule that decided ("": none). */
    void (*on_connection)(void *data, struct sandbox *sb, const char *call, const char *asked,
                          const char *told, const char *rule);
    /* Connections of a sandbox's proxy that were over network_records_per_minute. */
    void (*on_connections_cut)(void *data, struct sandbox *sb, uint64_t connected,
                               uint64_t refused);
    void *on_record_data;
    /* Optional. A lasting sandbox is GONE: what was kept beside it goes, too. */
    void (*on_gone)(void *data, struct sandbox *sb);
    void *on_gone_data;
    /* Optional, with on_exec_data. Hosts that a connection of this sandbox must not reach beyond
     * those that its spec denies (gateway/rule.h), asked for each one. The caller frees with
     * strv_free(). */
    char **(*find_denied_hosts)(void *data, const char *owner, const struct spec *spec);
    /* Optional, with on_exec_data. A command wants to go where a rule asks a person first; what a
     * yes opens is a rule (gateway/rule.h) for one host and port that does not end. fn comes once,
     * when that is answered or the time for an answer is over, perhaps from inside. */
    void (*ask_network)(void *data, struct sandbox *sb, const char *rule, ask_network_fn fn,
                        void *fn_data);
    struct runtime_host *host;
    int gateway_sock; /* -1: none */
    uint64_t generation;
    struct journal_options journal;
    /* Optional. */
    void (*find_quota)(void *data, const char *owner, struct owner_quota *ret);
    void *quota_data;
    struct pool_options pool;
};

struct manager_counts {
    uint64_t sandboxes, creating, execs_running;
    uint64_t created_total, create_failed_total, deleted_total, crashed_total;
    uint64_t connections_total, connections_refused_total, connection_bytes_total;
    uint64_t execs_total, execs_failed_total, oom_kills_total, output_bytes_total;
};

struct manager *manager_new(const struct manager_options *o);
/* A secret was replaced or removed: interceptors that have it are started anew, or without. */
void manager_secret_changed(struct manager *m, const char *owner, const char *name);
/* Deletes every sandbox, then calls on_closed. */
void manager_close(struct manager *m, void (*on_closed)(void *data), void *data);
/* After manager_close() and the end of the loop and of the store. */
void manager_free(struct manager *m);
/* Once, before anything else: takes over what an earlier control plane left. alive (struct
 * warden_alive by id) is used up. */
int manager_restore(struct manager *m, struct map *alive, struct error *err);
/* Makes a sandbox known again that only its runtime still has, from what persist_sandbox_text()
 * said of it. Positive: it is being adopted. 0: this very sandbox is known as ended, or was
 * to be removed. Negative: what is said of it cannot be believed, is what a create would be refused
 * for, or another sandbox has its name. */
struct sandbox_remains {
    const char *runtime_id, *record;
    size_t len;
    const char *owner;   /* that its runtime says; the record's has to be the same */
    int64_t last_exec_s; /* 0: not known */
    /* Optional: whether that owner is one that calls can come from. */
    bool (*is_owner_known)(void *data, const char *owner);
    void *data;
};
int manager_rebuild(struct manager *m, const struct sandbox_remains *r, struct error *err);
/* A pod that was made ahead for this pool and has no caller: it is one of the pool's again. 0: the
 * pool has enough. */
int manager_adopt_member(struct manager *m, const char *runtime_id);
/* All that the runtime has was looked at, and nothing of it was left unread. */
void manager_rebuilt(struct manager *m);
/* Whether a runner has yet to say which commands it remembers: until then some are not found. */
bool manager_is_resuming(const struct manager *m);
/* Whether an exec of that call (exec_spec.call) is running. */
bool manager_runs_call(const struct manager *m, const char *call);
/* Calls cb with the image of every sandbox that has one, pooled and hidden ones too. */
void manager_for_each_image(const struct manager *m, void (*cb)(void *arg, const char *digest),
                            void *arg);
/* The key whose request is being served, NULL in between: a sandbox that is deleted meanwhile is on
 * record as deleted by it. Borrowed until the next call. */
void manager_set_actor(struct manager *m, const char *key);
const struct manager_options *manager_options(const struct manager *m);
const struct manager_counts *manager_counts(const struct manager *m);
struct pool_counts manager_pool_counts(const struct manager *m);

struct sandbox_waiter {
    struct list node;
    void (*on_event)(struct sandbox_waiter *w, struct sandbox *sb, const struct error *err);
};
void sandbox_waiter_cancel(struct sandbox_waiter *w); /* legal at any time, also when not waiting */

/* For whom a sandbox is made. It belongs to the key. What a caller without a key makes is counted
 * by the caller's network address, so that one of them cannot keep the others out. Both are
 * copied. */
struct sandbox_maker {
    const char *key;       /* "": none */
    const char *address;   /* "": not known, or this machine's own */
    bool network_admitted; /* the gate allowed the spec's network; set by tool/network.c alone */
};

/* name: the part after `sbx-`, or NULL for a random one. alias: the caller's own name, or NULL. The
 * sandbox exists at once, in CREATING. NULL with err set when refused (ERROR_CONFLICT for a taken
 * id). hidden ones (one-shot helpers) are in no listing. */
struct sandbox *sandbox_create(struct manager *m, const struct spec *spec,
                               const struct sandbox_maker *by, const char *name, const char *alias,
                               bool hidden, struct error *err);
/* The same for one with a policy of its own (sandbox-policy.h), which is in its row from the first
 * one on. Takes policy, also when it fails. */
struct sandbox *sandbox_create_narrowed(struct manager *m, const struct spec *spec,
                                        const struct sandbox_maker *by, const char *alias,
                                        struct sandbox_policy *policy, struct error *err);
/* Calls w->on_event once: READY (err NULL), or failed. From inside when that is known already. */
void sandbox_wait_ready(struct sandbox *sb, struct sandbox_waiter *w);
/* Kills everything in it. Calls w->on_event (w may be NULL) when it is gone. */
void sandbox_delete(struct sandbox *sb, struct sandbox_waiter *w);
/* Deletes it soon, in a quiet moment of the loop. For a sandbox that no caller knows and in which
 * nothing runs. */
void sandbox_retire(struct sandbox *sb);

/* Stops all its processes where they are (on), or lets them go on, whether or not they are known to
 * stand still. cb comes once, from inside where nothing is to be done; err names what cannot pause.
 */
typedef void (*sandbox_pause_fn)(void *data, struct sandbox *sb, const struct error *err);
void sandbox_pause(struct sandbox *sb, bool on, sandbox_pause_fn cb, void *data);
bool sandbox_is_paused(const struct sandbox *sb);

/* The one lookup of a name that came from a caller: lasting sandboxes of that owner ("": of all),
 * never a hidden or a pooled one. NULL: there is none. */
struct sandbox *sandbox_find(struct manager *m, const char *owner, const char *id_or_alias);
/* The one whose stream container shows this token; name is its id, or what its runtime calls it, or
 * NULL for any. NULL: there is none. How much of a wrong token is right does not show in the time.
 */
struct sandbox *sandbox_find_streamed(struct manager *m, const char *name, const char *token);
/* Whether such a container brings the output of its commands. */
bool sandbox_is_streamed(const struct sandbox *sb);
/* The one connection that brings it. The newest takes the place of the one before, whose
 * on_replaced() is called: a container that was started again, or whose host was cut off, must not
 * be kept out by a connection that has yet to be missed. */
void sandbox_begin_stream(struct sandbox *sb, void (*on_replaced)(void *data), void *data);
void sandbox_end_stream(struct sandbox *sb, const void *data); /* where it still is data's */
/* Its runner has said which commands it knows. */
bool sandbox_is_reached(const struct sandbox *sb);
struct sandbox *sandbox_ref(struct sandbox *sb);
void sandbox_unref(struct sandbox *sb);
/* READY, or an error that says why not. */
int sandbox_check_ready(const struct sandbox *sb, struct error *err);

const char *sandbox_id(const struct sandbox *sb);    /* sbx-<x> */
const char *sandbox_alias(const struct sandbox *sb); /* or NULL */
/* Random, kept for its life and never another's: an id may come back, this does not. */
const char *sandbox_generation(const struct sandbox *sb);
const char *sandbox_owner(const struct sandbox *sb);
/* The key that acted on it last, made or deleted it; "" for a caller without a key and for the
 * daemon itself. */
const char *sandbox_actor(const struct sandbox *sb);
bool sandbox_is_restored(const struct sandbox *sb); /* made by an earlier control plane */
enum sandbox_state sandbox_state(const struct sandbox *sb);
const char *sandbox_state_name(enum sandbox_state s);
const struct spec *sandbox_spec(const struct sandbox *sb);
const struct effective *sandbox_effective(const struct sandbox *sb);
/* Can its runner look for files by their names (RUNNER_PINS_NAMED)? */
bool sandbox_pins_named(const struct sandbox *sb);
/* The file system of the state directory: what is free, what of it is promised to the disks of
 * sandboxes (images; those in memory are not on it), and what uploads, images that are made and
 * output may write next. */
struct manager_storage {
    uint64_t free_bytes, reserve_bytes, promised_bytes, claimed_bytes;
};
struct manager_storage manager_storage(const struct manager *m);
const struct error *sandbox_failure(const struct sandbox *sb); /* why CRASHED */
int64_t sandbox_created_ns(const struct sandbox *sb);          /* real time */
int64_t sandbox_last_exec_ns(const struct sandbox *sb);        /* 0: never */
struct manager *sandbox_manager(const struct sandbox *sb);
struct sandbox_policy *sandbox_policy(const struct sandbox *sb); /* its own; NULL: none */
/* Open streams and terminals count as activity. */
void sandbox_hold(struct sandbox *sb);
void sandbox_release(struct sandbox *sb);
void sandbox_stats(struct sandbox *sb, void (*cb)(void *data, const struct runtime_stats *stats),
                   void *data);

/* Listing in the order of canonical ids: those of owner after the id `after` (NULL: from the
 * start). */
size_t sandbox_list(struct manager *m, const char *owner, const char *after, struct sandbox **ret,
                    size_t max);
