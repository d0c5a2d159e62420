/* SPDX-License-Identifier: Apache-2.0 */
/* A socket that came out of a sandbox.
 *
 * The process that passes a descriptor can keep a copy of it, and chooses what it is. So a
 * receiver first makes sure that it is the one thing it may be, a connected TCP socket, and then
 * never relies on anything that the copy can change: the socket's O_NONBLOCK is not trusted
 * (relay.c reads and writes with MSG_DONTWAIT; splice() has no such flag for sockets), and
 * neither is SO_LINGER, by which close() would wait. */
#pragma once

#include <stdbool.h>

/* 0 where fd is a connected TCP socket over IPv4, else -errno: nothing that is no socket, no unix
 * socket, none that listens, none that is still to be connected. */
int client_socket_check(int fd);
/* Whether the other end has got all that was written to it. */
bool client_socket_is_drained(int fd);
/* Closes it so that the other end gets an error instead of an ordinary end. A Unix socket, which
 * knows no such thing, is closed as by client_socket_close(). */
void client_socket_reset(int *fd);
/* Closes it without waiting for what was not read. */
void client_socket_close(int *fd);
