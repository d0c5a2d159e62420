/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of changes: who is told of what, numbers that only rise, limits, gaps, and a process
 * that is killed at any moment. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "event/event-journal.h"
#include "loop/loop.h"
#include "store/store.h"
#include "tests/unit/tap.h"

static uv_loop_t loop;
static struct store *store;
static char dir[] = "/tmp/test-event-XXXXXX";

static const struct identity all = {.roles = ROLES_ALL};

/* --- who is told. Written out once more, by the first word of a type. */

static bool expected(const char *type, bool own, unsigned roles)
{
    if (roles & (ROLE_OPERATOR | ROLE_ADMIN | ROLE_AUDITOR))
        return true;
    if (strncmp(type, "image.", 6) == 0 || strcmp(type, "policy.loaded") == 0)
        return own || roles != 0;
    if (strncmp(type, "approval.", 9) == 0 && (roles & ROLE_APPROVER))
        return true;
    return own;
}

static void test_matrix(void)
{
    static const char *const owners[] = {"key-mine", "key-other", "token", ""};
    size_t wrong = 0, n = 0;
    for (unsigned t = 1; t < _EVENT_TYPE_MAX; t++)
        for (unsigned roles = 0; roles <= ROLES_ALL; roles++)
            for (size_t o = 0; o < ELEMENTS(owners); o++) {
                struct identity who = {.key = "key-mine", .roles = roles, .authenticated = true};
                bool got = event_is_for((enum event_type)t, owners[o], &who);
                n++;
                if (got == expected(event_type_name(t), o == 0, roles))
                    continue;
                wrong++;
                printf("# %s of '%s' to roles %u: %d\n", event_type_name(t), owners[o], roles, got);
            }
    ok(wrong == 0, "each of %zu types, sets of roles and owners is told to those who may know", n);
    struct identity nobody = {.key = ""};
    ok(!event_is_for(EVENT_SANDBOX_CREATED, "", &nobody),
       "a caller without a key and roles is told of nothing, also not of what has no owner");
}

static void test_types(void)
{
    struct error err = {0};
    uint64_t set = 0;
    size_t found = 0;
    for (unsigned t = 1; t < _EVENT_TYPE_MAX; t++)
        found += event_types_parse(event_type_name(t), &set, &err) >= 0 &&
                 set == event_type_bit((enum event_type)t);
    ok(found == _EVENT_TYPE_MAX - 1, "every type has a name of its own");
    ok(event_types_parse("exec.ended,pool", &set, &err) >= 0 &&
           set == (event_type_bit(EVENT_EXEC_ENDED) | event_type_bit(EVENT_POOL_FULL) |
                   event_type_bit(EVENT_POOL_EMPTY)),
       "types and first words of types");
    static const char *const bad[] = {"exec.endd", "", "exec,", ",exec", "exe", "exec.", "a,b"};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        error_clear(&err);
        ok(event_types_parse(bad[i], &set, &err) < 0 && err.code == ERROR_INVALID, "'%s': %s",
           bad[i], err.message);
    }
}

/* --- the journal */

static struct event_journal *open_journal(size_t max_events, size_t max_bytes)
{
    struct error err = {0};
    store = store_open(dir, &loop, &err);
    struct event_journal_options o = {
        .loop = &loop, .store = store, .config = {max_events, max_bytes}};
    struct event_journal *j = store ? event_journal_open(&o, &err) : NULL;
    if (!j)
        ok(false, "the journal opens: %s", err.message);
    return j;
}

