/* The image keeper's process between execution and keeper_main(): everything it needs is in argv
 * and at fixed descriptors. */
#pragma once

struct supervise_options;

#define KEEPER_FLAG "--keeper-stage" /* argv[1] of an image keeper */

enum keeper_fd {
    KEEPER_SOCK = 3, /* its end of the control plane's socket */
    KEEPER_DIR,      /* O_PATH of the directory of all images, to compare with what was mounted */
    KEEPER_DEFAULT_IMAGE, /* the tar that comes with the daemon, where there is one */
};
#define KEEPER_FDS 3

/* A new NULL-terminated vector for execve(); made in a child that is about to be replaced. */
char **keeper_stage_argv(const struct supervise_options *o);
/* Returns the exit status. */
int keeper_stage(int argc, char **argv);
