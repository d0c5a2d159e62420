/* SPDX-License-Identifier: Apache-2.0 */
/* libsbx: a client of mas-sandboxd.
 *
 * Functions return 0 on success and -1 on failure with *err filled (err may be NULL). Outputs named
 * ret_* are written only on success. Strings in results belong to the result and go with its
 * _done(). A client and what was opened from it belong to one thread at a time; use one client a
 * thread. Programs that talk TLS should ignore SIGPIPE. This header needs nothing but libc. */
#ifndef SBX_H
#define SBX_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SBX_DEFAULT_ADDRESS   "http://127.0.0.1:8080"
#define SBX_RESPONSE_MAX      (64u << 20) /* a buffered answer; longer ones fail */
#define SBX_LINE_MAX          (16u << 20) /* one line of a stream, one WebSocket message */
#define SBX_CONNECT_TIMEOUT_S 10

const char *sbx_version(void);

/* code is stable ("not_found", "unauthorized", "unavailable", ...); http_status is 0 when no answer
 * came; message is for people. */
struct sbx_error {
    char code[32];
    int http_status;
    char message[512];
    char approval_id[40]; /* with the code "pending_approval": what a person has to decide about */
};

/* --- connection ---------------------------------------------------------------------------- */

struct sbx_client;

/* Where a daemon of this user's listens when its address is "unix:": /run/mas-sandbox.sock for
 * root, else in $XDG_RUNTIME_DIR. The caller frees it; NULL without such a directory. */
char *sbx_default_socket(void);

/* address: "http://host:port", "https://host:port", "host:port", "unix:PATH", or NULL for
 * $MAS_SANDBOX_URL, else the socket above where there is one, else SBX_DEFAULT_ADDRESS. A default
 * address is used only if the kernel says that root or this user listens there. token: NULL for
 * $MAS_SANDBOX_TOKEN, "" for none. Nothing is sent yet. */
struct sbx_client *sbx_client_new(const char *address, const char *token, struct sbx_error *err);
void sbx_client_free(struct sbx_client *c); /* NULL is fine */
const char *sbx_client_address(const struct sbx_client *c);
/* Whole-request limit in milliseconds; 0, the default, is none. Streams are not limited. */
void sbx_client_set_timeout(struct sbx_client *c, long timeout_ms);
/* "wait": calls that a person has to approve wait for that; an approval's id: the next call is the
 * one it was given for; NULL: such calls fail with "pending_approval". */
int sbx_client_set_approval(struct sbx_client *c, const char *approval, struct sbx_error *err);
/* PEM file of certificate authorities for https; NULL for the system's. */
int sbx_client_set_ca_file(struct sbx_client *c, const char *path, struct sbx_error *err);

/* --- any request --------------------------------------------------------------------------- */

struct sbx_response {
    int status;
    char *body; /* NUL-terminated */
    size_t body_len;
};
void sbx_response_done(struct sbx_response *r);

/* A path from a format in which every %s is percent-encoded and nothing else is special. The caller
 * frees it. */
char *sbx_path_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sends a JSON body (NULL for none) and buffers the answer, whatever its status. */
int sbx_request(struct sbx_client *c, const char *method, const char *path, const char *body,
                struct sbx_response *ret, struct sbx_error *err);
/* As sbx_request(), but an answer that is not 2xx is a failure with the daemon's code and message.
 * ret may be NULL. */
int sbx_call(struct sbx_client *c, const char *method, const char *path, const char *body,
             struct sbx_response *ret, struct sbx_error *err);

/* Called with pieces as they come; not 0 ends the transfer, which then fails with code
 * "canceled". */
typedef int sbx_write_fn(void *data, const char *piece, size_t len);
/* Fills buf and returns how many bytes; 0 ends; negative fails the transfer. */
typedef long sbx_read_fn(void *data, char *buf, size_t size);

/* Sends a body piece by piece. size is the length, or -1 when unknown. ret may be NULL. */
int sbx_upload(struct sbx_client *c, const char *method, const char *path, sbx_read_fn *read,
               void *data, long long size, struct sbx_response *ret, struct sbx_error *err);
/* Receives a body piece by piece. */
int sbx_download(struct sbx_client *c, const char *path, sbx_write_fn *write, void *data,
                 struct sbx_error *err);
