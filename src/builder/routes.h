/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a network namespace leads anywhere. */
#pragma once

/* Of the network that a process is in: proc_fd is a procfs, process a pid in it or "self". 0 where
 * there is nothing but a loopback; -EPERM where there is a route, and with it a way to a host or to
 * another sandbox; else -errno, and then it is not known. */
int routes_check_none(int proc_fd, const char *process);
