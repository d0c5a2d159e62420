/* SPDX-License-Identifier: Apache-2.0 */
/* sbx audit verify: what the records prove, held against a key and against checkpoints that were
 * kept elsewhere; and, as plainly, what they do not prove. */
#include "cli/cmd-audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/audit-evidence.h"
#include "cli/audit-offline.h"
#include "cli/output.h"
#include "cli/session.h"
#include "audit/verify.h"
#include "libsbx/sbx.h"

#define READ_BYTES       (256 * 1024)
#define DOUBTS_MAX       8
#define EXIT_NOT_GENUINE 1

struct result {
    struct audit_verifier v;
    struct evidence evidence;
    size_t unchained;
    char *doubts[DOUBTS_MAX];
    size_t n_doubts;
};

static void result_done(struct result *r)
{
    audit_verifier_done(&r->v);
    evidence_done(&r->evidence);
    for (size_t i = 0; i < r->n_doubts; i++)
        free(r->doubts[i]);
}

/* --- reading */

static int verifier_feed(void *data, const char *piece, size_t len)
{
    return audit_verify_feed(data, piece, len) ? 0 : -1;
}

static int read_file(const char *path, struct audit_verifier *v, struct sbx_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    _cleanup_close_ int own = standard ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    int fd = standard ? STDIN_FILENO : own;
    if (fd < 0)
        return cli_set_error(err, "invalid_request", "open '%s': %s", path, strerror(errno));
    _cleanup_free_ char *buffer = xcalloc(1, READ_BYTES);
    ssize_t n;
    while ((n = read(fd, buffer, READ_BYTES)) > 0)
        if (!audit_verify_feed(v, buffer, (size_t)n))
            return 0;
    return n < 0 ? cli_set_error(err, "internal", "read '%s': %s", path, strerror(errno)) : 0;
}

static int read_daemon(const struct args *a, struct audit_verifier *v, struct sbx_error *err)
{
    _cleanup_session_ struct session s = {0};
    if (session_open(a, false, &s, err) < 0)
        return -1;
    int r = sbx_download(s.client, "/v1/audit/export", verifier_feed, v, err);
    return v->failed ? 0 : r;
}

static int read_all(const struct args *a, struct result *r, struct sbx_error *err)
{
    const char *dir = a->state_dir;
    if (dir)
        return audit_offline_verify(dir, &r->v, &r->unchained, err);
    return a->n_rest ? read_file(a->rest[0], &r->v, err) : read_daemon(a, &r->v, err);
}

/* --- what is not proved */

