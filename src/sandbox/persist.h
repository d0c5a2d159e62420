/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes and execs as rows of the store, and an exec as the tag that its runner keeps. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "store/store.h"

struct error;
struct exec;
struct manager;
struct sandbox;
struct spec;

/* Nothing is written for sandboxes and execs that need not survive (persist_wants_*). */
bool persist_wants_sandbox(const struct sandbox *sb);
bool persist_wants_exec(const struct exec *e);
void persist_sandbox(struct sandbox *sb, store_done_fn on_durable, void *data);
/* What persist_sandbox() writes, with its id; NULL where nothing is to be. The caller frees. */
char *persist_sandbox_text(const struct sandbox *sb);
void persist_sandbox_remove(struct sandbox *sb, store_done_fn on_durable, void *data);
void persist_exec(struct exec *e, store_done_fn on_durable, void *data);
void persist_exec_remove(struct exec *e);
/* The same in two steps, for a row that is kept elsewhere before: row is made with ROW_MAX. Without
 * one, because it is too large, on_durable hears so. It is written without hurry. */
#define ROW_MAX (4 * 1024 * 1024)
int persist_exec_format(const struct exec *e, struct strbuf *row);
void persist_exec_put(struct exec *e, const struct strbuf *row, store_done_fn on_durable,
                      void *data);

/* At most PROTO_TAG_MAX bytes; the caller frees. */
char *persist_exec_tag(const struct exec *e);

/* Back from a row. spec is filled on success only. */
/* A new reference: every member, defaults included. */
json_t *persist_spec_format(const struct spec *s);
int persist_spec_parse(const json_t *obj, struct spec *ret, struct error *err);
/* Fills what a row or tag says of an exec: id, argv, times, and its result when it has ended. */
int persist_exec_parse(const json_t *obj, struct exec *e, struct error *err);
