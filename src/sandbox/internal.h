/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share; for no one else. */
#pragma once

#include <assert.h>
#include <netinet/in.h>

#include "event/event.h"
#include "base/output-stream.h"
#include "loop/loop.h"
#include "base/error.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "sandbox/exec.h"
#include "sandbox/journal.h"
#include "sandbox/network.h"
#include "sandbox/persist.h"
#include "sandbox/pool.h"
#include "sandbox/recent.h"
#include "sandbox/retire.h"
#include "sandbox/runner.h"
#include "sandbox/sandbox-policy.h"
#include "sandbox/sandbox.h"
#include "sandbox/stream-number.h"

#define EXEC_ID_SIZE 24
static_assert(EXEC_ID_SIZE <= RECENT_KEY_SIZE, "an id is a key");

struct manager {
    struct manager_options options;
    struct manager_counts counts;
    struct map *by_id;      /* canonical */
    struct map *by_alias;   /* owner "\n" alias */
    struct map *owners;     /* struct owner_use of those who have anything */
    const char *actor;      /* manager_set_actor() */
    struct list all;        /* newest last */
    struct list idle;       /* longest idle first */
    struct list timed;      /* running execs that have a timeout */
    struct list finished;   /* execs whose retention runs, first to go first */
    struct recent *recent;  /* NULL without a store */
    bool rows_due;          /* ends of some of them could not be written yet */
    struct list dirty;      /* sandboxes with frames that wait for company */
    struct list expiring;   /* sandboxes with a rule of their network that ends */
    struct list lost;       /* sandboxes without a connection to their runner, longest first */
    struct list snapshots;  /* struct snapshot */
    struct map *tombstones; /* by generation (tombstone.c); NULL: there were none */
    struct retirement retirement;
    struct loop_timer tick;
    struct pool *pool;   /* or NULL */
    int64_t sweep_at_ms; /* when journals without an exec are removed; 0: that is done */
    void (*on_closed)(void *data);
    void *closed_data;
    bool closing;
};

