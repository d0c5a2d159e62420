/* SPDX-License-Identifier: Apache-2.0 */
/* `mas-toolrunner --through-proxy HOST PORT`: standard input and output as a connection to that
 * host, by CONNECT through the sandbox's proxy. It is what ssh inside a sandbox has as its
 * ProxyCommand: the runner is in every sandbox, whatever image and whichever netcat that has. */
#pragma once

#define THROUGH_PROXY_OPTION "--through-proxy"

/* Returns the exit status: 0 when the connection has ended, 1 with the reason on standard error. */
int through_proxy(const char *host, const char *port);