static void close_journal(struct event_journal *j)
{
    event_journal_stop(j);
    store_close(store);
    event_journal_free(j);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void wait_shown(struct event_journal *j, uint64_t seq)
{
    while (event_journal_last(j) < seq)
        uv_run(&loop, UV_RUN_ONCE);
}

static void append(struct event_journal *j, unsigned number)
{
    char id[32];
    snprintf(id, sizeof(id), "sbx-%u", number);
    event_append(j, EVENT_SANDBOX_PAUSED, id, "key-mine", "{\"runtime\":\"local\"}");
}

static void on_events(struct event_reader *r)
{
    (void)r;
}

static struct event_reader subscribe(struct event_journal *j, uint64_t since)
{
    struct event_reader r = {
        .who = all, .types = EVENT_TYPES_ALL, .next = since + 1, .on_events = on_events};
    r.journal = j; /* nothing is waited for */
    return r;
}

/* Reads to the end: the events in a row, or 0 when a number was missing; gaps are counted. */
static size_t read_all(struct event_journal *j, uint64_t since, uint64_t *ret_first,
                       size_t *ret_gaps)
{
    struct event_reader r = subscribe(j, since);
    const struct event *e;
    enum event_got got;
    size_t n = 0;
    *ret_gaps = 0;
    *ret_first = 0;
    while ((got = event_read(&r, &e)) != EVENT_GOT_NONE) {
        if (got == EVENT_GOT_GAP) {
            ++*ret_gaps;
            continue;
        }
        if (!*ret_first)
            *ret_first = e->seq;
        if (e->seq != *ret_first + n)
            return 0;
        n++;
    }
    return n;
}

#define FLOOD 10000

static void test_flood(void)
{
    uint64_t first;
    size_t gaps, most = 0;
    struct event_journal *j = open_journal(1000, 1 << 20);
    struct event_reader slow = subscribe(j, 0);
    const struct event *e;
    for (unsigned i = 0; i < FLOOD; i++) {
        append(j, i);
        if (event_journal_bytes(j) > most)
            most = event_journal_bytes(j);
        if (i % 100 == 99)
            wait_shown(j, i + 1);
    }
    ok(most <= 1000 * 160, "%d changes never take more than the limit (%zu bytes)", FLOOD, most);
    ok(event_journal_first(j) == FLOOD - 999 && event_journal_last(j) == FLOOD,
       "the newest are kept");
    ok(event_read(&slow, &e) == EVENT_GOT_GAP && slow.next == event_journal_first(j),
       "a reader that was too slow is told of the gap");
    ok(event_read(&slow, &e) == EVENT_GOT_ONE && e->seq == FLOOD - 999, "and goes on after it");
    ok(read_all(j, FLOOD - 10, &first, &gaps) == 10 && first == FLOOD - 9 && gaps == 0,
       "what is kept has no gap");
    ok(read_all(j, FLOOD, &first, &gaps) == 0 && gaps == 0, "nothing is new");
    ok(read_all(j, FLOOD + 5, &first, &gaps) == 1000 && gaps == 1,
       "a number that is not there yet is a gap: it was of another journal");
    close_journal(j);
    j = open_journal(1000, 1 << 20);
    ok(event_journal_last(j) == FLOOD && read_all(j, FLOOD - 1000, &first, &gaps) == 1000,
       "a restart keeps them and their numbers");
    ok(event_is_recorded(j, EVENT_SANDBOX_PAUSED, "sbx-9999", INT64_MAX) &&
           !event_is_recorded(j, EVENT_SANDBOX_DELETED, "sbx-9999", INT64_MAX) &&
           !event_is_recorded(j, EVENT_SANDBOX_PAUSED, "sbx-5", INT64_MAX) &&
           event_is_recorded(j, EVENT_SANDBOX_PAUSED, "sbx-5", 1),
       "what was told is known, and what is older than all is taken for told");
    close_journal(j);
    j = open_journal(1000, 4096);
    ok(event_journal_bytes(j) <= 4096 && event_journal_last(j) == FLOOD,
       "a smaller limit holds from the next start on");
    append(j, FLOOD);
    wait_shown(j, FLOOD + 1);
    close_journal(j);
}

static void count_row(void *data, const char *key, const char *body, size_t len)
{
    (void)key;
    (void)body;
    *(size_t *)data += len;
}

static void test_rows(void)
{
    struct error err = {0};
    size_t bytes = 0;
    struct event_journal *j = open_journal(1000, 4096);
    close_journal(j);
    store = store_open(dir, &loop, &err);
    store_load(store, STORE_EVENT, count_row, &bytes, &err);
    ok(bytes < 100000, "the store keeps no more either (%zu bytes)", bytes);
    store_close(store);
}

/* --- killed */

static int shown_fd;

/* More is appended when the last is shown, and some while it is being written. */
static void tell_shown(struct event_reader *r)
{
    static unsigned n;
    const struct event *e;
    while (event_read(r, &e) == EVENT_GOT_ONE)
        if (write(shown_fd, &e->seq, sizeof(e->seq)) < 0)
            _exit(1);
    for (unsigned i = 0; i < 7; i++)
        append(r->journal, n++);
}

static void on_append(void *data)
{
    append(data, 0);
}

static void child(int fd)
{
    uv_loop_init(&loop);
    struct event_journal *j = open_journal(100000, 64 << 20);
    struct event_reader r = subscribe(j, event_journal_last(j));
    struct loop_timer timer;
    r.on_events = tell_shown;
    shown_fd = fd;
    list_init(&r.node);
    event_subscribe(j, &r);
    loop_timer_init(&timer, &loop, on_append, j);
    loop_timer_start_every(&timer, 1);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(1);
}

static void test_killed(void)
{
    struct event_journal *before = open_journal(100000, 64 << 20);
    uint64_t shown = event_journal_last(before), seq;
    size_t lost = 0, doubled = 0, total = 0;
    close_journal(before);
    for (int round = 0; round < 15; round++) {
        int pipe_fds[2];
        if (pipe(pipe_fds) < 0)
            return;
        pid_t pid = fork();
        if (pid == 0)
            child(pipe_fds[1]);
        close(pipe_fds[1]);
        for (int n = 0; read(pipe_fds[0], &seq, sizeof(seq)) == sizeof(seq);) {
            if (n++ == round * 3)
                kill(pid, SIGKILL); /* what it had shown by then is still to be read */
            doubled += seq <= shown;
            lost += seq > shown + 1;
            shown = seq;
            total++;
        }
        waitpid(pid, NULL, 0);
        close(pipe_fds[0]);
        struct event_journal *j = open_journal(100000, 64 << 20);
        lost += event_journal_last(j) < shown;
        uint64_t first;
        size_t gaps, n = read_all(j, shown, &first, &gaps);
        doubled += n && first != shown + 1;
        shown = event_journal_last(j); /* whoever comes back sees the rest now */
        close_journal(j);
    }
    ok(total > 100 && !lost && !doubled,
       "killed 15 times: %zu shown, %zu lost, %zu with a number that was shown before", total, lost,
       doubled);
}

int main(void)
{
    char command[64];
    uv_loop_init(&loop);
    if (!mkdtemp(dir))
        return 1;
    test_matrix();
    test_types();
    test_flood();
    test_rows();
    test_killed();
    ok(uv_loop_close(&loop) == 0, "nothing is left on the loop");
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) ? 1 : tap_done();
}
