/* SPDX-License-Identifier: Apache-2.0 */
/* The api's own state, for the files of this folder. */
#pragma once

#include "api/api.h"
#include "api/request.h"
#include "api/audit-access.h"

struct actions;
struct webhook;
struct idempotency_table;
struct validate_queue;

struct api {
    struct services services;
    struct idempotency_table *idempotency;
    struct actions *actions;
    struct validate_queue *validations;
    struct webhook *webhook; /* or NULL */
    struct api_extension more;
    struct access_audit access;
    uint64_t requests;
    uint64_t replies[6]; /* by the status' first digit */
    uint64_t websockets;
};
