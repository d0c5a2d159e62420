/* SPDX-License-Identifier: Apache-2.0 */
/* The store: what is put from inside on_durable is a change like any other, and no work but its own
 * delays a commit. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "loop/loop.h"
#include "store/store.h"
#include "tests/unit/tap.h"

#define CHAINS 20
#define LINKS  50

static struct store *store;

struct chain {
    int number, written, failed;
};

static void put_next(struct chain *c);

static void on_durable(void *data, const struct error *err)
{
    struct chain *c = data;
    c->failed += err != NULL;
    if (++c->written < LINKS)
        put_next(c);
}

static void put_next(struct chain *c)
{
    char key[32], body[4096];
    memset(body, 'x', sizeof(body));
    snprintf(key, sizeof(key), "%d-%d", c->number, c->written);
    store_put(store, STORE_SANDBOX, key, body, sizeof(body), on_durable, c);
}

static void count_row(void *data, const char *key, const char *body, size_t len)
{
    (void)key;
    *(size_t *)data += len == 4096 && body[4095] == 'x';
}

static void test_chains(const char *dir, uv_loop_t *loop, bool run_loop)
{
    struct error err = {0};
    struct chain chains[CHAINS];
    size_t rows = 0, done = 0;
    store = store_open(dir, loop, &err);
    if (!ok(store != NULL, "the store opens: %s", err.message))
        return;
    for (int i = 0; i < CHAINS; i++) {
        chains[i] = (struct chain){.number = i + (run_loop ? 0 : CHAINS)};
        put_next(&chains[i]);
    }
    if (run_loop)
        uv_run(loop, UV_RUN_DEFAULT);
    store_close(store);
    for (int i = 0; i < CHAINS; i++)
        done += chains[i].written == LINKS && !chains[i].failed;
    ok(done == CHAINS, "every put was reported once (%zu chains)", done);
    store = store_open(dir, loop, &err);
    store_load(store, STORE_SANDBOX, count_row, &rows, &err);
    ok(rows == (size_t)CHAINS * LINKS * (run_loop ? 1 : 2), "and is there (%zu rows)", rows);
    store_close(store);
}

/* Every thread of libuv's pool is held until the put is durable. */
#define POOL_JOBS 64 /* more than the pool has threads by any setting of a test's environment */

static uv_sem_t release;

static void hold_thread(void *data)
{
    (void)data;
    uv_sem_wait(&release);
    uv_sem_post(&release);
}

static void on_put(void *data, const struct error *err)
{
    *(bool *)data = !err;
    uv_sem_post(&release);
}

static void on_patience(void *data)
{
    (void)data;
    uv_sem_post(&release);
}

static void test_busy_pool(const char *dir, uv_loop_t *loop)
{
    struct error err = {0};
    struct loop_timer patience;
    bool durable = false;
    uv_sem_init(&release, 0);
    store = store_open(dir, loop, &err);
    for (int i = 0; i < POOL_JOBS; i++)
        loop_work(loop, hold_thread, NULL, NULL);
    loop_timer_init(&patience, loop, on_patience, NULL);
    loop_timer_start(&patience, 20000);
    store_put(store, STORE_SANDBOX, "busy", "x", 1, on_put, &durable);
    while (!durable && loop_timer_active(&patience))
        uv_run(loop, UV_RUN_ONCE);
    ok(durable && loop_timer_active(&patience), "a put does not wait for the pool of workers");
    loop_timer_close(&patience, NULL, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    store_close(store);
}

int main(void)
{
    char dir[] = "/tmp/test-store-XXXXXX", command[64];
    uv_loop_t loop;
    uv_loop_init(&loop);
    if (!mkdtemp(dir))
        return 1;
    test_chains(dir, &loop, true);
    test_chains(dir, &loop, false);
    test_busy_pool(dir, &loop);
    ok(uv_loop_close(&loop) == 0, "nothing is left on the loop");
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) ? 1 : tap_done();
}
