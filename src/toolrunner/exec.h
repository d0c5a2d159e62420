/* SPDX-License-Identifier: Apache-2.0 */
/* Execs: one command each, from SPAWN to FORGET.
 *
 * States. RUNNING: the process lives; as long as it is `starting` its program is not executed yet
 * (exec-start.c). DRAINING: wait() gave its status, its pipes may still hold
 * output. DONE: the output's end is known, EXIT is sent as soon as all output is. A forgotten exec
 * lives on, invisibly, until its process is reaped.
 *
 * Only exec.c writes the state; exec-io.c moves bytes and calls exec_check_drained(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/epoll-loop.h"
#include "base/list.h"
#include "base/output-stream.h"
#include "proto/message.h"
#include "toolrunner/ring.h"
#include "toolrunner/start.h"

struct runner;
struct rusage;

#define EXEC_YOUNG_US 3000 /* a command that ends within this is reported in one write */
#define EXEC_YOUNG_DIALED_US                                                                       \
    10000                            /* the same on a kernel in user space, where all takes longer \
                                      */
#define EXEC_START_LOOK_US   1000000 /* at least so often after one that hangs */
#define EXEC_KILL_AGAIN_US   250000  /* until one that was killed is seen dead */
#define EXEC_RESUME_GRACE_MS 250     /* how long a new connection may take to say where to go on */
#define EXEC_CHUNK           32768   /* output of one exec before it is another's turn */
#define EXEC_DIRECT_MIN      16384   /* less than this is copied into the connection's buffer */
#define EXEC_STDIN_ACK_EVERY 32768
#define EXEC_SIGNALS_KNOWN   16 /* request ids of signals kept to drop repeats */
#define EXEC_SINKS_MAX       256

enum exec_state { EXEC_RUNNING, EXEC_DRAINING, EXEC_DONE };

struct exec_output {
    struct exec *exec;
    struct epoll_watch watch; /* fd -1: at its end */
    struct ring ring;         /* start is what was acknowledged */
    uint64_t sent;            /* on this connection */
    uint64_t owed;            /* DRAINING: offset up to which the command itself wrote */
    uint64_t filed;           /* with events: up to here it is in file */
    int file;
    uint8_t which;
    bool hold; /* a new connection has not said yet where to go on */
    bool widened;
};

struct exec_input {
    struct epoll_watch watch; /* fd -1 if there is none or it is closed */
    struct ring ring;         /* start is what was written to the command, end what was received */
    uint64_t acked;
    uint64_t close_at;
    bool close_asked;
};

struct exec {
    struct runner *runner;
    struct list link;
    struct list pending; /* in runner->pending while it has something to send */
    uint32_t stream;
    uint64_t request_id;
    char *tag;
    char *events; /* with SPAWN_EVENTS: what its files are called (events.h); NULL without */
    bool exit_filed;
    uint32_t flags; /* enum spawn_flags */
    pid_t pid;
    enum exec_state state;
    struct start start;
    bool starting; /* start tells when its program is executed; no STARTED was sent yet */
    bool ending;   /* its end was asked for: all processes that it started end with it */
    bool forgotten;
    bool exit_sent;
    bool drain_over;
    bool told_draining;
    int64_t started_ns;
    uint32_t kill_grace_ms, drain_grace_ms;
    struct exec_output out[OUTPUT_STREAMS];
    struct exec_input in;
    struct epoll_timer young, timeout, kill, drain, resume, file_again;
    struct msg_exit exit;
    uint64_t signal_ids[EXEC_SIGNALS_KNOWN];
    unsigned n_signals;
};

/* Requests. 0, or -EPROTO when the peer broke the protocol. */
int exec_spawn(struct runner *r, uint32_t stream, const struct msg_spawn *m);
int exec_stdin(struct exec *e, const struct msg_stdin *m);
int exec_stdin_close(struct exec *e, const struct msg_stdin_close *m);
int exec_signal(struct exec *e, const struct msg_signal *m);
int exec_resize(struct exec *e, const struct msg_resize *m);
int exec_ack(struct exec *e, const struct msg_ack *m);
void exec_forget(struct exec *e);

struct exec *exec_find(struct runner *r, uint32_t stream);
uint32_t exec_count_known(const struct runner *r);
/* Tells a new connection about every exec. */
void exec_resume(struct runner *r);
void exec_on_disconnect(struct runner *r);
/* wait() gave pid's status; also called for pids that belong to no exec. */
void exec_on_exit(struct runner *r, pid_t pid, int status, const struct rusage *usage);
bool exec_any_running(const struct runner *r);
void exec_signal_all(struct runner *r, int signo);
void exec_free_all(struct runner *r);

/* exec-io.c */
void exec_io_tell_draining(struct exec *e);
void exec_io_init(struct exec *e, const int out_fds[OUTPUT_STREAMS], int in_fd);
void exec_io_done(struct exec *e);
/* Starts watching the output pipes. */
void exec_io_watch(struct exec *e);
/* Reads each pipe until it is empty, ended or the window is full, and notes what is still owed. */
void exec_io_drain(struct exec *e);
/* Everything the command wrote was taken over (DRAINING). all_ended: no process has the pipes open.
 */
bool exec_io_settled(const struct exec *e, bool *ret_all_ended);
/* What comes later is read and dropped. */
void exec_io_sink(struct exec *e);
void exec_free_sinks(struct runner *r);
void exec_io_close_input(struct exec *e);
void exec_mark_pending(struct exec *e);
/* Moves output into the connection's buffer; true when more waits for room. */
bool exec_pump(struct runner *r);

/* exec-start.c */
/* Its program is executed. */
bool exec_look_started(struct exec *e);
/* The same, and STARTED is sent when that is news. */
bool exec_check_started(struct exec *e);
/* The same, but one that began a moment ago is waited for. */
bool exec_wait_started(struct exec *e);
/* wait() gave its status. True when its program never ran: that has been reported, and the exec is
 * to be freed. */
bool exec_start_failed(struct exec *e);

/* exec.c */
struct exec *exec_new(struct runner *r, uint32_t stream, const struct msg_spawn *m);
void exec_free(struct exec *e);
struct exec *exec_find_request(struct runner *r, uint64_t request_id);
void exec_check_drained(struct exec *e);
