/* The gateway's process between execution and gateway_main(): everything it needs is in argv. */
#pragma once

#include <stdbool.h>

struct config;

#define GATEWAY_FLAG "--gateway-stage" /* argv[1] of a gateway */
#define GATEWAY_SOCK 3                 /* its end of the control plane's socket */

/* A new NULL-terminated vector for execve(); made in a child that is about to be replaced. */
char **gateway_stage_argv(bool privileged, const struct config *c);
/* Returns the exit status. */
int gateway_stage(int argc, char **argv);
