/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads of the runner protocol's frames: one struct a message, with a format and a parse
 * function each. parse functions borrow from the frame, check every length and count, and return
 * -EPROTO on anything odd (trailing bytes included). format functions append a whole frame to out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"

struct strbuf;

struct msg_hello {
    uint32_t version;
    uint64_t generation;
    /* Which connection of its generation this is, where connections may break: of two, the runner
     * keeps the higher. 0 is the first, and is not sent: a runner from before there were others
     * does not know it. */
    uint32_t attempt;
};
#define MSG_HELLO_MAX 16 /* bytes of its payload */

enum spawn_flags {
    SPAWN_STDIN = 1,      /* stdin is a pipe fed by MSG_STDIN; otherwise /dev/null */
    SPAWN_PTY = 2,        /* one terminal instead of three pipes; output is stream 1 */
    SPAWN_BUILTIN = 4,    /* argv[0] names code of the runner's (see toolrunner/builtin.h) */
    SPAWN_NARROW = 8,     /* only n_paths of the writable and readable places stay reachable */
    SPAWN_PINNED = 16,    /* pins is there: files that must be what was approved */
    SPAWN_OWN_PROXY = 32, /* its connections come through a listener of its own, and through nothing
                             else (RUNNER_OWN_PROXY) */
    SPAWN_EVENTS = 64,    /* events is there: output goes to files for a pod's stream container */
    _SPAWN_FLAGS_ALL = 127,
};

#define SPAWN_STRINGS_MAX 65536 /* argv and env together */
#define SPAWN_PATHS_MAX   256

struct spawn_path {
    bool writable;
    const char *path;
};

/* Strings are NUL-terminated inside the payload; vectors are allocated by parse and freed by done.
 */
struct msg_spawn {
    uint64_t request_id; /* a repeated SPAWN with a known id is not applied again */
    uint32_t flags;
    uint16_t rows, cols;
    uint64_t timeout_ms;     /* 0: none; the runner's own timer: SIGTERM, then SIGKILL */
    uint32_t kill_grace_ms;  /* between the two */
    uint32_t drain_grace_ms; /* how long EXIT waits for a pipe that a background child holds */
    uint64_t limit_as_bytes; /* RLIMIT_AS of this exec; 0: the sandbox's */
    uint32_t limit_cpu_s;    /* RLIMIT_CPU of this exec; 0: none */
    char **argv;             /* NULL-terminated, at least one */
    char **env;              /* NULL-terminated, whole */
    const char *cwd;         /* "" : the sandbox's workdir */
    const char *tag; /* the control plane's own, at most PROTO_TAG_MAX; STATE gives it back */
    struct spawn_path *paths;
    size_t n_paths;
    const char *pins;   /* with SPAWN_PINNED: see toolrunner/pin.h; "" otherwise */
    const char *events; /* with SPAWN_EVENTS: see toolrunner/events.h; "" otherwise */
};

struct msg_stdin {
    uint64_t offset;
    const uint8_t *data;
    size_t len;
};
struct msg_stdin_close {
    uint64_t offset; /* end of the stream: applied once all bytes before it arrived */
};
struct msg_signal {
    uint64_t request_id;
    int32_t signo; /* to the process group; SIGTERM is followed by SIGKILL after kill_grace_ms */
    uint32_t kill_grace_ms; /* 0: no follow-up */
};
struct msg_resize {
    uint16_t rows, cols;
};
struct msg_ack {
    uint8_t which; /* enum output_stream */
    uint64_t offset;
};
/* MSG_FORGET, MSG_DRAINING: empty */
struct msg_open_result {
    int32_t error; /* 0 or an errno */
};
struct msg_connect {
    uint16_t port; /* on the sandbox's loopback */
};
struct msg_data {
    uint64_t offset;
    const uint8_t *data;
    size_t len;
};
struct msg_data_ack {
    uint64_t offset;
};
struct msg_data_end {
    uint64_t offset; /* of the end: so many bytes there were */
};
/* The payload is empty for an ordinary end, which is all that older releases know: their control
 * planes take a reset for one, and their runners are sent none (RUNNER_RESETS). */
struct msg_close {
    bool reset; /* the other side of the connection broke: what came may not be all */
};

struct msg_hello_ok {
    uint32_t version;
    uint64_t generation;
    uint32_t n_execs;  /* so many STATE frames follow */
    uint32_t features; /* enum runner_features; a runner from before there were any sends none */
};
/* What a runner can do that one which was started by an older release cannot: the control plane
 * may be newer than the runners of living sandboxes. */
