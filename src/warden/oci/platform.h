/* What gVisor's kernel stands on here. To find out takes long where a platform is there and does
 * not work, so it is tried once, by a sandbox that nobody asked for, when the daemon has been up
 * for a moment; what was found is kept for other daemons until the host's next boot, beside the
 * program's size and time. */
#pragma once

struct warden;

/* Reads what an earlier daemon found. Before the warden leaves the host's view. */
void oci_platform_open(struct warden *w);
/* Plans the trial, where nothing is known. */
void oci_platform_plan(struct warden *w);
/* A sandbox runs on this one: 1 and its index. */
void oci_platform_learn(struct warden *w, unsigned platform);
/* One did not start on what is known. */
void oci_platform_forget(struct warden *w);
