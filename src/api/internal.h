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

/* A caller's use of a port that is on record (ports.c). */
#define PORT_ACCESS_MAX 128
#define PORT_ACCESS_KEY 160
struct port_access {
    char key[PORT_ACCESS_KEY];
    int64_t at_ms; /* 0 if there is none */
};

struct api {
    struct services services;
    struct idempotency_table *idempotency;
    struct actions *actions;
    struct validate_queue *validations;
    struct webhook *webhook; /* or NULL */
    struct api_extension more;
    struct access_audit access;
    struct port_access port_access[PORT_ACCESS_MAX];
    uint64_t requests;
    uint64_t replies[6]; /* by the status' first digit */
};
