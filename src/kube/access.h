/* SPDX-License-Identifier: Apache-2.0 */
/* How a Kubernetes API server is reached and who we are to it: from the files of a pod's service
 * account, or from a context of a kubeconfig.
 *
 * What would make the connection weaker is refused by name: insecure-skip-tls-verify, a server
 * without TLS or without an authority of its own, passwords, auth-provider (which Kubernetes has
 * removed), impersonation, and programs unless the operator allows them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct error;

#define KUBE_POD_DIR  "/var/run/secrets/kubernetes.io/serviceaccount"
#define KUBE_FILE_MAX (1u << 20) /* bytes of a kubeconfig, and of any file that it names */

struct kube_access {
    char *server;      /* "https://host:port", with a path where there is one, no slash behind it */
    char *server_name; /* that the certificate has instead of the host's; NULL */
    char *proxy;       /* URL; NULL: none, whatever the environment says */
    char *ca;          /* PEM, one or more authorities; the only ones that count */
    char *ca_file;     /* read again when it changes; NULL */
    char *certificate, *key; /* PEM of a client certificate; NULL */
    char *token, *token_file;
    char *namespace_; /* the context's; NULL */
    char **plugin;    /* argv of an exec plugin; NULL */
    char **plugin_env;
    char *plugin_version; /* its apiVersion */
};

void kube_access_done(struct kube_access *a);
#define _cleanup_kube_access_ __attribute__((cleanup(kube_access_done)))

struct kube_access_options {
    const char *context; /* NULL: current-context */
    bool allow_plugin;
};

/* text: of the kubeconfig that error messages call name. Files that it names are relative to dir,
 * and read here, so that the process that uses the access needs no right to them; token_file and
 * ca_file are read again later where they can be. */
int kube_access_parse_config(struct kube_access *ret, const char *text, size_t len,
                             const char *name, const char *dir,
                             const struct kube_access_options *options, struct error *err);
int kube_access_load_config(struct kube_access *ret, const char *path,
                            const struct kube_access_options *options, struct error *err);
/* dir: KUBE_POD_DIR; host and port: of the variables KUBERNETES_SERVICE_HOST and _PORT. */
int kube_access_load_pod(struct kube_access *ret, const char *dir, const char *host,
                         const char *port, struct error *err);

/* As an object for the process that uses it, and back. */
json_t *kube_access_format(const struct kube_access *a);
int kube_access_parse(struct kube_access *ret, const json_t *object, struct error *err);

/* UTF-8 without NUL, which every text of an access is. */
bool kube_is_text(const char *data, size_t len);
/* A text of at most KUBE_FILE_MAX bytes; -EINVAL for anything else. */
int kube_file_read(const char *path, char **ret);
/* The text of a token file without white space around it; -EINVAL where there is none in it, or
 * what no header can carry. */
int kube_token_read(const char *path, char **ret);
