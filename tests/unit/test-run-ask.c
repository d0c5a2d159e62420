/* SPDX-License-Identifier: Apache-2.0 */
/* A run that used a grant leaves nothing behind, whichever phase it ends in. */
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/unit/tap.h"
#include "tool/run.h"

#define RUNS 100

static const char policy[] = "version: 1\ndefault: allow\nrules:\n"
                             "  - {id: asks, verdict: ask, risk: medium, command: \"touch\"}\n";

static struct gate *gate;
static size_t n_asked, n_ended;
static char asked[APPROVAL_ID_SIZE]; /* what waits; "": nothing */
static struct error last;

/* Without it there is nothing to test. */
static void require(bool good, const char *what, const struct error *err)
{
    if (good)
        return;
    ok(false, "%s: %s", what, err->message);
    exit(tap_done());
}

static void on_decided(void *data, struct approval *a, const struct error *err)
{
    (void)data;
    (void)a;
    require(!err, "decided", err);
}

static void on_asked(void *data, struct run *run, struct approval *a)
{
    (void)data;
    (void)run;
    n_asked++;
    snprintf(asked, sizeof(asked), "%s", approval_id(a));
}

static void approve_asked(void)
{
    struct error err = {0};
    struct approval_session session = {.count = 2 * RUNS, .ttl_s = 600};
    struct approval_decision d = {.who = &identity_local, .approve = true, .session = &session};
    if (!*asked)
        return;
    int r = approvals_decide(gate_approvals(gate), asked, &d, on_decided, NULL, &err);
    require(r >= 0, "decide", &err);
    *asked = 0;
}

static void on_done(void *data, struct run *run, struct exec *e, const struct error *err)
{
    (void)data;
    (void)run;
    (void)e;
    n_ended++;
    last = err ? *err : (struct error){0};
}

/* It ends where its sandbox would be made, because there is no such runtime. */
static void run_one(uv_loop_t *loop)
{
    static const struct run_events events = {.on_asked = on_asked, .on_done = on_done};
    char *argv[] = {(char *)"touch", (char *)"x", NULL};
    struct error err = {0};
    struct spec spec;
    spec_init(&spec);
    spec.runtime = strdup("no such runtime");
    struct gate_terms terms = {.wait = true};
    struct run_request req = {.gate = gate,
                              .spec = &spec,
                              .terms = &terms,
                              .call = {.tool = "exec"},
                              .exec = {.argv = argv}};
    size_t before = n_ended;
    require(run_start(&req, &events, NULL, &err), "start", &err);
    while (n_ended == before) {
        uv_run(loop, UV_RUN_ONCE);
        approve_asked();
    }
    spec_done(&spec);
}

static size_t bytes_after_runs(uv_loop_t *loop)
{
    for (size_t i = 0; i < RUNS; i++)
        run_one(loop);
    return mallinfo2().uordblks;
}

/* What malloc() keeps in a cache of its own counts as used: there must be none. */
static void count_exactly(char **argv)
{
    if (getenv("GLIBC_TUNABLES"))
        return;
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    (void)argc;
    count_exactly(argv);
    uv_loop_t *loop = uv_default_loop();
    struct error err = {0};
    struct gate_options o = {
        .loop = loop,
        .approvals = {
            .ttl_ms = 600000, .keep_ms = 600000, .max_pending = 10, .max_pending_per_key = 10}};
    gate = gate_new(&o, &err);
    require(gate && gate_load_policy(gate, "policy", policy, strlen(policy), NULL, &err) > 0,
            "gate", &err);
    size_t first = bytes_after_runs(loop), second = bytes_after_runs(loop);
    ok(n_asked == 1 && strstr(last.message, "no runtime"), "one question, then grants: %s",
       last.message);
    ok(second < first + RUNS, "%zu bytes after so many runs, and %zu after as many again", first,
       second);
    gate_free(gate);
    return tap_done();
}
