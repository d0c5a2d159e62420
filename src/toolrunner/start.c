/* SPDX-License-Identifier: Apache-2.0 */
/* See start.h. */
#include "toolrunner/start.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "proto/message.h"
#include "toolrunner/spawn.h"

#define PAGE 4096

struct start_slot {
    char stack[START_STACK_SIZE];
    struct {
        int word; /* the kernel's to clear */
        struct start *owner;
        struct spawn_plan plan;
        struct msg_spawn msg;
        size_t used;
    } head;
    char memory[START_SLOT_SIZE - START_STACK_SIZE - 1024];
};
static_assert(sizeof(struct start_slot) <= START_SLOT_SIZE, "the head is larger than thought");

static union {
    struct start_slot slot;
    char size[START_SLOT_SIZE];
} slots[START_SLOTS] __attribute__((aligned(PAGE)));
static size_t n_touched; /* slots from the first on */

/* Acquire: what the child wrote into its plan before it left (error, stage) is read after this. */
static bool slot_is_left(const struct start_slot *slot)
{
    return !__atomic_load_n(&slot->head.word, __ATOMIC_ACQUIRE);
}

static void *slot_alloc(struct start_slot *slot, size_t size)
{
    size_t at = (slot->head.used + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (at > sizeof(slot->memory) || size > sizeof(slot->memory) - at)
        return NULL;
    slot->head.used = at + size;
    return slot->memory + at;
}

static char *slot_copy(struct start_slot *slot, const char *text)
{
    size_t size = strlen(text) + 1;
    if (size > sizeof(slot->memory) - slot->head.used)
        return NULL;
    char *copy = memcpy(slot->memory + slot->head.used, text, size);
    slot->head.used += size;
    return copy;
}

/* Room for before more in front. */
static char **slot_copy_strv(struct start_slot *slot, char *const *v, size_t before)
{
    size_t n = strv_length(v);
    char **copy = slot_alloc(slot, (before + n + 1) * sizeof(*copy));
    if (!copy)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (!(copy[before + i] = slot_copy(slot, v[i])))
            return NULL;
    }
    copy[before + n] = NULL;
    return copy;
}

/* The runner goes on while the child reads its plan, and frees the message that the plan was made
 * of. So everything that the plan points to is copied; what the child never reads is left out.
 * False where a command is too large for a slot. */
static bool slot_pack(struct start_slot *slot, const struct spawn_plan *plan)
{
    const struct msg_spawn *m = plan->msg;
    struct spawn_plan *p = &slot->head.plan;
    struct msg_spawn *copy = &slot->head.msg;
    slot->head.used = 0;
    *p = *plan;
    *copy = *m;
    p->msg = copy;
    p->argv = slot_copy_strv(slot, m->argv, SPAWN_ARGV_FREE);
    copy->env = slot_copy_strv(slot, m->env, 0);
    copy->cwd = slot_copy(slot, m->cwd);
    p->path = slot_alloc(slot, p->path_size);
    if (!p->argv || !copy->env || !copy->cwd || !p->path)
        return false;
    copy->argv = p->argv + SPAWN_ARGV_FREE;
    copy->tag = copy->pins = "";
    copy->paths = NULL;
    copy->n_paths = 0;
    return true;
}

/* A child that has left may not have been noticed yet. Its exec takes the result out of the slot
 * before another child writes over it. */
static struct start_slot *slot_find(void)
{
    for (size_t i = 0; i < START_SLOTS; i++) {
        struct start_slot *slot = &slots[i].slot;
        if (!slot_is_left(slot))
            continue;
        if (slot->head.owner)
            start_has_left(slot->head.owner);
        if (i >= n_touched)
            n_touched = i + 1;
        return slot;
    }
    return NULL;
}

struct start_slot *start_slot_take(struct start *s, const struct spawn_plan *plan,
                                   struct spawn_plan **ret_plan)
{
    struct start_slot *slot = slot_find();
    if (!slot)
        return NULL;
    if (!slot_pack(slot, plan))
        return NULL;
    *s = (struct start){.slot = slot};
    slot->head.owner = s;
    slot->head.word = 1; /* before the clone: a child that is gone at once clears it for good */
    *ret_plan = &slot->head.plan;
    return slot;
}

