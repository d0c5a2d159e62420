/* The api's own state, for the files of this folder. */
#pragma once

#include "api/api.h"
#include "api/audit-access.h"

struct actions;
struct idempotency_table;
struct route;

struct api {
    struct api_options options;
    struct idempotency_table *idempotency;
    struct actions *actions;
    /* api_add_routes() */
    const struct route *more_routes;
    size_t n_more_routes;
    void *more_data;
    struct access_audit access;
    uint64_t requests;
    uint64_t replies[6]; /* by the status' first digit */
    uint64_t websockets;
};
