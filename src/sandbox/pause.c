/* SPDX-License-Identifier: Apache-2.0 */
/* Pausing: the runtime stops all processes of a sandbox where they are, its runner included, so
 * whatever would need the runner's answer is refused until it goes on. Time goes on: an idle
 * sandbox is deleted at its TTL, and a command whose timeout passed meanwhile is ended on resume.
 *
 * A control plane may die at any step. The row has the wish before anything stands still; whether
 * it stands still, the next control plane asks the warden, which has frozen it and outlives both.
 * Resuming always goes to the warden, whatever is believed here. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "sandbox/internal.h"

struct pause_call {
    struct sandbox *sb;
    bool on;
    sandbox_pause_fn cb;
    void *data;
};

static void set_error(struct error *err, const struct sandbox *sb, int result)
{
    if (result == -EOPNOTSUPP)
        error_set(err, ERROR_UNSUPPORTED, 0, "this host has no freezer to pause a sandbox with");
    else if (result == -ESRCH || result == -ENOENT || result == -EBUSY)
        error_set(err, ERROR_CONFLICT, 0, "sandbox %s is not running", sb->id);
    else
        error_set(err, ERROR_INTERNAL, -result, "freeze sandbox %s", sb->id);
}

/* The flags go before the callback, which may ask for the opposite at once. */
static void pause_finish(struct pause_call *call, const struct error *err)
{
    struct sandbox *sb = call->sb;
    sb->pausing = sb->pause_wished = false;
    call->cb(call->data, sb, err);
    sandbox_unref(sb);
    free(call);
}

static void write_row(struct sandbox *sb)
{
    if (persist_wants_sandbox(sb) && sb->state != SANDBOX_GONE)
        persist_sandbox(sb, NULL, NULL);
}

static void set_paused(struct sandbox *sb, bool on)
{
    bool changed = sb->paused != on;
    sb->paused = on;
    if (changed)
        sandbox_announce_pause(sb);
}

static void on_frozen(void *data, int result)
{
    struct pause_call *call = data;
    struct sandbox *sb = call->sb;
    struct error err = {0};
    fault_point(call->on ? "pause.frozen" : "resume.thawed");
    if (result < 0)
        set_error(&err, sb, result);
    else
        set_paused(sb, call->on);
    sb->pause_wished = false;
    if (result < 0 || !call->on)
        write_row(sb);
    pause_finish(call, result < 0 ? &err : NULL);
}

/* The sandbox may have ended while its wish was being written. */
static void pause_freeze(struct pause_call *call)
{
    struct sandbox *sb = call->sb;
    struct error err = {0};
    if (sb->instance) {
        sb->ops->freeze(sb->instance, call->on, on_frozen, call);
        return;
    }
    set_error(&err, sb, -ESRCH);
    pause_finish(call, &err);
}

static void on_wish_written(void *data, const struct error *err)
{
    struct pause_call *call = data;
    struct error copy = {0};
    fault_point("pause.wish-written");
    if (!err) {
        pause_freeze(call);
        return;
    }
    error_set(&copy, ERROR_NO_SPACE, 0, "the pause cannot be recorded: %s", err->message);
    pause_finish(call, &copy);
}

/* One that an earlier control plane left may have no connection yet, because it stands still: it
 * must be let go on. */
static int check_pausable(const struct sandbox *sb, bool on, struct error *err)
{
    bool restored = sb->state == SANDBOX_CREATING && sb->restored;
    if (sb->state != SANDBOX_READY && !(restored && (sb->paused || !on)))
        return sandbox_check_ready(sb, err);
    if (sb->pausing)
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is being paused or resumed", sb->id);
    if (!sb->instance || !sb->ops->freeze)
        return error_set(err, ERROR_UNSUPPORTED, 0, "runtime '%s' cannot pause a sandbox",
                         sb->ops->name);
    /* The warden and the runner would not answer that call before the sandbox goes on. */
    if (on && sb->n_keeping)
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is being kept, copied or restored",
                         sb->id);
    return 0;
}

void sandbox_pause(struct sandbox *sb, bool on, sandbox_pause_fn cb, void *data)
{
    struct error err = {0};
    if (check_pausable(sb, on, &err) < 0 || (on && sb->paused)) {
        cb(data, sb, err.code ? &err : NULL);
        return;
    }
    struct pause_call *call = new0(struct pause_call);
    *call = (struct pause_call){sandbox_ref(sb), on, cb, data};
    sb->pausing = true;
    sb->pause_wished = on;
    if (on && persist_wants_sandbox(sb))
        persist_sandbox(sb, on_wish_written, call);
    else
        pause_freeze(call);
}

bool sandbox_is_paused(const struct sandbox *sb)
{
    return sb->paused && (sb->state == SANDBOX_READY || sb->state == SANDBOX_CREATING);
}