void *start_slot_stack(struct start_slot *slot)
{
    return slot->stack + sizeof(slot->stack);
}

int *start_slot_word(struct start_slot *slot)
{
    return &slot->head.word;
}

void start_slot_give(struct start_slot *slot)
{
    slot->head.owner->slot = NULL;
    slot->head.owner = NULL;
    slot->head.word = 0;
}

bool start_is_pending(const struct start *s)
{
    return s->slot || s->reports;
}

void start_await_report(struct start *s, int fd)
{
    *s = (struct start){.reports = true, .report_fd = fd};
}

void start_tell_failure(int fd, int error, const char *stage)
{
    struct start_report r = {.error = error};
    snprintf(r.stage, sizeof(r.stage), "%s", stage);
    fd_write_all(fd, &r, sizeof(r));
}

static void report_close(struct start *s)
{
    fd_close(&s->report_fd);
    s->reports = false;
}

/* The tool may have written the report (see start.h): a short one, or one without an error, is a
 * failed start, and its text ends where we say. */
static bool report_has_come(struct start *s)
{
    ssize_t n = read(s->report_fd, &s->report, sizeof(s->report));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n != 0) {
        bool whole = n == (ssize_t)sizeof(s->report) && s->report.error > 0;
        s->report.stage[START_STAGE_SIZE - 1] = 0;
        s->error = whole ? s->report.error : EPROTO;
        s->stage = whole ? s->report.stage : "start";
    }
    report_close(s);
    return true;
}

bool start_has_left(struct start *s)
{
    struct start_slot *slot = s->slot;
    if (s->reports)
        return report_has_come(s);
    if (!slot)
        return true;
    if (!slot_is_left(slot))
        return false;
    s->error = slot->head.plan.error;
    s->stage = slot->head.plan.stage;
    start_slot_give(slot);
    return true;
}

/* The deadline is what keeps a tool that stops its child from holding the runner: see start.h. */
bool start_wait(struct start *s, int64_t until_ns)
{
    while (!start_has_left(s)) {
        int64_t left = until_ns - clock_mono_ns();
        if (left <= 0)
            return false;
        if (s->reports) {
            struct pollfd p = {.fd = s->report_fd, .events = POLLIN};
            poll(&p, 1, (int)((left + 999999) / 1000000));
            continue;
        }
        int *word = &s->slot->head.word;
        int value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        struct timespec t = {left / 1000000000, left % 1000000000};
        /* The kernel wakes for any process, so it must not be FUTEX_PRIVATE. */
        if (value)
            syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
    }
    return true;
}

void start_on_exit(struct start *s)
{
    if (s->reports && !report_has_come(s))
        report_close(s); /* a process that still has the other end has no start to report */
    if (!s->slot)
        return;
    s->slot->head.word = 0; /* old kernels leave it as it is when there is a core dump */
    start_has_left(s);
}

/* The child may still run on the slot's stack, so the slot is not given back here: it becomes free
 * when the kernel clears its word, and slot_find() then finds no owner to ask. */
void start_forget(struct start *s)
{
    if (s->reports)
        report_close(s);
    if (s->slot)
        s->slot->head.owner = NULL;
    s->slot = NULL;
}

bool start_any_shares(void)
{
    for (size_t i = 0; i < n_touched; i++)
        if (!slot_is_left(&slots[i].slot))
            return true;
    return false;
}

/* All zero is a free slot, so pages that the kernel takes back need no reset. A slot whose child or
 * whose exec is still there stays as it is. */
void start_trim(void)
{
    size_t n = n_touched;
    n_touched = 0;
    for (size_t i = 0; i < n; i++) {
        if (slot_is_left(&slots[i].slot) && !slots[i].slot.head.owner)
            madvise(&slots[i], sizeof(slots[i]), MADV_DONTNEED);
        else
            n_touched = i + 1;
    }
}
