/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of actions share. Only action.c and action-table.c write its status. */
#pragma once

#include "api/action.h"
#include "base/list.h"
#include "guard/approval.h"

struct sandbox;

enum action_status {
    STATUS_PENDING,
    STATUS_APPROVED,
    STATUS_EXECUTING,
    STATUS_COMPLETED,
    STATUS_FAILED,
    STATUS_REJECTED,
    _STATUS_MAX,
};
struct action {
    struct actions *set;
    struct list node;
    char id[APPROVAL_ID_SIZE];
    char *type, *skill_id;
    json_t *parameters;
    struct action_plan plan;
    enum action_status status;
    struct identity who;
    json_t *result; /* or NULL */
    char *error;    /* or NULL */
    int64_t created_ns, completed_ns;
    struct sandbox *held; /* kept from being idle while this may still run in it */
    /* until the submitter has an answer */
    action_fn fn;
    void *data;
};

struct actions {
    struct api *api;
    struct map *by_id;
    struct list all; /* oldest first */
    size_t n_pending, n;
    struct approval_watch watch;
};

/* action-table.c */
bool action_is_finished(const struct action *a);
void action_enter(struct actions *s, struct action *a);
/* Out of the tables, and freed. */
void action_leave(struct action *a);
void action_set_status(struct action *a, enum action_status status);
/* The submitter's answer, once. */
void action_answer(struct action *a, const struct error *err);
/* Puts it on record; the submitter is answered then. */
void action_save(struct action *a);
void action_finish(struct action *a, enum action_status status, json_t *result, const char *error);
/* For store_load(); data is the set. */
void action_load_row(void *data, const char *key, const char *body, size_t len);
