/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer of a Kubernetes API server means.
 *
 * It is decided by the HTTP code, the reason of the Status object and the reasons of its causes.
 * The message is for people and never decides anything: its words differ between versions. Not
 * every refusal is a Status object: paths that no API serves, and exec before its upgrade, answer
 * with plain text or nothing. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kube_outcome {
    KUBE_DONE,
    /* The server refused, and said why. */
    KUBE_INVALID,      /* 400, 405, 406, 415, 422: the request is at fault, and will stay so */
    KUBE_UNAUTHORIZED, /* 401: the credential */
    KUBE_FORBIDDEN,    /* 403: one of five meanings, which only further questions tell apart */
    KUBE_TERMINATING,  /* 403 with the cause NamespaceTerminating */
    KUBE_NOT_FOUND,    /* 404: of a POST, the namespace */
    KUBE_NO_API,       /* 404 without a Status: the server has no such group or version */
    KUBE_EXISTS,       /* 409 AlreadyExists */
    KUBE_CONFLICT,     /* any other 409: a stale resourceVersion, another uid */
    KUBE_EXPIRED,      /* 410: the resourceVersion or the page is too old */
    KUBE_TOO_LARGE,    /* 413 */
    KUBE_BUSY,         /* 429 */
    KUBE_FAILED,       /* any other answer from 300 on: the server or what is behind it */
    /* There was no whole answer: what the request has done is not known. */
    KUBE_UNREACHABLE, /* no connection, or it broke */
    KUBE_UNTRUSTED,   /* the server's certificate is not of the given authorities, or ours not good
                         enough for it */
    KUBE_LATE,        /* the deadline passed */
    KUBE_STRANGE,     /* what answers is no API server, or says too much */
    _KUBE_OUTCOME_MAX,
};

#define KUBE_REASON_SIZE  64
#define KUBE_FIELD_SIZE   128
#define KUBE_MESSAGE_SIZE 400

struct kube_result {
    enum kube_outcome outcome;
    int http;                        /* 0: no whole answer */
    char reason[KUBE_REASON_SIZE];   /* of the Status; "" */
    char field[KUBE_FIELD_SIZE];     /* of the first cause that names one; "" */
    uint32_t retry_after_s;          /* 0: the server did not say */
    bool is_status;                  /* the body was a Status object */
    char message[KUBE_MESSAGE_SIZE]; /* for people, printable ASCII; nothing is decided by it */
};

const char *kube_outcome_name(enum kube_outcome outcome); /* "not_found" */
/* Was there no whole answer, so that the request may have been carried out? */
bool kube_is_unknown(enum kube_outcome outcome);
/* Is it busy, failing or away, so that the same request may be carried out later? */
bool kube_may_pass(enum kube_outcome outcome);

/* Fills ret from a whole answer. body may be empty; retry_after_s is of the header of that name, 0
 * where there was none. */
void kube_result_parse(struct kube_result *ret, int http, const char *body, size_t len,
                       uint32_t retry_after_s);
/* Fills ret from a Status object that came otherwise: as an event of a watch, or on a channel. */
void kube_result_from_status(struct kube_result *ret, const json_t *status);
/* Fills ret where there was no whole answer. */
void kube_result_fail(struct kube_result *ret, enum kube_outcome outcome, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Seconds of a Retry-After header as API servers write it, at most KUBE_RETRY_MAX_S; 0 for anything
 * else. */
#define KUBE_RETRY_MAX_S 3600
uint32_t kube_parse_retry_after(const char *value, size_t len);

/* How a command that was run by exec has ended: what its status channel said. */
enum kube_exit_kind {
    KUBE_EXIT_UNKNOWN, /* nothing was said: it may run, have run or never have started */
    KUBE_EXIT_CODE,
    KUBE_EXIT_FAILED, /* it was not started, or was lost; why is in the result */
};
struct kube_exit {
    enum kube_exit_kind kind;
    int code; /* of KUBE_EXIT_CODE: 0 to 255 */
    struct kube_result why;
};
void kube_exit_parse(struct kube_exit *ret, const char *text, size_t len);
