/* SPDX-License-Identifier: Apache-2.0 */
/* The runner copies itself into a directory that a container of any image sees read-only: so an
 * image needs nothing of ours in it. */
#pragma once

#define INSTALL_OPTION  "--install"
#define INSTALL_PROGRAM "mas-toolrunner"

/* An exit status; what went wrong is printed on standard error. */
int install_runner(const char *dir);