struct sandbox {
    struct manager *manager;
    int refs;
    char id[PLAN_ID_SIZE];
    char generation[SANDBOX_GENERATION_SIZE];
    char *alias, *alias_key;
    char *owner;
    char address[INET6_ADDRSTRLEN]; /* sandbox_maker.address */
    char actor[PLAN_ID_SIZE];       /* whose request made it, then deleted it */
    struct owner_use *use;          /* of owner, while in the tables or with commands */
    bool hidden;
    enum sandbox_state state;
    struct spec spec;
    struct effective effective;
    struct error failure;
    const struct runtime_ops *ops;
    struct runtime_instance *instance; /* NULL when the runtime is done with it */
    struct runner *runner;
    struct runner *muted;                 /* what runner was, while the sandbox is taken apart */
    struct interceptor_link *interceptor; /* NULL: it has none */
    bool runner_ended; /* its connection is closed, everything it sent was read */
    int exit_status;   /* of PID 1, once instance is NULL */
    bool end_is_told;  /* in words, by the runtime */
    struct list waiters_ready, waiters_gone;
    struct list node, idle_node, dirty_node, retired_node, expiring_node;
    struct list lost_node;   /* in manager->lost while its connection is being made again */
    int64_t lost_ms;         /* since when; 0: it is not */
    uint32_t attempt;        /* how often it was reached again in this generation */
    int64_t ask_again_ms;    /* when the runtime is asked for another one at the latest */
    int64_t breaks_since_ms; /* the minute in which n_breaks connections ended */
    uint32_t n_breaks;
    int64_t retired_ms;
    int64_t created_ns, created_ms, last_exec_ns, idle_since_ms;
    int holds; /* running execs and open streams */
    struct journal_group journals;
    uint64_t oom_kills_seen;
    struct list execs;   /* all remembered, oldest first */
    struct list running; /* those whose EXIT has not come */
    struct map *execs_by_id;
    size_t n_execs; /* remembered */
    size_t n_running;
    void (*stream_replaced)(void *data); /* of the connection that brings output; NULL: none */
    void *stream_data;
    struct stream_numbers streams;
    uint64_t next_request;
    uint64_t turn;        /* generation of its runner's connections: the daemon's, or its own */
    unsigned n_unflushed; /* FORGET frames that wait for company */
    struct map *gateway_streams;
    struct list port_streams; /* struct port_stream */
    size_t n_port_streams;
    struct list gateway_reports; /* one per connection that the gateway has */
    size_t n_gateway_reports;
    struct list network_questions; /* struct network_question */
    struct gateway_packet *packet; /* its rules as the gateway gets them; NULL: to be made */
    char **packet_denied;          /* what the policy denied when it was */
    int64_t records_from_ms;       /* the minute of connections that record_shares count */
    struct list record_shares;     /* one per rule that has decided in it */
    uint64_t n_cut_connected, n_cut_refused; /* since the last summary */
    struct sandbox_policy *policy;           /* its own; NULL: none */
    bool started;                            /* the runtime is done; READY waits for its row */
    bool restored;                           /* made by an earlier control plane */
    bool resumed;                            /* and its runner has said what it remembers */
    bool announced;                          /* the journal of changes has it */
    bool crash_untold;                       /* it was found dead, and its row does not say so */
    bool paused;                             /* its processes are frozen */
    bool pausing;                            /* the runtime is at it */
    bool pause_wished;                       /* and is to freeze it */
    bool addresses_changing;                 /* the runtime is at it: network-address.c */
    bool network_unwritten;                  /* its row has rules that do not hold any more */
    bool addresses_unsent;                   /* it has yet to be said what may be reached */
    unsigned n_keeping;                      /* calls that keep, copy or restore it (snapshot.c) */
    bool returning;        /* and the runtime is about to put another machine in its place */
    bool forgets;          /* its runner is to forget all commands that it remembers */
    bool forget_on_record; /* so says its row, to a control plane that adopts it */
    struct back_call *back;
    bool pooled;       /* the pool's: READY, hidden, without an owner yet */
    bool claiming;     /* its runtime has yet to grant that it is its caller's */
    unsigned n_claims; /* that were not granted */
    struct list pool_node;
    char runtime_id[PLAN_ID_SIZE]; /* what the runtime calls it; a claimed one has another id */
    int rows_pending;              /* writes of its row under way */
    bool remains;        /* its runtime may have something of it elsewhere after its end */
    bool awaits_removal; /* on_removed comes, and has a reference */
    bool buried;         /* it has a tombstone */
};

/* What of an exec is kept until its row is written. */
enum exec_kept { EXEC_KEPT_START, EXEC_KEPT_END, _EXEC_KEPT_MAX };

struct exec {
    struct sandbox *sandbox;
    int refs;
    char id[EXEC_ID_SIZE];
    uint32_t stream;
    uint64_t request_id;
    char call[EXEC_CALL_SIZE];
    bool hidden, pty;
    bool block_output; /* at a limit of the journal, instead of cutting */
    char **argv;
    char **hosts; /* its network is narrowed to them, through a proxy of its own; NULL: it is not */
    char **bound; /* its sandbox's network is not widened beyond them while it runs; NULL: it is */
    char *cwd;    /* as it was asked for, or NULL; for words about a failure */
    struct exec_result result;
    struct exec_start_wait *start_wait; /* answers that wait for its start; NULL: none */
    bool started;
    bool announced; /* the journal of changes has its start */
    uint32_t pid;
    uint64_t timeout_ms;
    int64_t started_ns, finished_ns, forget_at_ms;
    int64_t overdue_ms; /* when its runner has certainly missed its timeout */
    struct journal *journal;
    struct exec_sink sink;
    bool has_sink;
    uint64_t received[OUTPUT_STREAMS], acked[OUTPUT_STREAMS], consumed[OUTPUT_STREAMS];
    /* stdin: bytes from stdin_base on are in stdin_queue; those before stdin_sent were sent */
    struct strbuf stdin_queue;
    uint64_t stdin_base, stdin_sent;
    uint64_t stdin_acked; /* the runner has passed on so many: no more than a window beyond */
    bool stdin_open, stdin_close_wanted, stdin_close_sent;
    bool stdin_whole; /* all there will be came with the request: stdin_given bytes */
    uint64_t stdin_given;
    bool interrupted;  /* some of it died with an earlier control plane */
    void *input_state; /* manager_options.on_input */
    struct list drains;
    bool awaiting_stats;
    bool restored; /* started by an earlier control plane */
    bool resumed;  /* and its runner remembers it */
    bool has_row;
    bool row_due;                    /* its end could not be written yet */
    unsigned recent[_EXEC_KEPT_MAX]; /* tickets; 0: none */
    bool forget_due;                 /* the runner waits to hear that its end is on record */
    bool end_kept;                   /* and it is: FORGET may be sent */
    struct msg_exit exit;
    bool exit_waits;   /* for output that its sandbox's stream container has yet to bring */
    bool stream_ended; /* that container has said that there is no more */
    uint64_t replaced[OUTPUT_STREAMS]; /* characters that it brought for bytes it could not */
    int64_t brought_ms;                /* when it brought something last, or EXIT came */
    struct exec_sent *sent; /* what may have to be sent again; NULL: connections do not break */
    struct list waiters;
    struct list node;       /* in sandbox->execs */
    struct list timed_node; /* in manager->timed */
    struct list phase_node; /* in sandbox->running, then manager->finished */
};

