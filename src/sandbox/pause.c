/* Pausing: the runtime stops all processes of a sandbox where they are, its runner included, so
 * whatever would need the runner's answer is refused until it goes on. Time goes on: an idle
 * sandbox is deleted at its TTL, and a command whose timeout passed meanwhile is ended on resume.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
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

/* Also what the store calls: a pause that was answered must be known to the next control plane. */
static void finish(void *data, const struct error *err)
{
    struct pause_call *call = data;
    struct sandbox *sb = call->sb;
    sb->pausing = false;
    call->cb(call->data, sb, err);
    sandbox_unref(sb);
    free(call);
}

static void on_frozen(void *data, int result)
{
    struct pause_call *call = data;
    struct sandbox *sb = call->sb;
    struct error err = {0};
    if (result < 0) {
        set_error(&err, sb, result);
        finish(call, &err);
        return;
    }
    sb->paused = call->on;
    if (persist_wants_sandbox(sb))
        persist_sandbox(sb, finish, call);
    else
        finish(call, NULL);
}

/* One that an earlier control plane paused may have no connection yet: it must be let go on. */
static int check_pausable(const struct sandbox *sb, struct error *err)
{
    bool restored = sb->state == SANDBOX_CREATING && sb->restored && sb->paused;
    if (sb->state != SANDBOX_READY && !restored)
        return sandbox_check_ready(sb, err);
    if (sb->pausing)
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is being paused or resumed", sb->id);
    if (!sb->instance || !sb->ops->freeze)
        return error_set(err, ERROR_UNSUPPORTED, 0, "runtime '%s' cannot pause a sandbox",
                         sb->ops->name);
    return 0;
}

void sandbox_pause(struct sandbox *sb, bool on, sandbox_pause_fn cb, void *data)
{
    struct error err = {0};
    if (check_pausable(sb, &err) < 0 || sb->paused == on) {
        cb(data, sb, err.code ? &err : NULL);
        return;
    }
    struct pause_call *call = new0(struct pause_call);
    *call = (struct pause_call){sandbox_ref(sb), on, cb, data};
    sb->pausing = true;
    sb->ops->freeze(sb->instance, on, on_frozen, call);
}

bool sandbox_is_paused(const struct sandbox *sb)
{
    return sb->paused && (sb->state == SANDBOX_READY || sb->state == SANDBOX_CREATING);
}
