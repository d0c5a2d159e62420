/* The gateway's process between execution and gateway_main(): everything it needs is in argv. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GATEWAY_FLAG       "--gateway-stage" /* argv[1] of a gateway */
#define GATEWAY_ARGS_FIXED 3                 /* before the rules */
#define GATEWAY_SOCK       3                 /* its end of the control plane's socket */

/* Fills argv (without a NULL at the end) and returns how many there are; strings are borrowed. */
size_t gateway_stage_argv(char **argv, bool privileged, char *const *allow_private);
/* Returns the exit status. */
int gateway_stage(int argc, char **argv);
