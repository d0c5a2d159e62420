/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that an OCI runtime builds, with a launcher: a process that the warden clones into a
 * pid and a mount namespace of its own and that goes on as the program mas-oci (oci/launcher.h). It
 * writes the runtime's configuration, runs it, and stays with the container. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "builder/flavour.h"
#include "proto/oci.h"
#include "warden/program.h"

struct cell;
struct cell_ends;
struct error;
struct warden;

/* A runtime's program. */
struct oci_program {
    char path[OCI_PATH_SIZE]; /* absolute, "" for none; below /usr, which launchers see too */
    struct program_task task; /* while it is asked for its version */
    enum oci_backend backend;
    int error;                   /* it could not be asked, or did not answer as programs do */
    char text[OCI_VERSION_SIZE]; /* the version, or what is wrong; "" while nothing is known */
};

struct oci_host {
    struct oci_program programs[_OCI_BACKEND_MAX];
    int program_fd; /* mas-oci, or -1 */
    int run_fd;     /* the host's /run, or -1: no runtime needs it */
    dev_t kvm_device;
    bool platform_known;
    struct watch *version_timer, *trial_timer;
};
struct oci_host *oci_host(const struct warden *w);

/* --- spawn.c */
/* In the clone: becomes the launcher. Never returns. */
void oci_main(const struct cell *s, const struct cell_ends *ends);
/* Gives a new launcher what it waits for. 0 or -errno. */
int oci_admit(struct cell *s);
/* What is the same for all that mas-oci is started for. */
void oci_start_init(const struct warden *w, enum oci_task task, struct oci_start *ret);

/* --- version.c: each program is asked once for its version, soon after the start, by a mas-oci
 * without rights, without being waited for: a control plane that is there already hears of it by an
 * event. */
void oci_program_init(struct oci_program *p, struct warden *w, enum oci_backend b);
void oci_versions_plan(struct warden *w);

/* --- platform.c: what gVisor's kernel stands on here is found out and kept by launchers, which
 * takes long where a platform is there and does not work. So it is tried by a sandbox that no
 * caller asked for, when the daemon has been up for a moment and nothing is known. */
void oci_platform_plan_trial(struct warden *w);
/* A sandbox did not start: what is known may not be so any more. */
void oci_platform_forget(struct warden *w);
