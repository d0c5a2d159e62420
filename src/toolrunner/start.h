/* Commands that are starting: children that share the runner's memory while it goes on.
 *
 * Such a child has a slot: its stack, its plan and copies of all that the plan points to. It is the
 * child's until the kernel clears the slot's word, which it does when the child leaves our memory
 * by execve() or by its end (CLONE_CHILD_CLEARTID). Nobody polls: the word is looked at when there
 * is news of the child, when its time to end early is over, and when another child wants a slot.
 *
 * Slots are a few and static: what was never used costs nothing, and start_trim() gives the rest
 * back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spawn_plan;
struct start_slot;

#define START_SLOTS       8                     /* a child more is waited for */
#define START_STACK_SIZE  (10 * 1024)           /* its top shares a page with a usual plan */
#define START_SLOT_SIZE   (64 * 1024)           /* a larger command is waited for */
#define START_PATIENCE_NS (100 * 1000 * 1000ll) /* how long a signal waits for the program */

/* In the exec. */
struct start {
    struct start_slot *slot; /* NULL: the child has left our memory, or never shared it alone */
    int error;               /* 0, or it failed */
    const char *stage;       /* at this step */
};

/* A slot for s with a copy of the plan, *ret_plan; NULL when all are taken or it does not fit. */
struct start_slot *start_slot_take(struct start *s, const struct spawn_plan *plan,
                                   struct spawn_plan **ret_plan);
void *start_slot_stack(struct start_slot *slot); /* its upper end */
/* The word: not 0 while the child is there. */
int *start_slot_word(struct start_slot *slot);
/* There is no child. */
void start_slot_give(struct start_slot *slot);

/* Has it left our memory? Then error and stage are known, and the slot is another's to take. */
bool start_has_left(struct start *s);
/* The same, waiting for it until then (CLOCK_MONOTONIC). */
bool start_wait(struct start *s, int64_t until_ns);
/* wait() says that it is gone. */
void start_on_exit(struct start *s);
/* Nobody asks any more; the slot stays the child's. */
void start_forget(struct start *s);
/* Nothing runs: gives memory back. */
void start_trim(void);
