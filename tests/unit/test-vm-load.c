/* SPDX-License-Identifier: Apache-2.0 */
/* How many saved machines are in memory, or on their way there, at once. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/tap.h"
#include "warden/state.h"
#include "warden/vm/vm.h"

static struct warden w;
static struct vm_host h;
static struct plan_reply reply;
static int answers_fd;

static void make_file(const char *name, const char *ending)
{
    char path[64];
    snprintf(path, sizeof(path), "%s.%s", name, ending);
    int fd = openat(h.saved_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ok(fd >= 0 && write(fd, name, strlen(name)) == (ssize_t)strlen(name), "%s is there", path);
    close(fd);
}

static int load(const char *name, uint64_t tag)
{
    struct plan p = {.op = PLAN_LOAD, .tag = tag};
    snprintf(p.snapshot, sizeof(p.snapshot), "%s", name);
    reply = (struct plan_reply){0};
    return vm_load(&w, &p, &reply);
}

static size_t n_loads(void)
{
    size_t n = 0;
    for (const struct list *l = h.loads.next; l != &h.loads; l = l->next)
        n++;
    return n;
}

/* Every load that is under way ends. */
static void finish_loads(void)
{
    while (n_loads() && watcher_once(w.watcher, 60000) >= 0)
        ;
}

static struct plan_reply next_answer(void)
{
    struct plan_reply r = {.error = EPROTO};
    if (recv(answers_fd, &r, sizeof(r), MSG_DONTWAIT) != sizeof(r))
        r.tag = 0;
    return r;
}

static void test_merging(void)
{
    ok(load("a", 1) == -EINPROGRESS && load("a", 2) == -EINPROGRESS, "one is asked for twice");
    ok(n_loads() == 1, "and read once");
    finish_loads();
    struct plan_reply first = next_answer(), second = next_answer();
    ok(first.tag == 1 && !first.error && second.tag == 2 && !second.error, "both are answered");
    ok(load("a", 3) == 0 && n_loads() == 0, "it is not read again");
}

static void settle(const char *name, int n)
{
    while (n-- > 0)
        vm_loaded_settle(&h, name);
}

static void test_limit(void)
{
    settle("a", 3);
    ok(load("b", 4) == -EINPROGRESS && load("c", 5) == -EINPROGRESS &&
           load("d", 6) == -EINPROGRESS && vm_loaded_find(&h, "a"),
       "as many as there is room for");
    ok(load("e", 7) == -EINPROGRESS && !vm_loaded_find(&h, "a"), "what is kept makes way");
    ok(load("f", 8) == -EAGAIN && strstr(reply.message, "try again"), "one more is refused: %s",
       reply.message);
    ok(load("e", 9) == -EINPROGRESS && n_loads() == VM_LOADED_MAX, "waiting for one is not");
    finish_loads();
    for (int i = 0; i < 5; i++) {
        struct plan_reply r = next_answer();
        ok(r.tag >= 4 && r.tag <= 9 && !r.error, "an answer");
    }
    /* They end in any order, so each is used once: the first of them is the oldest then. */
    ok(vm_loaded_find(&h, "b") && vm_loaded_find(&h, "c") && vm_loaded_find(&h, "d") &&
           vm_loaded_find(&h, "e"),
       "all are kept");
    ok(load("f", 10) == -EAGAIN && strstr(reply.message, "try again"),
       "none makes way before it is used: %s", reply.message);
    settle("c", 1);
    settle("e", 1);
    ok(load("f", 10) == -EINPROGRESS && !vm_loaded_find(&h, "c") && vm_loaded_find(&h, "b"),
       "the oldest of those that were used makes way");
    finish_loads();
    ok(next_answer().tag == 10 && vm_loaded_find(&h, "d") && vm_loaded_find(&h, "f"), "later");
    ok(load("a", 15) == -EAGAIN && vm_loaded_find(&h, "e"), "two requests have one to use twice");
    settle("e", 1);
    settle("b", 1);
    ok(load("a", 15) == -EINPROGRESS && !vm_loaded_find(&h, "b"), "and then it may go, too");
    finish_loads();
    ok(next_answer().tag == 15, "its answer");
    vm_loads_abandon(&w);
}

static void test_removal(void)
{
    ok(load("c", 11) == -EINPROGRESS, "one is being read");
    vm_saved_drop(&w, "c");
    ok(load("c", 12) == -ESTALE, "and removed: it is not there to be waited for");
    finish_loads();
    struct plan_reply r = next_answer();
    ok(r.tag == 11 && r.error == ESTALE && strstr(r.message, "removed"), "its answer says so");
    ok(!vm_loaded_find(&h, "c"), "nothing of it is kept");
}

static void test_abandoned(void)
{
    ok(load("b", 13) == -EINPROGRESS, "one is being read");
    vm_loads_abandon(&w);
    ok(load("b", 14) == -EINPROGRESS && n_loads() == 1, "the next control plane asks for it");
    finish_loads();
    ok(next_answer().tag == 14 && next_answer().tag == 0, "and is the only one that is answered");
}

/* A use of a promise that was made later than the one that nothing came of. */
static void test_leaked(void)
{
    ok(load("b", 16) == 0, "one is promised, and its control plane gives up");
    for (size_t i = 0; i < VM_LOADED_MAX; i++)
        h.loaded[i].promised_until_ms = 1; /* long ago */
    ok(load("b", 17) == 0, "it is promised again");
    settle("b", 1);
    const struct vm_loaded *l = vm_loaded_find(&h, "b");
    ok(l && l->promised == 0, "and may go when that promise was used");
}

int main(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    char dir[] = "/tmp/test-vm-load.XXXXXX";
    int pair[2];
    ok(mkdtemp(dir) && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "ready");
    list_init(&w.outgoing);
    w.control_fd = pair[0];
    answers_fd = pair[1];
    w.watcher = watcher_new();
    w.hosts[CELL_VM] = &h;
    vm_loaded_init(&h);
    h.saved_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        make_file(names[i], "memory");
        make_file(names[i], "state");
    }
    test_merging();
    test_limit();
    test_removal();
    test_abandoned();
    test_leaked();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        vm_saved_drop(&w, names[i]);
    vm_loaded_done(&h);
    ok(rmdir(dir) == 0, "nothing is left");
    watcher_free(w.watcher);
    return tap_done();
}
