/* The gateway's process between execution and gateway_main(): everything it needs is in argv. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct config;

#define GATEWAY_FLAG       "--gateway-stage" /* argv[1] of a gateway */
#define GATEWAY_ARGS_FIXED 10                /* before the rules */
#define GATEWAY_SOCK       3                 /* its end of the control plane's socket */

/* Fills argv, NULL at the end included: room for GATEWAY_ARGS_FIXED + CONFIG_LIST_MAX + 1. Strings
 * are borrowed from c or static. */
void gateway_stage_argv(char **argv, bool privileged, const struct config *c);
/* Returns the exit status. */
int gateway_stage(int argc, char **argv);