/* Calls on_line for each line (without its newline) of an NDJSON answer. */
int sbx_stream_lines(struct sbx_client *c, const char *method, const char *path, const char *body,
                     sbx_write_fn *on_line, void *data, struct sbx_error *err);

/* --- events of an exec --------------------------------------------------------------------- */

struct sbx_event {
    const char *type;   /* "start", "output", "exit", ... */
    const char *stream; /* "stdout", "stderr" or "" */
    const char *status; /* of an exit: "completed", "timed_out", ... or "" */
    const char *error;  /* of an exit: why the command did not run or end by itself, or "" */
    long long seq;      /* -1 when absent */
    const char *data;   /* bytes the command wrote, decoded; NUL-terminated, may hold NULs */
    size_t data_len;
    int has_exit_code;
    int exit_code;
    const char *json; /* the event as it came */
    size_t json_len;
};
/* What ev points to is valid during the call. Not 0 ends the stream without an error. */
typedef int sbx_event_fn(void *data, const struct sbx_event *ev);

/* --- WebSocket ----------------------------------------------------------------------------- */

struct sbx_ws;

struct sbx_ws *sbx_ws_open(struct sbx_client *c, const char *path, struct sbx_error *err);
void sbx_ws_free(struct sbx_ws *ws); /* says goodbye if the connection still works; NULL is fine */
/* For poll(): the descriptor, and the events that make sbx_ws_receive() worth calling. The first
 * messages may have come with sbx_ws_open(): receive until SBX_WS_TIMEOUT before waiting. */
int sbx_ws_fd(const struct sbx_ws *ws);
short sbx_ws_events(const struct sbx_ws *ws);
/* Queues a message and sends what the socket takes; the rest goes out in sbx_ws_receive(). */
int sbx_ws_send(struct sbx_ws *ws, int binary, const void *data, size_t len, struct sbx_error *err);
size_t sbx_ws_queued(const struct sbx_ws *ws);

enum sbx_ws_result {
    SBX_WS_FAILED = -1,
    SBX_WS_CLOSED = 0,
    SBX_WS_MESSAGE = 1,
    SBX_WS_TIMEOUT = 2
};
struct sbx_ws_message {
    int binary;
    const char *data; /* NUL-terminated; valid until the next sbx_ws_receive() */
    size_t len;
};
/* Waits up to timeout_ms (-1 means for ever, 0 not at all) for the next message. */
enum sbx_ws_result sbx_ws_receive(struct sbx_ws *ws, int timeout_ms, struct sbx_ws_message *ret,
                                  struct sbx_error *err);

/* --- tool calls ---------------------------------------------------------------------------- */

struct sbx_tool_call {
    const char *id;         /* echoed; NULL for a default */
    const char *tool;       /* "calculator", ... */
    const char *args;       /* JSON object; NULL for {} */
    const char *policy;     /* JSON object; NULL for none */
    const char *sandbox_id; /* NULL for a one-shot sandbox; not for local calls */
};
struct sbx_tool_result {
    int ok;
    int exit_code;
    char *result;        /* JSON text, or NULL */
    char *error_code;    /* "policy_denied", "tool_failed", ... or NULL; NULL in local calls */
    char *error_message; /* or NULL */
};
void sbx_tool_result_done(struct sbx_tool_result *r);

/* A tool that fails or is denied is a result with ok 0, not an error. What a tool says itself did
 * not succeed is ok, with "success" false in the result. */
int sbx_tool_execute(struct sbx_client *c, const struct sbx_tool_call *call,
                     struct sbx_tool_result *ret, struct sbx_error *err);
/* Starts a daemon for this one call and talks to it over stdin and stdout. daemon: its path, or
 * NULL for $MAS_SANDBOXD, else mas-sandboxd beside this program or in the sbin of its bin, else in
 * $PATH. */
int sbx_tool_execute_local(const char *daemon, const struct sbx_tool_call *call,
                           struct sbx_tool_result *ret, struct sbx_error *err);
/* Over HTTP if MAS_SANDBOX_MODE is "http", locally if it is unset, empty or "local". */
int sbx_tool_execute_env(const struct sbx_tool_call *call, struct sbx_tool_result *ret,
                         struct sbx_error *err);
