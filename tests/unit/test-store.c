/* The store: what is put from inside on_durable is a change like any other. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
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

int main(void)
{
    char dir[] = "/tmp/test-store-XXXXXX", command[64];
    uv_loop_t loop;
    uv_loop_init(&loop);
    if (!mkdtemp(dir))
        return 1;
    test_chains(dir, &loop, true);
    test_chains(dir, &loop, false);
    ok(uv_loop_close(&loop) == 0, "nothing is left on the loop");
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) ? 1 : tap_done();
}
