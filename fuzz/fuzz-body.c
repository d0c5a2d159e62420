/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies from hostile JSON, as the native API reads them. */
#include <stdint.h>

#include "api/spec-json.h"
#include "base/error.h"
#include "base/json.h"
#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spec defaults = {.runtime = (char *)"local"}, spec;
    struct runtime_host host = {.oci_runtime = "crun"};
    struct services o = {.default_spec = &defaults,
                         .host = &host,
                         .max_output_bytes = 1 << 20,
                         .config.exec_timeout_ms = 1000,
                         .config.exec_max_timeout_ms = 100000};
    struct error err = {0}, exec_err = {0};
    struct exec_json x;
    json_t *body = json_parse_object((const char *)data, size, &err);
    if (body) /* asks the warden what there is */
        json_object_del(body, "min_isolation");
    if (body && spec_json_parse(body, &o, &spec, &err) >= 0)
        spec_done(&spec);
    if (body && exec_json_parse(body, &o, &x, &exec_err) >= 0)
        exec_json_done(&x);
    json_decref(body);
    return 0;
}
