/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of a command that has something to clean up: SIGINT, SIGTERM, SIGHUP and SIGWINCH become
 * bytes in a pipe, to be read when it suits. One more of the first three than SIGNALS_TO_QUIT ends
 * sbx at once, whatever it is waiting for. */
#pragma once

#define SIGNALS_TO_QUIT 3

/* Installs the handlers on the first call; the descriptor becomes readable, one byte per signal. */
int signals_fd(void);
/* The next signal number, or 0 when there is none. */
int signals_read(void);
