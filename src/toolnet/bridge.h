/* SPDX-License-Identifier: Apache-2.0 */
/* A place libcurl can connect to, joined to a stream that is connected already.
 *
 * libcurl 7.88 (Debian 12) ignores CURL_SOCKOPT_ALREADY_CONNECTED and connects such a socket again,
 * which fails (curl issue 10626). So it is given the name of an abstract socket of this process,
 * and what it writes there is relayed to the stream. The code that runs the transfer calls
 * bridge_pump() in its loop. */
#pragma once

#include <curl/curl.h>

#include "gateway/relay.h"

#define BRIDGE_POLL_FDS 2

struct bridge {
    int listen_fd; /* until libcurl has connected */
    int local_fd;  /* libcurl's connection, from our side */
    int stream_fd;
    char name[40]; /* for CURLOPT_ABSTRACT_UNIX_SOCKET */
    struct relay up, down;
};

/* Takes stream_fd, also on failure. */
int bridge_open(struct bridge *b, int stream_fd);
void bridge_done(struct bridge *b);
/* Moves what can be moved without waiting. */
void bridge_pump(struct bridge *b);
/* What to wait for before the next bridge_pump(): fills fds and returns how many. */
unsigned bridge_wait_fds(const struct bridge *b, struct curl_waitfd fds[BRIDGE_POLL_FDS]);
