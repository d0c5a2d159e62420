/* SPDX-License-Identifier: Apache-2.0 */
/* A real audit in a temporary directory, signed by the warden's signer, for tests and benchmarks.
 */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "audit/verify.h"
#include "audit/audit.h"
#include "loop/loop.h"
#include "store/audit-table.h"
#include "store/store.h"
#include "warden/sign.h"

struct audit_log {
    char dir[64];
    uv_loop_t loop;
    struct signer signer;
    struct store *store;
    struct audit *audit;
    struct audit_config config;
};

struct audit_log_request {
    struct audit_log *log;
    struct plan_sign sign;
    audit_signed_fn done;
    void *data;
};

__attribute__((unused)) static void audit_log_answer(void *data)
{
    struct audit_log_request *r = data;
    struct checkpoint c;
    char why[256] = "";
    int e = signer_sign(&r->log->signer, &r->sign, &c, why, sizeof(why));
    r->done(r->data, e < 0 ? NULL : &c, why);
    free(r);
}

__attribute__((unused)) static void audit_log_sign(void *data, enum checkpoint_purpose purpose,
                                                   uint64_t seq,
                                                   const uint8_t head[CHECKPOINT_HASH_SIZE],
                                                   audit_signed_fn done, void *done_data)
{
    struct audit_log *log = data;
    struct audit_log_request *r = new0(struct audit_log_request);
    *r = (struct audit_log_request){
        .log = log, .sign = {.purpose = purpose, .seq = seq}, .done = done, .data = done_data};
    memcpy(r->sign.head, head, sizeof(r->sign.head));
    loop_defer(&log->loop, audit_log_answer, r);
}

/* In log->dir, or where that is empty in a fresh one. log->config may be set before. */
__attribute__((unused)) static int audit_log_open(struct audit_log *log, struct error *err)
{
    if (!log->dir[0]) {
        strcpy(log->dir, "/tmp/mas-audit-XXXXXX");
        if (!mkdtemp(log->dir))
            return -1;
    }
    _cleanup_close_ int fd = open(log->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uv_loop_init(&log->loop);
    if (signer_open(&log->signer, fd, err) < 0)
        return -1;
    log->store = store_open(log->dir, &log->loop, err);
    if (!log->store)
        return -1;
    struct audit_signer signer = {.sign = audit_log_sign, .data = log, .last = log->signer.last};
    memcpy(signer.public_key, log->signer.public_key, sizeof(signer.public_key));
    log->audit = audit_open(log->dir, log->store, &signer, &log->loop, &log->config, err);
    return log->audit ? 0 : -1;
}

__attribute__((unused)) static void audit_log_close(struct audit_log *log)
{
    audit_close(log->audit);
    store_close(log->store);
    signer_close(&log->signer);
    while (uv_loop_close(&log->loop) == UV_EBUSY)
        uv_run(&log->loop, UV_RUN_ONCE);
    log->audit = NULL;
    log->store = NULL;
}

__attribute__((unused)) static void audit_log_remove(struct audit_log *log)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", log->dir);
    if (system(command) != 0)
        perror(command);
}

struct audit_log_wait {
    bool done, failed;
    struct checkpoint checkpoint;
};

__attribute__((unused)) static void audit_log_on_checkpoint(void *data, const struct checkpoint *c,
                                                            const struct error *err)
{
    struct audit_log_wait *w = data;
    w->done = true;
    w->failed = err != NULL;
    if (c)
        w->checkpoint = *c;
}

__attribute__((unused)) static bool audit_log_checkpoint(struct audit_log *log,
                                                         enum checkpoint_purpose purpose,
                                                         struct checkpoint *ret)
{
    struct audit_log_wait w = {0};
    audit_checkpoint_now(log->audit, purpose, audit_log_on_checkpoint, &w);
    while (!w.done)
        uv_run(&log->loop, UV_RUN_ONCE);
    if (ret)
        *ret = w.checkpoint;
    return !w.failed;
}

__attribute__((unused)) static void audit_log_fill(struct audit_log *log, size_t n)
{
    struct error err = {0};
    for (size_t i = 0; i < n; i++) {
        char call[AUDIT_CALL_ID_SIZE], details[160];
        snprintf(call, sizeof(call), "call-%zu", i / 3);
        snprintf(details, sizeof(details),
                 "{\"argv\":\"sha256:%064zx\",\"cwd\":\"/workspace\",\"n\":%zu}", i, i);
        struct audit_record r = {.kind = i % 3 == 0   ? "intent"
                                         : i % 3 == 1 ? "started"
                                                      : "exited",
                                 .call_id = call,
                                 .sandbox = "sbx-abcdefgh",
                                 .exec = "exec-0123456789",
                                 .tool = "exec",
                                 .outcome = "allow",
                                 .rule = "default",
                                 .details_text = details};
        if (audit_write(log->audit, &r, NULL, &err) < 0) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
    }
}
