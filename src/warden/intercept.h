/* SPDX-License-Identifier: Apache-2.0 */
/* Interceptors: the process of one sandbox that ends TLS for hosts which a secret is for
 * (src/intercept). The warden starts it with the sealed pairs that the control plane hands over,
 * the keys of just these seals, and the seed of the sandbox's certificate authority, which depends
 * on the warden's key and the sandbox's id alone. It opens no seal itself.
 *
 * An interceptor is asked for before its sandbox is made, because its certificate goes into the
 * sandbox, and ends with it. One that dies is started again when it is asked for again. */
#pragma once

struct plan;
struct plan_reply;
struct warden;

/* PLAN_INTERCEPT. pairs_fd (borrowed): a sealed memory file of struct intercept_pairs. Replies
 * once, now or later, with the socket that takes connections. */
void intercept_start(struct warden *w, const struct plan *p, int pairs_fd,
                     struct plan_reply *reply);
/* A file with the certificate of the sandbox's interceptor, which the caller closes; -ENOENT. */
int intercept_open_certificate(const struct warden *w, const char *id);
/* The sandbox is gone, or will not be. */
void intercept_end(struct warden *w, const char *id);
/* Ends those whose sandboxes were never made: no cell will ask for them any more. */
void intercept_end_unused(struct warden *w);
void intercept_end_all(struct warden *w);
