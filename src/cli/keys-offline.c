/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys-offline.h"

#include <errno.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/output.h"
#include "identity/keys.h"
#include "libsbx/sbx.h"
#include "store/state-dir.h"
#include "store/store.h"

#define KEYS_MAX 100000 /* the most that max_keys can be */

static void on_recorded(void *data, const struct error *err)
{
    if (err)
        *(struct error *)data = *err;
}

static json_t *with_secret(const struct key *key, const char *secret)
{
    json_t *o = key_to_json(key);
    json_object_set_new(o, "secret", json_string(secret));
    return o;
}

static json_t *keys_change(struct keys *k, enum keys_verb verb, const char *subject,
                           const struct key_request *request, struct error *err)
{
    char secret[KEY_SECRET_SIZE];
    const struct key *key;
    switch (verb) {
    case KEYS_LIST:
        return json_pack("{s:o}", "keys", keys_to_json(k));
    case KEYS_ADD:
        key = keys_add(k, request, secret, on_recorded, err, err);
        return key ? with_secret(key, secret) : NULL;
    case KEYS_ROTATE:
        if (keys_rotate(k, subject, secret, on_recorded, err, err) < 0)
            return NULL;
        return with_secret(keys_find(k, subject), secret);
    case KEYS_REVOKE:
        if (keys_revoke(k, subject, false, on_recorded, err, err) < 0)
            return NULL;
        return json_pack("{s:s, s:b}", "id", subject, "revoked", 1);
    }
    return NULL;
}

/* The store writes what is queued when it closes. */
static json_t *change_in(const char *dir, enum keys_verb verb, const char *subject,
                         const struct key_request *request, struct error *err)
{
    uv_loop_t loop;
    json_t *answer = NULL;
    uv_loop_init(&loop);
    struct store *store = store_open(dir, &loop, err);
    struct keys_options o = {.loop = &loop, .store = store, .config.max = KEYS_MAX};
    struct keys *keys = store ? keys_open(&o, err) : NULL;
    if (keys)
        answer = keys_change(keys, verb, subject, request, err);
    keys_stop(keys);
    store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    keys_free(keys);
    uv_loop_close(&loop);
    if (answer && !error_is_set(err))
        return answer;
    json_decref(answer);
    return NULL;
}

/* add may come before the daemon's first start; anything else must find what it is about. */
static int check_exists(const char *state_dir, enum keys_verb verb, struct error *err)
{
    _cleanup_free_ char *path = xasprintf("%s/control/state.db", state_dir);
    if (verb == KEYS_ADD || access(path, F_OK) == 0)
        return 0;
    return error_set(err, ERROR_NOT_FOUND, errno, "'%s'", path);
}

int keys_offline(const char *state_dir, enum keys_verb verb, const char *subject,
                 const struct key_request *request, json_t **ret, struct sbx_error *err)
{
    struct error e = {0};
    struct state_dir dir = STATE_DIR_INIT;
    json_t *answer = NULL;
    if (check_exists(state_dir, verb, &e) == 0 &&
        state_dir_open(&dir, state_dir, false, (uid_t)-1, (gid_t)-1, &e) == 0)
        answer = change_in(dir.control_path, verb, subject, request, &e);
    if (e.code == ERROR_CONFLICT)
        error_prefix(&e, "the daemon is running, use its unix socket or token with -addr");
    state_dir_close(&dir);
    if (!answer)
        return cli_set_error(err, error_code_name(e.code), "%s", e.message);
    *ret = answer;
    return 0;
}
