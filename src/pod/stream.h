/* SPDX-License-Identifier: Apache-2.0 */
/* mas-stream: brings the output of a sandbox's commands from files to the control plane.
 *
 * Theory of operation. It runs in a container of its own, whose only other thing is a directory,
 * read-only, in which the runner files output (toolrunner/events.h). It pushes what is there over
 * one WebSocket, as the sbx API's ingest has it, each piece with its offset. It keeps nothing: a
 * connection begins with all that the files still have, which is what the control plane has not
 * acknowledged to the runner, and the control plane drops what it knows. So neither the end of this
 * program nor of a connection, nor of the control plane, loses or doubles anything.
 *
 * Nothing that it reads is parsed: names and bytes of files become strings of JSON, and of what the
 * control plane sends only pings and the end count. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct url;

/* stream-files.c */
struct stream_files;
/* Takes the descriptor of the directory. id: the sandbox's, borrowed. */
struct stream_files *stream_files_new(int dir_fd, const char *id);
/* Looks which execs there are. 0 or -errno. */
int stream_files_scan(struct stream_files *f);
/* All that is there is to be sent again. */
void stream_files_rewind(struct stream_files *f);
/* The next event as JSON in place of what out has; false: there is none now. */
bool stream_files_next(struct stream_files *f, struct strbuf *out);

/* stream-socket.c */
struct stream_socket {
    int fd;
    struct strbuf in, out;
};
#define STREAM_WHY_SIZE 160
/* Connects and shakes hands. 0, or -errno with why in words. */
int stream_socket_open(struct stream_socket *s, const struct url *url, const char *id,
                       char why[STREAM_WHY_SIZE]);
void stream_socket_close(struct stream_socket *s);
/* Queues one text frame. */
int stream_socket_put(struct stream_socket *s, const char *data, size_t len);
/* Writes what the kernel takes, or reads what there is and answers pings. 0 or -errno. */
int stream_socket_write(struct stream_socket *s);
int stream_socket_read(struct stream_socket *s);
