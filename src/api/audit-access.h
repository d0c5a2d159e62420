/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that were turned away for want of a key, or of a role, on record. A caller without a key
 * must not be able to fill the disk: so many a minute are recorded one by one, the rest is counted.
 */
#pragma once

#include <stdint.h>

struct api_request;
struct error;

struct access_audit {
    int64_t window_ms;
    unsigned recorded, suppressed;
};

void access_audit_refused(struct access_audit *l, const struct api_request *req,
                          const struct error *err);
