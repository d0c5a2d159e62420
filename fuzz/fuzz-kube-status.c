/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: a code by the first two bytes, then a body. 2xx is done, nothing else is; what is told
 * is printable and ends. The same body is tried as a status channel's. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kube/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t size)
{
    if (strnlen(text, size) == size)
        abort();
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            abort();
}

static void check_result(const struct kube_result *r)
{
    check_text(r->message, sizeof(r->message));
    check_text(r->reason, sizeof(r->reason));
    check_text(r->field, sizeof(r->field));
    if (r->outcome >= _KUBE_OUTCOME_MAX || r->retry_after_s > KUBE_RETRY_MAX_S)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_result r;
    struct kube_exit e;
    if (size < 2)
        return 0;
    int http = 200 + (data[0] * 256 + data[1]) % 400;
    const char *body = (const char *)data + 2;
    kube_result_parse(&r, http, body, size - 2, 0);
    check_result(&r);
    if ((r.outcome == KUBE_DONE) != (http < 300) || kube_is_unknown(r.outcome))
        abort();
    kube_exit_parse(&e, body, size - 2);
    check_result(&e.why);
    if (e.code < 0 || e.code > 255 || (e.code && e.kind != KUBE_EXIT_CODE))
        abort();
    kube_parse_retry_after(body, size - 2);
    return 0;
}
