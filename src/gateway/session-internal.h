/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a session share. Each has one part of its way:
 *
 *   session.c          birth, end, its one timer, what it waits for
 *   session-request.c  what the client asks for (a line, or the head of an HTTP request)
 *   session-decide.c   whether it may: the one place where rules are asked
 *   session-resolve.c  the name's addresses
 *   session-dns.c      the same where a name server can be asked without libc's resolver
 *   session-connect.c  the connection to one of them
 *   session-share.c    what one sandbox or key may have of what all share
 *   session-intercept.c  the connection, where the sandbox's interceptor is to read it
 *   session-tls.c      the connection, where the client leaves TLS to the proxy
 *   session-relay.c    the bytes in both directions
 *   session-answer.c   what the client and the control plane are told
 */
#pragma once

#include "base/address.h"
#include "base/target.h"
#include "gateway/relay.h"
#include "gateway/session.h"

/* Addresses of one name that are looked at, of each kind. */
#define FOUND_MAX 32

/* Kinds of addresses, each of which is a question. */
enum { LOOKUP_IPV4, LOOKUP_IPV6, _LOOKUP_KINDS };

/* A name in the resolver; outlives a session that does not wait for it. */
struct lookup {
    struct list node;
    struct gateway *gateway;
    struct session *session; /* or NULL */
    char label[GATEWAY_LABEL_SIZE];
    uint64_t owner;
    char host[TARGET_HOST_MAX + 1];
    bool threaded; /* a thread has it */
    int error;     /* of getaddrinfo(); 0: these were found, in the order in which they are tried */
    struct address found[_LOOKUP_KINDS * FOUND_MAX];
    size_t n_found;
    struct dns_exchange *exchange; /* with a name server, or NULL */
};

/* Addresses of one name that are tried, one after another. */
#define ADDRESSES_MAX 4

enum session_state {
    SESSION_REQUEST, /* waits for the whole request, which collects in up */
    SESSION_RESOLVE, /* the name is with the resolver, or waits for that; nothing is read */
    SESSION_CONNECT, /* a connect to addresses[current] is under way */
    SESSION_RELAY,
    SESSION_REFUSE, /* the last answer is in down, or sent; waits for it to be read */
    SESSION_RESET,  /* one side was cut or has gone: waits until the other has got all that came */
};

struct session {
    struct list node;
    struct gateway *gateway;
    enum session_state state;
    uint64_t tag;
    char label[GATEWAY_LABEL_SIZE];
    uint64_t owner;
    struct session_rules rules;
    bool any_host;
    bool images;         /* it is of what fetches images */
    bool proxy;          /* the client speaks to a proxy: HTTP, unless */
    bool socks;          /* its first byte was that of SOCKS, and */
    bool greeted;        /* the answer to its greeting was sent */
    bool tls;            /* it has asked for a document of an https:// URL */
    bool tunnel;         /* it has asked for bytes in both directions, and not for a document */
    uint8_t socks_reply; /* enum socks_reply for a request that cannot be read */
    bool carried; /* the client's socket is the control plane's, which carries it as frames */
    bool broke;   /* of such a client: it has gone by a reset */
    bool hung_up; /* the client is gone, so that nothing more is to be learnt from its socket */
    bool unnamed; /* what it sends first is held back until it is known whether that is TLS */
    struct target target;
    bool overrides;               /* see struct rule_request */
    char *method, *path;          /* of a request that is read; NULL: a tunnel */
    char rule[GATEWAY_RULE_SIZE]; /* which decided; "": none did */
    struct address addresses[ADDRESSES_MAX];
    size_t n_addresses, current;
    int client_fd, remote_fd, report_fd; /* report_fd: -1 where no report is asked for */
    int verdict_fd; /* the interceptor says there what it refuses; -1: it decides nothing */
    struct epoll_watch client, remote, report, verdict; /* of these four; they do not close them */
    struct epoll_timer timer;
    struct lookup *lookup;     /* NULL while it waits for its turn */
    struct tls_link *tls_link; /* the thread that speaks TLS for the client, or NULL */
    struct relay up, down;     /* client to remote, remote to client */
    int64_t started_ms, connect_deadline_ms, reset_deadline_ms;
};

