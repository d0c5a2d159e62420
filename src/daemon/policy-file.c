/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "audit/audit.h"
#include "guard/gate.h"
#include "loop/loop.h"
#include "runtime/warden-client.h"

#define LOOK_MS   1000
#define LAST_GOOD "policy.last"

struct policy_file {
    struct policy_file_options options;
    struct loop_timer look;
    struct stat seen; /* of the file that was read last */
    /* Of a changed file at the last look; "": there was none. It is taken when the next look finds
     * it untouched, with the same bytes, because an editor may be half way through writing it. */
    char candidate[AUDIT_DIGEST_SIZE];
    struct stat candidate_stat;
    bool looking;
    bool read;   /* the last look has got the text */
    bool unread; /* the log says that no look gets it */
};

/* --- reading */

static int read_text(int fd, struct strbuf *out, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, ERROR_INVALID, 0, "it is not a regular file");
    int r = fd_read_all(fd, out);
    if (r == -EFBIG)
        return error_set(err, ERROR_TOO_LARGE, 0, "it is over %d bytes", RULES_FILE_MAX);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "read it") : 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static char *kept_path(const struct policy_file *f, const char *suffix)
{
    return xasprintf("%s/" LAST_GOOD "%s", f->options.state_dir, suffix);
}

/* One that is not the newest must not be there for the next control plane; without any, that one
 * refuses to start on a bad file, which is the safe side. */
static void keep_copy(const struct policy_file *f, const struct strbuf *text)
{
    _cleanup_free_ char *path = kept_path(f, ""), *temp = kept_path(f, ".new");
    _cleanup_close_ int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, text->data ? text->data : "", text->len) < 0 ||
        rename(temp, path) < 0) {
        log_warn("the policy cannot be kept for a restart: %s", strerror(errno));
        unlink(path);
    }
}

/* Whether the file was not written since the last look, and its bytes are the same. */
static bool has_settled(struct policy_file *f, const struct stat *st, const struct strbuf *text)
{
    char digest[AUDIT_DIGEST_SIZE];
    audit_digest(text->data ? text->data : "", text->len, digest);
    bool same = strcmp(digest, f->candidate) == 0 && same_file(st, &f->candidate_stat);
    snprintf(f->candidate, sizeof(f->candidate), "%s", same ? "" : digest);
    f->candidate_stat = *st;
    return same;
}

/* Takes fd. settled: the file is meant as it is; otherwise it must be the same at two looks. */
static int load_policy(struct policy_file *f, int fd, bool settled, const struct identity *who,
                       struct error *err)
{
    _cleanup_close_ int owned = fd;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RULES_FILE_MAX + 65536);
    struct stat st;
    fstat(owned, &st);
    int r = read_text(owned, &text, err);
    if (r < 0) {
        error_prefix(err, "%s", f->options.name);
        f->seen = st;
        return r;
    }
    f->read = true;
    if (!settled && !has_settled(f, &st, &text))
        return 0;
    f->seen = st;
    r = gate_load_policy(f->options.gate, f->options.name, text.data ? text.data : "", text.len,
                         who, err);
    if (r > 0)
        keep_copy(f, &text);
    return r;
}

/* --- while the daemon runs */

struct request {
    struct policy_file *file;
    struct identity who;
    bool has_who, forced;
    policy_file_fn done;
    void *data;
};

/* What is wrong with a text is the gate's to log. That there is none is said here, because a signal
 * has no answer that would say it: each time that an operator asks, and by the looks of every
 * second once. */
static void tell_unread(struct policy_file *f, bool forced, const struct error *err)
{
    bool unread = error_is_set(err) && !f->read;
    if (unread && (forced || !f->unread))
        log_error("policy is not changed: %s", err->message);
    f->unread = unread;
}

static void on_reply(void *data, const struct plan_reply *reply, int fd)
{
    struct request *q = data;
    struct error err = {0};
    struct stat st;
    bool changed = false;
    q->file->looking = q->file->read = false;
    if (fd < 0)
        error_set(&err, ERROR_UNAVAILABLE, reply ? reply->error : 0, "%s cannot be opened",
                  q->file->options.name);
    else if (!q->forced && fstat(fd, &st) == 0 && same_file(&st, &q->file->seen))
        fd_close(&fd);
    else
        changed = load_policy(q->file, fd, q->forced, q->has_who ? &q->who : NULL, &err) > 0;
    tell_unread(q->file, q->forced, &err);
    if (q->done)
        q->done(q->data, changed, error_is_set(&err) ? &err : NULL);
    free(q);
}

static void ask_warden(struct policy_file *f, const struct identity *who, bool forced,
                       policy_file_fn done, void *data)
{
    struct plan plan = {.op = PLAN_POLICY};
    struct request *q = new0(struct request);
    *q = (struct request){.file = f, .forced = forced, .done = done, .data = data};
    if (who) {
        q->who = *who;
        q->has_who = true;
    }
    f->looking = true;
    warden_client_send(f->options.warden, &plan, on_reply, q);
}

static void on_look(void *data)
{
    struct policy_file *f = data;
    if (!f->looking)
        ask_warden(f, NULL, false, NULL, NULL);
}

void policy_file_reload(struct policy_file *f, const struct identity *who, policy_file_fn done,
                        void *data)
{
    struct error err = {0};
    if (f->options.name) {
        ask_warden(f, who, true, done, data);
        return;
    }
    error_set(&err, ERROR_CONFLICT, 0, "no policy_file is configured");
    if (done)
        done(data, false, &err);
}

/* --- start and end */

static int load_kept(struct policy_file *f)
{
    struct error err = {0};
    _cleanup_free_ char *path = kept_path(f, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : load_policy(f, fd, true, NULL, &err);
    if (r < 0 && r != -ENOENT)
        log_error("the policy that was kept cannot be used: %s",
                  error_is_set(&err) ? err.message : strerror(-r));
    f->seen = (struct stat){0}; /* the file itself was not looked at */
    return r;
}

/* A control plane that is started again goes on with what the one before it had: an editor may be
 * half way through writing the file. The regular looks at the file find out. */
static int load_first(struct policy_file *f, struct error *err)
{
    if (!f->options.name || (f->options.again && load_kept(f) >= 0))
        return 0;
    int fd = warden_client_policy(f->options.warden, err);
    if (fd >= 0)
        return load_policy(f, fd, true, NULL, err);
    error_prefix(err, "%s", f->options.name);
    return -EINVAL;
}

struct policy_file *policy_file_open(const struct policy_file_options *o, struct error *err)
{
    struct policy_file *f = new0(struct policy_file);
    f->options = *o;
    if (load_first(f, err) < 0) {
        free(f);
        return NULL;
    }
    loop_timer_init(&f->look, o->loop, on_look, f);
    if (o->name)
        loop_timer_start_every(&f->look, LOOK_MS);
    return f;
}

static void on_closed(void *data)
{
    free(data);
}

void policy_file_close(struct policy_file *f)
{
    if (f)
        loop_timer_close(&f->look, on_closed, f);
}
