/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that are starting: children that the runner does not wait for.
 *
 * From the moment that such a child has the tool's user id, the tool may stop it or starve it. So
 * the runner never waits for one without a deadline (start_wait()), and most it does not wait for
 * at all.
 *
 * A child with memory of its own tells by a pipe how its start went: nothing and the end of the
 * file when it went well, else one start_report. The tool may be able to look into that child where
 * fs.suid_dumpable is not 0, so a report is checked as a stranger's.
 *
 * A child that shares the runner's memory has a slot: its stack, its plan and copies of all that
 * the plan points to. It is the child's until the kernel clears the slot's word, which it does when
 * the child leaves our memory by execve() or by its end (CLONE_CHILD_CLEARTID). The runner does not
 * poll: the word is looked at when there is news of the child, when its time to end early is over,
 * and when another child wants a slot.
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

#define START_STAGE_SIZE 32

struct start_report {
    int error;
    char stage[START_STAGE_SIZE];
};

/* In the exec. */
struct start {
    struct start_slot *slot; /* NULL: the child has left our memory, or never shared it alone */
    bool reports;            /* the child's report has not come yet: */
    int report_fd;           /* it comes here */
    struct start_report report;
    int error;         /* 0, or it failed */
    const char *stage; /* at this step */
};

/* Neither has the child left, nor has it told that it failed. */
bool start_is_pending(const struct start *s);
/* The child's report comes from fd, which is taken and does not block. */
void start_await_report(struct start *s, int fd);
/* In the child. */
void start_tell_failure(int fd, int error, const char *stage);

/* A slot for s with a copy of the plan, *ret_plan; NULL when all are taken or it does not fit. */
struct start_slot *start_slot_take(struct start *s, const struct spawn_plan *plan,
                                   struct spawn_plan **ret_plan);
void *start_slot_stack(struct start_slot *slot); /* its upper end */
/* The word: not 0 while the child is there. */
int *start_slot_word(struct start_slot *slot);
/* There is no child. */
void start_slot_give(struct start_slot *slot);

/* Has it left our memory, or told us? Then error and stage are known, and the slot is another's to
 * take. */
bool start_has_left(struct start *s);
/* The same, waiting for it until then (CLOCK_MONOTONIC). */
bool start_wait(struct start *s, int64_t until_ns);
/* wait() says that it is gone. */
void start_on_exit(struct start *s);
/* The caller does not ask any more; the slot stays the child's. */
void start_forget(struct start *s);
/* Whether a child in a slot still shares our memory. */
bool start_any_shares(void);
/* Nothing runs: gives memory back. */
void start_trim(void);
