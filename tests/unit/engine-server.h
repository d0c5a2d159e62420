/* SPDX-License-Identifier: Apache-2.0 */
/* What answers for an engine in tests: a thread at a Unix socket, one connection after another, one
 * request each. Answers are bytes, so that they can be anything. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define SERVER_REQUESTS_MAX 16
#define SERVER_TEXT_MAX     (256 * 1024)

/* Heads of answers that end with the connection. */
#define ANSWER_HEAD(status)  "HTTP/1.1 " status "\r\nConnection: close\r\n"
#define ANSWER(status, body) ANSWER_HEAD(status) "\r\n" body
#define OK(body)             ANSWER("200 OK", body)

struct engine_server {
    char dir[64], path[80];
    int listen_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    const char *const *answers; /* NULL-terminated; the last one again and again */
    void (*answer)(int fd);     /* in place of them, where it is not NULL */
    size_t n_requests;
    char *requests[SERVER_REQUESTS_MAX]; /* as they came, head and body */
};

void server_start(struct engine_server *s);
void server_stop(struct engine_server *s);
/* From here on; what was asked before is forgotten. */
void server_set(struct engine_server *s, const char *const *answers, void (*answer)(int fd));
/* The nth request since, "" for none; its head starts with "GET /path HTTP/1.1". */
const char *server_request(struct engine_server *s, size_t n);
bool server_was_asked(struct engine_server *s, size_t n, const char *method_and_path);
/* For those that write answers themselves: false once nobody reads. */
bool server_write(int fd, const char *data, size_t len);