/* announce.c: what the journal of changes hears of. What it heard before a restart it does not hear
 * again. */
void sandbox_announce(struct sandbox *sb); /* its state */
void sandbox_announce_pause(struct sandbox *sb);
void sandbox_announce_restored(struct sandbox *sb);
/* What a create with this spec is refused for by its runtime's means: its network, interceptor and
 * whatever the runtime checks itself. What may work later is no refusal here. */
int sandbox_check_spec(struct manager *m, const struct runtime_ops *ops, const struct spec *spec,
                       const char *owner, struct error *err);
void exec_announce_start(struct exec *e);
void exec_announce_end(struct exec *e);
void exec_announce_restored(struct exec *e);

/* exec-table.c */
struct exec *exec_alloc(struct sandbox *sb);
/* Its row is written, or not wanted: nothing of it needs to be kept. */
void exec_drop_kept(struct exec *e, enum exec_kept up_to);
void exec_enter_tables(struct exec *e);
/* How long after its timeout a command's end may come. */
int64_t exec_late_ms(const struct manager *m);
/* Takes a finished exec out of its sandbox's tables; once is enough. */
void exec_forget(struct exec *e);
/* Forgets the oldest finished one where a sandbox remembers too many. */
void exec_make_room(struct sandbox *sb);
struct exec *exec_find_running(struct sandbox *sb, uint32_t stream);

/* exec.c */
void exec_fail(struct exec *e, const char *why);
/* Calls the layer above, before any waiter. */
void exec_tell(struct exec *e, enum exec_event event);
void exec_fail_all(struct sandbox *sb, enum exec_status status, bool crashed, const char *why);
void exec_send_forget(struct exec *e);
void exec_retry_rows(struct manager *m);
/* Writes the row of one that was restored from what was kept, under a ticket. */
void exec_restore_row(struct exec *e, unsigned ticket);
void exec_send_signal(struct exec *e, int signo, uint32_t kill_grace_ms);
/* It has started, or ended without. */
void exec_settle_start(struct exec *e);
void exec_on_started(void *data, uint32_t stream, const struct msg_started *m);
void exec_on_spawn_failed(void *data, uint32_t stream, const struct msg_spawn_failed *m);
void exec_on_exit(void *data, uint32_t stream, const struct msg_exit *m);

/* exec-start.c */
void exec_on_start_written(void *data, const struct error *err);

/* exec-input.c */
void exec_pump_stdin(struct exec *e);
void exec_tell_drained(struct exec *e);
void exec_on_stdin_ack(void *data, uint32_t stream, const struct msg_stdin_ack *m);

/* exec-output.c */
void exec_watch_journal(struct exec *e);
/* The next bytes of a stream into the journal, and acknowledged once they are safe there. */
void exec_take_output(struct exec *e, uint8_t which, const char *data, size_t len);
int exec_on_output(void *data, uint32_t stream, const struct msg_output *m);
void exec_on_draining(void *data, uint32_t stream);

/* ingest.c */
/* How much of what a command wrote was not brought. A container that writes U+FFFD for each byte
 * that is no text brings one that the command itself wrote in the same way, and each counted as one
 * byte instead of its three. */
