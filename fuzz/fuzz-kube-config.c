/* SPDX-License-Identifier: Apache-2.0 */
/* A kubeconfig, and a program's credential: what is taken has TLS, an authority and a credential
 * that a header can carry, and comes through another process as it was. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "kube/access.h"
#include "kube/plugin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_access(const struct kube_access *a)
{
    struct error err = {0};
    _cleanup_kube_access_ struct kube_access b = {0};
    if (strncmp(a->server, "https://", 8) != 0 || !a->ca || (!a->token && !a->key && !a->plugin))
        abort();
    for (const char *p = a->token; p && *p; p++)
        if (*p <= ' ' || *p > '~')
            abort();
    _cleanup_json_ json_t *o = kube_access_format(a);
    if (kube_access_parse(&b, o, &err) < 0 || strcmp(a->server, b.server) != 0 ||
        strcmp(a->ca, b.ca) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_access_options o = {.allow_plugin = true};
    struct error err = {0};
    _cleanup_kube_access_ struct kube_access a = {0};
    _cleanup_kube_credential_ struct kube_credential c = {0};
    if (memmem(data, size, "/dev", 4) || memmem(data, size, "/proc", 5))
        return 0; /* files that never end, or wait */
    if (kube_access_parse_config(&a, (const char *)data, size, "f", "/nonexistent", &o, &err) == 0)
        check_access(&a);
    err = (struct error){0};
    kube_credential_parse(&c, (const char *)data, size, "client.authentication.k8s.io/v1", &err);
    return 0;
}
