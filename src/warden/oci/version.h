/* Which versions of the OCI runtimes are there. Each program is asked once, soon after the start,
 * in a child without rights; what it prints is bounded and made harmless, and nobody waits for it:
 * a control plane that is there already hears of it by an event. */
#pragma once

#include <sys/types.h>

#include "proto/plan.h"

struct warden;

#define OCI_VERSION_SIZE 64

struct oci_version {
    struct warden *warden;
    enum oci_backend backend;
    pid_t pid; /* > 0: it is being asked */
    int fd;    /* what it prints */
    struct watch *child_watch, *timer;
    int error;                   /* it could not be asked, or did not answer as programs do */
    char text[OCI_VERSION_SIZE]; /* the version, or what is wrong; "" while nothing is known */
};

void oci_versions_init(struct warden *w);
/* Asks all that were found. */
void oci_versions_ask(struct warden *w);
void oci_versions_done(struct warden *w);
/* Fills error and message of a probe's reply. */
void oci_version_describe(const struct warden *w, enum oci_backend b, struct plan_reply *ret);