uint64_t stream_missing(uint64_t end, uint64_t received, uint64_t replaced);
/* All that EXIT counts was brought; where that is not so, the exec waits for it. */
bool exec_stream_is_whole(struct exec *e, const struct msg_exit *m);
/* Ends those whose output is not brought within reconnect_timeout of their exit: what is missing is
 * a gap in the journal. */
void exec_look_after_streams(struct manager *m);

/* exec-resume.c */
void exec_on_state(void *data, uint32_t stream, const struct msg_state *m);
void exec_on_resumed(void *data);

/* reconnect.c: a runtime whose connections may break. */
/* The connection ended by itself. */
void sandbox_lose(struct sandbox *sb, const char *why);
void sandbox_forget_lost(struct sandbox *sb); /* it ends, or is connected again */
void sandbox_take_connection(void *data, int runner_fd);
void sandbox_look_after_lost(struct manager *m);
/* The runner that frames can be sent to; NULL: there is none, or it has yet to say what it knows.
 */
struct runner *sandbox_runner(const struct sandbox *sb);
/* What is sent about an exec and not confirmed, kept to be sent again. */
void exec_keep_spawn(struct exec *e, const char *frames, size_t len);
void exec_keep_signal(struct exec *e, const struct msg_signal *m);
void exec_keep_size(struct exec *e, const struct msg_resize *m);
void exec_drop_spawn(struct exec *e); /* it arrived */
/* What the runner says of an exec of this control plane's on a fresh connection. */
void exec_on_known_state(struct sandbox *sb, uint32_t stream, const struct msg_state *m);
/* Sends again what did not arrive. Negative: the runner has forgotten a command. */
int exec_send_again(struct sandbox *sb);

/* exec-events.c */
extern const struct runner_events exec_runner_events;

/* restore.c */
void restore_sweep(struct manager *m);
struct exec *exec_restore(struct sandbox *sb, const json_t *o, const void *snapshot, size_t len,
                          struct error *err);

/* tombstone.c */
/* Whether its end has to be durable before it is answered, and is not yet. */
bool sandbox_needs_tombstone(const struct sandbox *sb);
void sandbox_bury(struct sandbox *sb, store_done_fn on_durable, void *data);
void sandbox_on_removed(void *data, bool certain);
int tombstones_load(struct manager *m, struct error *err);
/* Was this one to be removed? Something of it is there. */
bool tombstone_find(struct manager *m, const char *generation);
void tombstones_free(struct manager *m);

struct warden_alive;
/* What the store has of a sandbox. Texts are borrowed. */
struct sandbox_row {
    struct spec spec;
    const char *owner, *alias, *failure, *runtime_id, *generation, *caller;
    struct sandbox_policy *policy; /* or NULL */
    int64_t created_ns;
    bool forgets; /* it may be another machine than the one that its execs ran in */
};

/* restore.c: what the object says; its texts are borrowed. key: its id. */
int sandbox_row_parse(const json_t *o, const char *key, struct sandbox_row *ret, struct error *err);

/* sandbox-create.c. sandbox_restore(): CREATING when it is alive (NULL: it is not) and adopted,
 * else CRASHED. Takes the row's policy. */
struct sandbox *sandbox_create_pooled(struct manager *m, const struct spec *spec,
                                      struct error *err);
/* Whether the record that such a sandbox has is one that its runtime can keep. Only a fresh one
 * finds out by itself: a sandbox that was made ahead would be lost by it. */
bool sandbox_record_fits(struct manager *m, const struct runtime_ops *ops, const struct spec *spec,
                         const struct sandbox_maker *by, const char *alias,
                         struct sandbox_policy *policy);
struct sandbox *sandbox_restore(struct manager *m, const char *id, struct sandbox_row *row,
                                const struct warden_alive *alive);
/* The numbers of its streams and requests are made of this generation from now on. */
void sandbox_set_turn(struct sandbox *sb, uint64_t generation);

/* snapshot.c */
int snapshots_restore(struct manager *m, struct error *err);
void snapshots_free(struct manager *m);
/* The runner of a sandbox with `forgets` has been told what to forget. */
void snapshot_on_forgotten(struct sandbox *sb);
/* The sandbox ends; one that was being restored fails. */
void snapshot_on_end(struct sandbox *sb, const char *why);

