/* Ending everything that descends from this process. */
#pragma once

#define DESCENDANTS_ROUNDS_MAX 1000

/* SIGKILL to every child, and to what becomes one by its death (we are a subreaper), until none is
 * left. */
void descendants_kill(void);