__attribute__((format(printf, 2, 3))) static void result_add_doubt(struct result *r,
                                                                   const char *fmt, ...)
{
    va_list ap;
    char text[400];
    if (r->n_doubts == DOUBTS_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    r->doubts[r->n_doubts++] = xstrdup(text);
}

static void doubt_segment(struct result *r, const struct audit_segment *s)
{
    if (s->basis == AUDIT_KEY_REPLACED)
        result_add_doubt(
            r,
            "that the key from record %" PRIu64
            " on belongs to the key that signed before: earlier records are proved with an earlier "
            "key, which is lost, and from here on there is only the new key's word",
            s->first);
    else if (s->basis == AUDIT_KEY_RECORDED)
        result_add_doubt(
            r,
            "that the key from record %" PRIu64
            " on belongs to the key that signed before: earlier records are proved with an earlier "
            "key, which does not name this one",
            s->first);
}

static void find_doubts(struct result *r)
{
    const struct audit_verifier *v = &r->v;
    const struct evidence *e = &r->evidence;
    if (!v->key)
        result_add_doubt(r, "who made this: there is no key to check signatures with (-key)");
    else if (v->key_origin == AUDIT_KEY_OF_EXPORT)
        result_add_doubt(r,
                         "who signed this: the key is the one it names itself; compare it with the "
                         "daemon's, or give it with -key");
    for (size_t i = 0; i < v->n_segments; i++)
        doubt_segment(r, &v->segments[i]);
    if (v->base_seq)
        result_add_doubt(
            r, "records 1 to %" PRIu64 ": they were dropped, or left out; the base is signed",
            v->base_seq);
    if (e->n_known && e->known[0].seq < v->base_seq)
        result_add_doubt(
            r, "kept checkpoints before record %" PRIu64 ": there is nothing to compare them with",
            v->base_seq);
    if (v->seq > v->last.seq)
        result_add_doubt(r,
                         "records %" PRIu64 " to %" PRIu64 ": they are chained and not signed yet",
                         v->last.seq + 1, v->seq);
    if (r->unchained)
        result_add_doubt(r, "%zu newer records: they are written and not chained yet",
                         r->unchained);
    if (v->last_seq && v->last.purpose != CHECKPOINT_EXPORT)
        result_add_doubt(
            r, "that this is all of an export: it ends in an ordinary checkpoint, as an export "
               "without a daemon does");
    if (!e->n_known)
        result_add_doubt(r,
                         "that nothing came after record %" PRIu64
                         ": no checkpoint from elsewhere says so (-checkpoint)",
                         v->seq);
    else
        result_add_doubt(r,
                         "that nothing came after record %" PRIu64
                         ": the newest checkpoint from elsewhere is of record %" PRIu64,
                         v->seq, e->known[e->n_known - 1].seq);
}

/* --- telling */

static const char *basis_text(const struct result *r, const struct audit_segment *s)
{
    static const char *const texts[] = {
        [AUDIT_KEY_FIRST] = "the first key",
        [AUDIT_KEY_ROTATED] = "named by the key before",
        [AUDIT_KEY_REPLACED] = "its own word: the key before is lost",
        [AUDIT_KEY_RECORDED] = "not named by the key before; a record tells of the change",
    };
    if (r->evidence.has_key && memcmp(s->key, r->evidence.key, sizeof(s->key)) == 0)
        return "the key given";
    return texts[s->basis];
}

static json_t *segments_to_json(const struct result *r)
{
    json_t *all = json_array();
    for (size_t i = 0; i < r->v.n_segments; i++) {
        const struct audit_segment *s = &r->v.segments[i];
        char key[2 * CHECKPOINT_KEY_SIZE + 1];
        hex_format(s->key, sizeof(s->key), key);
        json_array_append_new(all, json_pack("{s:I, s:I, s:s, s:s}", "first", (json_int_t)s->first,
                                             "last", (json_int_t)s->last, "key", key, "by",
                                             basis_text(r, s)));
    }
    return all;
}

static void print_as_json(const struct result *r, bool good)
{
    const struct audit_verifier *v = &r->v;
    json_t *doubts = json_array();
    for (size_t i = 0; i < r->n_doubts; i++)
        json_array_append_new(doubts, json_string(r->doubts[i]));
    _cleanup_json_ json_t *o = json_pack(
        "{s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "genuine", good, "first",
        (json_int_t)v->base_seq + 1, "last", (json_int_t)v->seq, "records",
        (json_int_t)v->n_records, "checkpoints", (json_int_t)v->n_checkpoints, "signed_to",
        (json_int_t)v->last.seq, "segments", segments_to_json(r), "not_proved", doubts);
    if (!good)
        json_object_set_new(o, "wrong", json_message(v->reason));
    print_json(o, JSON_INDENT(2));
}

static void print_text(const struct result *r, bool good)
{
    const struct audit_verifier *v = &r->v;
    char time[CLOCK_RFC3339_SIZE] = "never";
    if (v->last.seq)
        clock_format_rfc3339(v->last.time_ns, time);
    if (!good) {
        _cleanup_free_ char *reason = printable(v->reason);
        printf("%swrong%s: %s\n", colour(COLOUR_RED), colour(COLOUR_OFF), reason);
        if (v->last.seq > v->base_seq)
            printf("records %" PRIu64 " to %" PRIu64 " before that are as they were\n",
                   v->base_seq + 1, v->last.seq);
        else
            printf("nothing before that is proved\n");
        return;
    }
    printf("%sgenuine%s: records %" PRIu64 " to %" PRIu64 ", %" PRIu64
           " checkpoints, signed up to record %" PRIu64 " at %s\n",
           colour(COLOUR_GREEN), colour(COLOUR_OFF), v->base_seq + 1, v->seq, v->n_checkpoints,
           v->last.seq, time);
    for (size_t i = 0; r->v.n_segments > 1 && i < r->v.n_segments; i++) {
        const struct audit_segment *s = &r->v.segments[i];
        char key[2 * CHECKPOINT_KEY_SIZE + 1];
        hex_format(s->key, sizeof(s->key), key);
        printf("records %" PRIu64 " to %" PRIu64 " are proved with key %.16s (%s)\n", s->first,
               s->last, key, basis_text(r, s));
    }
    for (size_t i = 0; i < r->n_doubts; i++)
        printf("not proved: %s\n", r->doubts[i]);
}

static int verify_evidence(const struct args *a, struct result *r)
{
    struct sbx_error err;
    struct evidence *e = &r->evidence;
    if (a->key && evidence_load_key(e, a->key, &err) < 0)
        return cli_fail(&err);
    if (a->checkpoint && evidence_load_checkpoints(e, a->checkpoint, &err) < 0)
        return cli_fail(&err);
    if (a->state_dir && audit_offline_evidence(a->state_dir, e, &err) < 0)
        return cli_fail(&err);
    evidence_sort(e);
    audit_verifier_init(&r->v, e->has_key ? e->key : NULL);
    for (size_t i = 0; i < e->n_others; i++)
        audit_verifier_add_key(&r->v, e->others[i]);
    audit_verifier_know(&r->v, e->known, e->n_known);
    if (read_all(a, r, &err) < 0 || evidence_check(e, &r->v, &err) < 0)
        return cli_fail(&err);
    bool offline = a->state_dir != NULL;
    bool good = offline ? audit_verify_end(&r->v) : audit_verify_export_end(&r->v);
    if (good)
        find_doubts(r);
    if (a->json)
        print_as_json(r, good);
    else
        print_text(r, good);
    return good ? 0 : EXIT_NOT_GENUINE;
}

int cmd_audit_verify(const struct args *a)
{
    struct result r = {0};
    if (a->n_rest && a->state_dir)
        return cli_fail_usage("audit verify takes FILE or -state-dir, not both");
    int code = verify_evidence(a, &r);
    result_done(&r);
    return code;
}
