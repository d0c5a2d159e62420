/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that the cluster has and this daemon does not know, because its disk was lost or is an
 * older copy: what their pods say of them is read, and handed to the layer above, which makes them
 * known again.
 *
 * One that was made ahead and has no caller becomes a member of the pool again; where it is not
 * what the pool is made of now, it is deleted, one such after the other.
 *
 * Only those of the first list of a control plane are looked at, because what appears later is of a
 * create that was given up. Nothing is deleted before its record was read. One whose record cannot
 * be read is tried again behind the others, a limited number of times, and then left as it is. */
#pragma once

#include <stdbool.h>

#include "proto/kube.h"

struct cluster;
struct rebuild;
struct strbuf;

struct rebuild *rebuild_new(struct cluster *c);
void rebuild_free(struct rebuild *r); /* NULL is fine */
/* A sandbox without a holder that the list has. */
void rebuild_add(struct rebuild *r, const struct kube_reply *listed);
void rebuild_drop(struct rebuild *r); /* the list begins anew */
/* Reads all that were added; on_done(data) comes when each is known or given up. False, without
 * on_done, where there are none. */
bool rebuild_start(struct rebuild *r, void (*on_done)(void *data), void *data);
bool rebuild_is_reading(const struct rebuild *r);
/* All of a record, from the stream that answers KUBE_READ. */
int rebuild_read_text(int fd, struct strbuf *text);
/* From now on this pod is neither known nor to be deleted. */
void rebuild_leave(struct rebuild *r, const char *id, const char *why);
bool rebuild_leaves(const struct rebuild *r, const char *id);
/* It is not what the pool is made of, and is deleted when those before it are. */
bool rebuild_deletes(const struct rebuild *r, const char *id);
bool rebuild_leaves_any(const struct rebuild *r);