/* Where sbx_tool_execute_local() finds the daemon; the caller frees it. */
char *sbx_find_daemon(struct sbx_error *err);

/* --- sandboxes and streaming exec ---------------------------------------------------------- */

struct sbx_sandbox {
    char *id;
    char *name_space;
    char *pod_name;
    char *phase; /* only from sbx_sandbox_get() */
};
void sbx_sandbox_done(struct sbx_sandbox *s);

/* spec: the JSON body of POST /sandboxes; NULL for {}. */
int sbx_sandbox_create(struct sbx_client *c, const char *spec, struct sbx_sandbox *ret,
                       struct sbx_error *err);
int sbx_sandbox_get(struct sbx_client *c, const char *id, struct sbx_sandbox *ret,
                    struct sbx_error *err);
/* Stops all its processes where they are, or lets them go on. */
int sbx_sandbox_pause(struct sbx_client *c, const char *id, int on, struct sbx_error *err);
int sbx_sandbox_delete(struct sbx_client *c, const char *id, struct sbx_error *err);

struct sbx_exec_result {
    char *stdout_data; /* NUL-terminated, may hold NULs */
    size_t stdout_len;
    char *stderr_data;
    size_t stderr_len;
    char *status;
    char *error; /* why it did not run or end by itself, or "" */
    int has_exit_code;
    int exit_code;
    long long duration_ms; /* -1 when the daemon did not say */
};
void sbx_exec_result_done(struct sbx_exec_result *r);

/* Runs and waits. timeout_s 0 is the daemon's default. */
int sbx_exec(struct sbx_client *c, const char *id, const char *const argv[], int timeout_s,
             struct sbx_exec_result *ret, struct sbx_error *err);
/* Starts; the caller frees *ret_exec_id. */
int sbx_exec_start(struct sbx_client *c, const char *id, const char *const argv[], int timeout_s,
                   char **ret_exec_id, struct sbx_error *err);
/* Every event of an exec from the first, in order, until its exit. */
int sbx_exec_stream(struct sbx_client *c, const char *id, const char *exec_id,
                    sbx_event_fn *on_event, void *data, struct sbx_error *err);

struct sbx_exec_status {
    char *sandbox_id;
    char *exec_id;
    char *status;
    int has_exit_code;
    int exit_code;
    char *started_at;
    char *finished_at;         /* or NULL */
    long long timeout_seconds; /* 0 when none */
    char *error;               /* or NULL */
};
void sbx_exec_status_done(struct sbx_exec_status *s);
int sbx_exec_get(struct sbx_client *c, const char *id, const char *exec_id,
                 struct sbx_exec_status *ret, struct sbx_error *err);
int sbx_exec_cancel(struct sbx_client *c, const char *id, const char *exec_id,
                    struct sbx_exec_status *ret, struct sbx_error *err);

/* --- one-shot runs and files --------------------------------------------------------------- */

/* request: the JSON body of POST /v1/run. */
int sbx_run(struct sbx_client *c, const char *request, struct sbx_exec_result *ret,
            struct sbx_error *err);
/* As sbx_run(), with the events as they happen. */
int sbx_run_stream(struct sbx_client *c, const char *request, sbx_event_fn *on_event, void *data,
                   struct sbx_error *err);
/* Events of an exec after sequence number `since` (-1: from the first); with follow, until its
 * exit. */
int sbx_exec_logs(struct sbx_client *c, const char *id, const char *exec_id, int follow,
                  long long since, sbx_event_fn *on_event, void *data, struct sbx_error *err);

/* The caller frees *ret_data. */
int sbx_file_read(struct sbx_client *c, const char *id, const char *path, char **ret_data,
                  size_t *ret_len, struct sbx_error *err);
/* mode: permission bits, or -1 for the daemon's default. */
int sbx_file_write(struct sbx_client *c, const char *id, const char *path, const void *data,
                   size_t len, int mode, struct sbx_error *err);
int sbx_file_mkdir(struct sbx_client *c, const char *id, const char *path, int parents,
                   struct sbx_error *err);
int sbx_file_remove(struct sbx_client *c, const char *id, const char *path, int recursive,
                    struct sbx_error *err);
int sbx_file_move(struct sbx_client *c, const char *id, const char *from, const char *to,
                  struct sbx_error *err);

#ifdef __cplusplus
}
#endif

#endif
