/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list. A node is in at most one list; an unlinked node points to itself.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define LIST_INIT(l)                                                                               \
    {                                                                                              \
        &(l), &(l)                                                                                 \
    }

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}
static inline void list_append(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

#define list_for_each(pos, head, type, member)                                                     \
    for (type *pos = container_of((head)->next, type, member); &pos->member != (head);             \
         pos = container_of(pos->member.next, type, member))
/* The body may remove pos (and only pos). */
#define list_for_each_safe(pos, head, type, member)                                                \
    for (type *pos = container_of((head)->next, type, member),                                     \
              *pos##_next = container_of(pos->member.next, type, member);                          \
         &pos->member != (head);                                                                   \
         pos = pos##_next, pos##_next = container_of(pos->member.next, type, member))