/* announce.c: decisions about connections. Texts are as the gateway reports them. */
struct connection_facts {
    const char *asked, *told, *rule;
    const char *exec; /* NULL: not known */
    bool ended;
    uint64_t sent, received;
    int64_t duration_ms;
};
void sandbox_announce_connection(struct sandbox *sb, enum event_type type,
                                 const struct connection_facts *f);
void sandbox_announce_cut(struct sandbox *sb);

/* network.c */
/* What its connections may reach now, and must not, by its spec and by the policy. The caller
 * frees.
 */
char **sandbox_allowed_hosts(const struct sandbox *sb);
/* The same for one command: NULL is one without a list of its own. */
char **exec_allowed_hosts(const struct sandbox *sb, const struct exec *e);
char **sandbox_denied_hosts(const struct sandbox *sb);
/* What the policy denies to such a sandbox besides. The caller frees. */
char **network_policy_denied(const struct manager *m, const char *owner, const struct spec *spec);
/* Whether the gateway takes the sandbox's own rules and those of the policy together, as every
 * connection comes with. */
struct gateway_rules;
int network_check_room(const struct manager *m, const char *owner, const struct spec *spec,
                       const struct gateway_rules *own, struct error *err);
/* Whether a connection that is there may go on. a: the address that it went to, or NULL. */
struct address;
struct target;
bool sandbox_still_allows(const struct sandbox *sb, const struct target *t,
                          const struct address *a);
/* To be called when its spec is there: rules that end are taken away then. */
void sandbox_watch_network(struct sandbox *sb);
void sandbox_expire_networks(struct manager *m);
/* Adds a copy, unless the list has the text already. */
void network_add_text(char ***list, const char *text);
/* What is left of rules that allow, without those that c (which may be NULL) drops and those that
 * have ended. NULL: nothing. */
char **network_keep_texts(char *const *texts, const struct network_change *c);
bool network_has_end(char *const *texts);
/* What is left of them without those that end some day. NULL: nothing. */
char **network_keep_endless(char *const *texts);
/* Takes both lists. */
void network_set_rules(struct sandbox *sb, char **hosts, char **denied);
/* Whether all that the sandbox may reach now is in bound, which may be NULL. ERROR_CONFLICT. */
int network_check_bound(const struct sandbox *sb, char *const *bound, struct error *err);
void network_write_row(struct sandbox *sb, network_change_fn fn, void *data);

/* network-address.c: the part that is by address. */
struct network_rules {
    char **hosts, **denied;
};
/* Also of one that may reach nothing of it any more. */
bool sandbox_is_by_address(const struct sandbox *sb);
int address_change_check(const struct sandbox *sb, const struct network_change *c,
                         struct error *err);
/* Puts a change that was checked into effect, and then into the spec together with rules, whose
 * lists it takes. As sandbox_change_network(). */
int address_change_start(struct sandbox *sb, const struct network_change *c,
                         const struct network_rules *rules, network_change_fn fn, void *data,
                         struct error *err);
/* An earlier control plane may have died between a change and its row: the row holds. */
void sandbox_send_addresses(struct sandbox *sb);
void sandbox_expire_addresses(struct sandbox *sb);

/* Whether a descriptor can come from inside: its connections are passed out then, and are carried
 * in frames otherwise. gVisor takes none by itself, and none comes out of a pod. */
bool sandbox_shares_kernel(const struct sandbox *sb);

/* network-question.c: a person is to be asked whether its commands may go there. */
void sandbox_ask_network(struct sandbox *sb, const struct target *t, const char *rule);

/* owner.c */
void sandbox_keep_actor(struct sandbox *sb);

/* sandbox-table.c */
void sandbox_enter_tables(struct manager *m, struct sandbox *sb);
char *sandbox_alias_key(const char *owner, const char *alias);
void sandbox_wake(struct list *waiters, struct sandbox *sb, const struct error *err);

