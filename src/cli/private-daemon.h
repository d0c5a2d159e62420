/* SPDX-License-Identifier: Apache-2.0 */
/* A mas-sandboxd of our own, for one command: it listens on a socket in a private temporary
 * directory that also holds its state, and both go when it is stopped. */
#pragma once

struct private_daemon;
struct sbx_error;

struct private_daemon *private_daemon_start(struct sbx_error *err);
const char *private_daemon_address(const struct private_daemon *d);
void private_daemon_stop(struct private_daemon *d); /* NULL is fine */
