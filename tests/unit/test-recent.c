/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of execs until the database has it: all that was appended is there at the next open,
 * in order, and nothing that was settled; half an entry and a damaged one end a file. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/recent.h"
#include "tests/unit/tap.h"

#define MANY 3000
#define BODY 400 /* bytes: MANY of them fill both files */

static int dir_fd;

struct found {
    int n, wrong, next; /* next: number that is expected */
    unsigned tickets[2 * MANY];
};

static size_t make_body(int number, char body[BODY])
{
    memset(body, 'a' + number % 26, BODY);
    return (size_t)(number * 37 % (BODY - 8)) + 8;
}

static void on_entry(void *data, const char *key, const char *body, size_t len, unsigned ticket)
{
    struct found *f = data;
    char want[BODY];
    size_t n = make_body(f->next, want);
    f->wrong += atoi(key) != f->next || len != n || memcmp(body, want, n) != 0;
    f->tickets[f->n++] = ticket;
    f->next++;
}

static struct recent *reopen(struct recent *r, int first, struct found *f)
{
    struct error err = {0};
    recent_free(r);
    *f = (struct found){.next = first};
    r = recent_open(dir_fd, on_entry, f, &err);
    if (!r)
        fprintf(stderr, "%s\n", err.message);
    return r;
}

static unsigned append(struct recent *r, int number)
{
    char key[16], body[BODY];
    size_t len = make_body(number, body);
    snprintf(key, sizeof(key), "%d", number);
    return recent_append(r, key, body, len);
}

static off_t size_of(const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, 0) < 0 ? -1 : st.st_size;
}

static off_t sizes(void)
{
    return size_of("recent-0.log") + size_of("recent-1.log");
}

static void test_nothing(void)
{
    recent_settle(NULL, 0);
    recent_tidy(NULL);
    recent_free(NULL);
    ok(recent_append(NULL, "1", "x", 1) == 0, "without files nothing is kept");
}

static void test_order(void)
{
    static unsigned tickets[MANY];
    static struct found f;
    struct recent *r = reopen(NULL, 0, &f);
    ok(r && f.n == 0, "a new one is empty");
    int bad = 0;
    for (int i = 0; i < MANY; i++)
        bad += (tickets[i] = append(r, i)) == 0;
    ok(!bad, "entries are taken");
    ok(tickets[0] != tickets[MANY - 1], "by one file, then by the other");
    r = reopen(r, 0, &f);
    ok(f.n == MANY && !f.wrong, "all are there, in order (%d, %d wrong)", f.n, f.wrong);
    ok(memcmp(f.tickets, tickets, sizeof(tickets)) == 0, "in the files where they were");
    int in_first = 0;
    while (in_first < MANY && tickets[in_first] == tickets[0])
        recent_settle(r, tickets[in_first++]);
    for (int i = MANY; i < 2 * MANY; i++)
        tickets[i - MANY] = append(r, i);
    ok(tickets[MANY - 1] == 1, "an emptied file takes the next");
    r = reopen(r, in_first, &f);
    ok(f.n == 2 * MANY - in_first && !f.wrong, "what is not settled is there (%d)", f.n);
    for (int i = 0; i < f.n; i++)
        recent_settle(r, f.tickets[i]);
    recent_tidy(r);
    ok(sizes() == 0, "in the end both files are empty");
    recent_free(r);
}

static void test_half(void)
{
    static struct found f;
    struct recent *r = reopen(NULL, 0, &f);
    append(r, 0);
    off_t whole = sizes();
    append(r, 1);
    off_t both = sizes();
    for (off_t cut = whole; cut < both; cut += 7) {
        recent_free(r);
        int fd = openat(dir_fd, "recent-0.log", O_RDWR);
        if (fd < 0 || ftruncate(fd, cut) < 0)
            break;
        close(fd);
        r = reopen(NULL, 0, &f);
        if (f.n != 1 || f.wrong || sizes() != whole)
            break;
        append(r, 1);
    }
    r = reopen(r, 0, &f);
    ok(f.n == 2 && !f.wrong && sizes() == both, "half an entry is none, and the next joins behind");
    int fd = openat(dir_fd, "recent-0.log", O_RDWR);
    int flipped = 0, missed = 0;
    for (off_t at = whole; at < both; at += 3) {
        char c = 0;
        if (pread(fd, &c, 1, at) != 1)
            break;
        c ^= 4;
        flipped += pwrite(fd, &c, 1, at) == 1;
        struct error err = {0};
        f = (struct found){0};
        struct recent *other = recent_open(dir_fd, on_entry, &f, &err);
        missed += f.n != 1 || f.wrong;
        append(other, 1);
        f = (struct found){0};
        recent_free(other);
    }
    close(fd);
    ok(flipped > 10 && !missed, "a damaged entry is none (%d of %d missed)", missed, flipped);
    r = reopen(r, 0, &f);
    for (int i = 0; i < f.n; i++)
        recent_settle(r, f.tickets[i]);
    recent_free(r);
    ok(sizes() == 0, "an end empties what is settled");
}

/* A write that is refused half-way, as on a full disk. */
static void test_full(void)
{
    static struct found f;
    struct recent *r = reopen(NULL, 0, &f);
    unsigned first = append(r, 0);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = (rlim_t)sizes() + 20;
    signal(SIGXFSZ, SIG_IGN);
    off_t before = sizes();
    setrlimit(RLIMIT_FSIZE, &small);
    unsigned refused = append(r, 1);
    off_t after = sizes();
    setrlimit(RLIMIT_FSIZE, &old);
    ok(first && !refused && after == before, "what does not fit is refused and leaves nothing");
    ok(append(r, 1) != 0, "room again is used again");
    r = reopen(r, 0, &f);
    ok(f.n == 2 && !f.wrong, "and both are there");
    recent_free(r);
}

int main(void)
{
    char dir[] = "/tmp/test-recent-XXXXXX", command[64];
    if (!mkdtemp(dir))
        return 1;
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    test_nothing();
    test_order();
    test_half();
    test_full();
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) ? 1 : tap_done();
}