/* session.c */
void session_free(struct session *s);
/* The end of one that was connected, with a line in the log. */
void session_end_connected(struct session *s, const char *why);
/* The same for one whose both sides have ended. Where the server has answered and gone before the
 * client had sent all, the client gets time to read that. */
void session_end_done(struct session *s);
/* The same for a connection whose server's side was cut: its client gets an error, once it has got
 * what came before that. */
void session_end_cut(struct session *s);
/* The same for one whose client has gone without its answer: the server gets an error, once it has
 * got what the client had sent. */
void session_end_gone(struct session *s);
/* Takes what the control plane says on the report: false where it revokes the connection. */
bool session_read_report(struct session *s);
void session_close_remote(struct session *s);
void session_set_timer(struct session *s, uint64_t ms);
/* To be called before its descriptor is closed: another process may have a copy of it, and epoll
 * would go on to report that one. */
void session_unwatch(struct session *s, struct epoll_watch *w);
/* Waits for what the state, and what is in the buffers, needs next. */
void session_update_watches(struct session *s);

/* session-request.c: the client has sent something. */
void session_on_line(struct epoll_watch *client, uint32_t ready);
void session_on_proxy(struct epoll_watch *client, uint32_t ready);

/* session-decide.c */
/* s->target is known: refuses it, or goes on to the resolver or the connection. */
void session_decide(struct session *s);
/* May this session connect to that address? */
bool session_may_connect(const struct session *s, const struct address *a);
void session_refuse_address(struct session *s, enum address_class class);
/* Why a tunnel may not speak TLS to that name, or NULL. */
const char *session_why_not_name(const struct session *s, const char *name);

/* session-resolve.c */
void session_start_resolve(struct session *s);
void session_abandon_lookup(struct session *s);
/* It has found addresses, or an error: its session goes on, and it is freed. */
void lookup_end(struct lookup *l);
/* Hands it to a thread. 0 or -errno. */
int lookup_send(struct lookup *l);

/* session-dns.c */
/* Asks a name server. False: that is not to be done for this name, or cannot. */
bool lookup_ask_server(struct lookup *l);

/* session-share.c */
/* Why there is no room for this one, which is in the list already, or NULL. */
const char *session_share_refusal(const struct session *mine);
/* May its name go to the resolver now? */
bool session_share_lookup(const struct session *mine);
/* May one more line about it be logged? */
bool session_may_log(const struct session *s);

/* session-connect.c */
void session_start_connect(struct session *s);
void session_on_connected(struct epoll_watch *remote, uint32_t ready);
/* The address that was tried has failed with that errno. */
void session_connect_next(struct session *s, int error);

/* session-intercept.c */
/* Whether what it asks for, inside TLS, is for the interceptor to read. */
bool session_is_intercepted(const struct session *s);
/* The connection is there: hands it to the interceptor and speaks with that. 0 or -errno. */
int session_intercept(struct session *s);

/* session-tls.c */
/* The connection is there: from here on the other end of it speaks TLS for the client. 0 or -errno.
 */
int session_begin_tls(struct session *s);
/* The thread has ended: did the answer end in a way that its client would take for the whole? */
bool session_tls_was_cut(const struct session *s);
void session_end_tls(struct session *s);

/* session-relay.c */
void session_start_relay(struct session *s);
void session_on_client(struct epoll_watch *client, uint32_t ready);
void session_on_remote(struct epoll_watch *remote, uint32_t ready);

/* session-answer.c */
/* status: of the answer to an HTTP client; 0: what the code means. */
void session_refuse_as(struct session *s, enum gateway_code code, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define session_refuse(s, code, ...) session_refuse_as(s, code, 0, __VA_ARGS__)
/* What is in down is the last that the client gets: it has some time to read it. */
void session_let_read(struct session *s);
/* Answers the greeting of a SOCKS client: it may go on, or not. */
void session_answer_greeting(struct session *s, uint8_t method);
/* The decision was yes, and the connection is there. */
void session_answer_connected(struct session *s, const char *ip);
/* To the control plane: a connection that was there is refused all the same, by that rule. */
void session_report_refusal(struct session *s, enum gateway_code code, const char *rule,
                            const char *why);
/* To the control plane: what went each way, and for how long. */
void session_report_end(struct session *s, const char *why);
void session_on_refusal_read(struct epoll_watch *client, uint32_t ready);
