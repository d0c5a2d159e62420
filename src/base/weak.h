/* SPDX-License-Identifier: Apache-2.0 */
/* A reference that does not keep its object alive.
 *
 * A callback that may come after the object has ended carries one instead of a pointer: the object
 * ends when it likes, and the callback learns that there is nothing left to go on with. The object
 * has a member `struct weak *weak`, NULL until the first reference is asked for. Single-threaded.
 */
#pragma once

struct weak;

/* Another reference to object, whose own member is *own. The caller gives it to weak_unref(). */
struct weak *weak_ref(struct weak **own, void *object);
/* The object, or NULL when it has ended; the reference stays. NULL is fine. */
void *weak_get(const struct weak *w);
/* The same, and gives the reference back. NULL is fine. */
void *weak_unref(struct weak *w);
/* The object ends, or has nothing more to do with those references: they all lead to NULL. */
void weak_clear(struct weak **own);
