/* SPDX-License-Identifier: Apache-2.0 */
/* Telling a service manager how we are (sd_notify(3)'s protocol). */
#pragma once

/* Connects to NOTIFY_SOCKET while paths still mean something. The descriptor, or -1 without one. */
int notify_open(void);
/* "READY=1", "STOPPING=1", ... ; nothing happens when fd is -1. */
void notify_send(int fd, const char *state);