/* sandbox.c */
extern const struct runtime_events sandbox_runtime_events;
/* The connection ended or the runner misbehaved. */
void sandbox_break(struct sandbox *sb, const char *why);
void sandbox_set_failure(struct sandbox *sb, const char *why);
void sandbox_update_idle(struct sandbox *sb);
void sandbox_start_failed(struct sandbox *sb, const struct error *err);
void sandbox_fail_creating(struct sandbox *sb, const struct error *err);
void sandbox_ready_when_settled(struct sandbox *sb);
void sandbox_write_row(struct sandbox *sb);

/* manager.c: sends what waits for the runner. */
void sandbox_flush(struct sandbox *sb);

/* exec-start.c: a number for a stream that the control plane opens. */
uint32_t sandbox_take_stream(struct sandbox *sb);

/* port-stream.c. Negative: the runner broke the protocol. */
#define PORT_IS_OURS                                                                               \
    "port %u of sandbox %s is a listener of its own runner, which is not for callers"
bool port_stream_is_taken(const struct sandbox *sb, uint32_t id);
int port_stream_on_connected(struct sandbox *sb, uint32_t stream, const struct msg_connected *m);
int port_stream_on_data(struct sandbox *sb, uint32_t stream, const struct msg_data *m);
int port_stream_on_ack(struct sandbox *sb, uint32_t stream, const struct msg_data_ack *m);
int port_stream_on_end(struct sandbox *sb, uint32_t stream, const struct msg_data_end *m);
void port_stream_on_close(struct sandbox *sb, uint32_t stream);
void port_streams_resume(struct sandbox *sb); /* its runner has said what it can do */
void port_streams_free(struct sandbox *sb, const char *why);

/* gateway-report.c */
/* Hands the gateway a client of this sandbox, with the sandbox's rules, or with those of the exec
 * whose own proxy it came through (of; NULL: of no one in particular). The descriptor stays the
 * caller's to close. socket: it came out of the sandbox. 0 or -errno. */
int gateway_report_open(struct sandbox *sb, uint32_t stream, const struct exec *of, int client_fd,
                        bool socket);
/* Its client inside has gone by a reset. To be called before the stream is closed: the gateway
 * looks here when it finds that end. */
void gateway_report_reset(struct sandbox *sb, uint32_t stream);
/* The gateway has closed the stream, and has told before that how it ended: calls
 * gateway_stream_cut() where it was cut. */
void gateway_report_settle(struct sandbox *sb, uint32_t stream);
/* Ends the connections that the rules of this moment do not allow. */
void gateway_reports_check(struct sandbox *sb);
/* Ends all connections that the gateway has of it. */
void gateway_reports_free(struct sandbox *sb);
/* The rules have changed: what is kept of them for the gateway is made anew. */
void gateway_packet_drop(struct sandbox *sb);
/* intercept.c */
/* Whether the spec's wish for an interceptor can be had. ret: the hosts of its secrets, a vector
 * that the caller frees, or NULL where it wishes for none. */
int interceptor_check(const struct manager *m, const struct runtime_ops *ops,
                      const struct spec *spec, const char *owner, char ***ret, struct error *err);
/* Can the sandbox be held to these rules, as far as they are about methods and paths of https? */
int interceptor_check_rules(const struct sandbox *sb, char *const *rules, struct error *err);
/* Asks for the first time; a sandbox that is being made goes on in sandbox_start_intercepted(). */
void interceptor_new(struct sandbox *sb);
void interceptor_free(struct sandbox *sb);
/* The socket that takes connections; -1: there is none now. */
int interceptor_fd(const struct sandbox *sb);
/* sandbox-create.c: err NULL, the interceptor is there. */
void sandbox_start_intercepted(struct sandbox *sb, const struct error *err);
/* gateway-stream.c */
void gateway_stream_open(struct sandbox *sb, uint32_t stream, const struct msg_open *m);
int gateway_stream_data(struct sandbox *sb, uint32_t stream, const struct msg_data *m);
void gateway_stream_ack(struct sandbox *sb, uint32_t stream, const struct msg_data_ack *m);
void gateway_stream_close(struct sandbox *sb, uint32_t stream, const struct msg_close *m);
/* The gateway's report of it has ended, and not with a connection that both sides had ended. */
void gateway_stream_cut(struct sandbox *sb, uint32_t stream);
void gateway_streams_free(struct sandbox *sb);