enum runner_features {
    RUNNER_CONNECTS = 1,
    RUNNER_OWN_PROXY = 2,  /* there is a proxy, and Landlock can hold a command to a port (ABI 4) */
    RUNNER_PINS_NAMED = 4, /* it has the builtin pin-named */
    RUNNER_RESETS = 8,     /* it takes CLOSE with a reset */
};
struct msg_state {
    uint64_t request_id;
    uint32_t pid;
    uint8_t started, exited; /* exited: EXIT is sent again once output is acknowledged */
    uint64_t stdin_received;
    uint64_t acked[2], end[2]; /* kept output: bytes acked..end of each stream */
    const char *tag;           /* as SPAWN gave it */
};
struct msg_started {
    uint64_t request_id;
    uint32_t pid; /* in the sandbox's pid namespace */
};
struct msg_spawn_failed {
    uint64_t request_id;
    int32_t error;     /* errno */
    const char *stage; /* "exec", "chdir", "limits", ... */
};
struct msg_output {
    uint8_t which;
    uint64_t offset;
    const uint8_t *data;
    size_t len;
};
enum exit_flags {
    EXIT_TIMED_OUT = 1,
    EXIT_PIPE_HELD =
        2,             /* a background process still has the output open; later bytes are dropped */
    EXIT_SIGNALED = 4, /* MSG_SIGNAL was sent to it before it ended */
    EXIT_ALONE = 8,    /* and no other process is left beside the runner */
    EXIT_OUT_OF_MEMORY = 16, /* the kernel has killed at the limit of memory, in a pod */
};
struct msg_exit {
    int32_t wait_status; /* as wait() gave it */
    uint32_t flags;
    uint64_t user_us, system_us, max_rss_kb, wall_us;
    uint64_t end[2]; /* total bytes of each output stream */
};
struct msg_stdin_ack {
    uint64_t offset; /* bytes written to the command, or dropped because it closed its stdin */
    uint8_t closed;  /* the command no longer reads */
};
struct msg_open {
    uint8_t kind;  /* enum open_kind */
    uint32_t exec; /* the stream of the exec whose own proxy it came through; 0: the proxy that all
                      share */
};
enum open_kind {
    OPEN_GATEWAY = 1, /* bytes follow as DATA */
    OPEN_SOCKET = 2,  /* the program's socket comes with the frame as SCM_RIGHTS; OPEN_RESULT is the
                         last frame of the stream */
};
struct msg_connected {
    int32_t error; /* 0 or an errno; EACCES: the port is one of the runner's own listeners */
};

#define PROTO_MESSAGES(X)                                                                          \
    X(hello, HELLO)                                                                                \
    X(spawn, SPAWN)                                                                                \
    X(stdin, STDIN)                                                                                \
    X(stdin_close, STDIN_CLOSE)                                                                    \
    X(signal, SIGNAL)                                                                              \
    X(resize, RESIZE)                                                                              \
    X(ack, ACK)                                                                                    \
    X(open_result, OPEN_RESULT)                                                                    \
    X(data, DATA)                                                                                  \
    X(connect, CONNECT)                                                                            \
    X(data_ack, DATA_ACK)                                                                          \
    X(data_end, DATA_END)                                                                          \
    X(close, CLOSE)                                                                                \
    X(hello_ok, HELLO_OK)                                                                          \
    X(state, STATE)                                                                                \
    X(started, STARTED)                                                                            \
    X(spawn_failed, SPAWN_FAILED)                                                                  \
    X(output, OUTPUT)                                                                              \
    X(exit, EXIT)                                                                                  \
    X(stdin_ack, STDIN_ACK)                                                                        \
    X(open, OPEN)                                                                                  \
    X(connected, CONNECTED)

#define PROTO_DECLARE(name, TYPE)                                                                  \
    int msg_##name##_format(struct strbuf *out, uint32_t stream, const struct msg_##name *m);      \
    int msg_##name##_parse(const uint8_t *payload, size_t len, struct msg_##name *ret);
PROTO_MESSAGES(PROTO_DECLARE)
#undef PROTO_DECLARE

/* All of an OUTPUT frame but its m->len bytes, which the caller sends behind it. */
#define MSG_OUTPUT_HEAD (FRAME_HEADER_SIZE + 9)
void msg_output_head(uint8_t out[MSG_OUTPUT_HEAD], uint32_t stream, const struct msg_output *m);

/* Frees the vectors that msg_spawn_parse() allocated. */
void msg_spawn_done(struct msg_spawn *m);
