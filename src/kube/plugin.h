/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials from a program (exec of a kubeconfig), where the operator allows that.
 *
 * The program needs files, a network and the right to execute, which the process that faces the API
 * server gives up. So a process is forked before that, which does nothing but run the program when
 * it is asked to, with a limit on time and output, and pass on what it printed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct kube_access;

#define KUBE_PLUGIN_OUTPUT_MAX (64u << 10)
#define KUBE_PLUGIN_TIMEOUT_MS 60000

struct kube_plugin {
    int fd; /* a SEQPACKET socket: an empty request in, what the program printed out */
};

/* Forks. 0 or -errno. */
int kube_plugin_start(struct kube_plugin *ret, const struct kube_access *access);
void kube_plugin_stop(struct kube_plugin *p);
int kube_plugin_ask(struct kube_plugin *p);

struct kube_credential {
    char *token, *certificate, *key;
    int64_t expires_real_ns; /* 0: it does not say */
};
void kube_credential_done(struct kube_credential *c);
#define _cleanup_kube_credential_ __attribute__((cleanup(kube_credential_done)))
/* An ExecCredential of that apiVersion. */
int kube_credential_parse(struct kube_credential *ret, const char *text, size_t len,
                          const char *version, struct error *err);
