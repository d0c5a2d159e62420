/* SPDX-License-Identifier: Apache-2.0 */
/* How much each owner has: sandboxes, and commands that run in them; and how much it may. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;
struct manager;
struct sandbox;
struct sandbox_maker;

/* Of one owner, while it has anything. */
struct owner_use {
    size_t sandboxes, execs;
    char name[];
};

/* A sandbox enters or leaves the tables; its commands start and end. */
void owner_enter(struct sandbox *sb);
void owner_leave(struct sandbox *sb);
void owner_exec_started(struct sandbox *sb);
void owner_exec_ended(struct sandbox *sb);

/* ERROR_LIMIT when there may be no further one. */
int owner_check_sandbox(const struct manager *m, const struct sandbox_maker *by, struct error *err);
int owner_check_exec(const struct sandbox *sb, struct error *err);
/* Whether its owner is far from its quota. */
bool owner_has_room(const struct sandbox *sb);
