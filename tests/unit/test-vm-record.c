/* SPDX-License-Identifier: Apache-2.0 */
/* What machines have on the host goes with them, also where their warden was killed; what is
 * another's stays. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/tap.h"
#include "warden/vm/vm.h"

static char dir[] = "/tmp/test-vm-record.XXXXXX";
static int dir_fd;
static struct vm_host host;

/* A warden starts: all that it knows is in the directory. */
static void begin_host(void)
{
    fd_close(&host.places_fd);
    memset(&host, 0, sizeof(host));
    host.places_fd = -1;
    vm_records_open(&host, dir_fd);
    vm_records_sweep(&host);
}

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static uint64_t inode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_ino : 0;
}

static void make_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        ok(false, "%s is made", path);
    close(fd);
}

static void make_socket(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        ok(false, "%s is made", path);
    close(fd);
}

/* A machine with a console and a socket, on record as the warden has it. */
static struct vm_record make_machine(const char *id, bool with_inodes)
{
    struct vm_record r = {.left = 0};
    char *log = r.places[VM_PLACE_LOG].path, *vsock = r.places[VM_PLACE_VSOCK].path;
    const size_t size = sizeof(r.places[0].path);
    snprintf(r.id, sizeof(r.id), "%s", id);
    snprintf(log, size, "%s/%s.log", dir, id);
    snprintf(vsock, size, "%s/%s.vsock", dir, id);
    make_file(log, with_inodes ? "Linux\n" : "");
    make_socket(vsock);
    if (with_inodes) {
        r.places[VM_PLACE_LOG].inode = inode_of(log);
        r.places[VM_PLACE_VSOCK].inode = inode_of(vsock);
    }
    if (vm_record_save(&host, &r) < 0)
        ok(false, "%s is on record", id);
    return r;
}

static bool machine_has(const char *id, const char *ending)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s%s", dir, id, ending);
    return is_there(path);
}

static bool is_on_record(const char *id)
{
    return faccessat(host.places_fd, id, F_OK, 0) == 0;
}

static void test_end(void)
{
    struct vm_record r = make_machine("sbx-deleted", true);
    vm_record_remove(&host, &r);
    ok(!machine_has("sbx-deleted", ".log") && !machine_has("sbx-deleted", ".vsock") &&
           !is_on_record("sbx-deleted"),
       "a machine that is deleted leaves nothing");
    r = make_machine("sbx-crashed", true);
    vm_record_leave(&host, &r);
    ok(machine_has("sbx-crashed", ".log") && !machine_has("sbx-crashed", ".vsock") &&
           is_on_record("sbx-crashed"),
       "one that ended by itself leaves its console");
}

/* What happens first is what a warden that is killed in between has done. */
static void test_leave_order(void)
{
    union {
        struct inotify_event event;
        char bytes[4096];
    } u;
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct vm_record r = make_machine("sbx-cut", true);
    char places[64];
    snprintf(places, sizeof(places), "%s/places", dir);
    ok(fd >= 0 && inotify_add_watch(fd, dir, IN_DELETE) >= 0 &&
           inotify_add_watch(fd, places, IN_MODIFY) >= 0,
       "the directories are watched");
    vm_record_leave(&host, &r);
    ok(read(fd, &u, sizeof(u)) > 0 && u.event.mask & IN_MODIFY,
       "that a console stays is on record before anything is removed");
    close(fd);
    unlink(host.left[0].places[VM_PLACE_LOG].path);
    r = make_machine("sbx-cut", true);
    r.left = 1;
    vm_record_save(&host, &r);
    begin_host();
    ok(machine_has("sbx-cut", ".log") && !machine_has("sbx-cut", ".vsock"),
       "and the next warden removes the rest, and leaves the console");
    vm_record_remove(&host, &host.left[0]);
    begin_host();
}

static void test_killed_warden(void)
{
    char path[256];
    make_machine("sbx-alive", true);
    make_machine("sbx-new", false);
    struct vm_record other = make_machine("sbx-taken", true);
    unlink(other.places[VM_PLACE_LOG].path);
    snprintf(path, sizeof(path), "%s/in-between", dir); /* which has the inode now, or not */
    make_file(path, "x");
    make_file(other.places[VM_PLACE_LOG].path, "of another program");
    begin_host();
    ok(!machine_has("sbx-alive", ".log") && !machine_has("sbx-alive", ".vsock") &&
           !is_on_record("sbx-alive"),
       "what machines of a killed warden had is removed by the next one");
    ok(!machine_has("sbx-new", ".log") && !machine_has("sbx-new", ".vsock"),
       "also where it was killed before it knew the inodes");
    ok(machine_has("sbx-taken", ".log") && !machine_has("sbx-taken", ".vsock"),
       "what has taken the name of a file since is left");
    ok(machine_has("sbx-crashed", ".log") && host.n_left == 1,
       "the console of a machine that ended by itself is left, and counted on");
}

static void test_full_name(void)
{
    struct vm_record r = make_machine("sbx-full", false);
    make_file(r.places[VM_PLACE_LOG].path, "was here before");
    begin_host();
    ok(machine_has("sbx-full", ".log"),
       "a file that has anything in it needs its inode to be ours");
}

static void test_left(void)
{
    char id[32];
    for (int i = 0; i < 2 * VM_LEFT_MAX; i++) {
        snprintf(id, sizeof(id), "sbx-left-%d", i);
        struct vm_record r = make_machine(id, true);
        vm_record_leave(&host, &r);
        if (i % 50 == 49)
            begin_host();
    }
    int n = 0;
    for (int i = 0; i < 2 * VM_LEFT_MAX; i++) {
        snprintf(id, sizeof(id), "sbx-left-%d", i);
        n += machine_has(id, ".log") && is_on_record(id);
    }
    ok(n == VM_LEFT_MAX, "the consoles of %d machines are left, over several wardens: %d",
       VM_LEFT_MAX, n);
    ok(machine_has(id, ".log") && !machine_has("sbx-crashed", ".log"), "and those are the newest");
}

static void test_same_id(void)
{
    struct vm_record r = make_machine("sbx-again", true), next;
    char id[32];
    vm_record_leave(&host, &r);
    vm_record_begin(&host, &next, "sbx-again");
    next = make_machine("sbx-again", true);
    for (int i = 0; i < VM_LEFT_MAX; i++) {
        snprintf(id, sizeof(id), "sbx-more-%d", i);
        r = make_machine(id, true);
        vm_record_leave(&host, &r);
    }
    ok(machine_has("sbx-again", ".log") && is_on_record("sbx-again"),
       "a machine with the id of one before it keeps its console");
    vm_record_remove(&host, &next);
    ok(!machine_has("sbx-again", ".log"), "until it goes itself");
}

static void test_nonsense(void)
{
    int fd = openat(host.places_fd, "sbx-torn", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ok(fd >= 0 && write(fd, "x", 1) == 1, "a record is torn");
    close(fd);
    begin_host();
    ok(!is_on_record("sbx-torn"), "and goes");
}

int main(void)
{
    host.places_fd = -1;
    if (!mkdtemp(dir) || (dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        tap_skip_all("no directory can be made in /tmp");
    begin_host();
    test_leave_order();
    test_end();
    test_killed_warden();
    test_full_name();
    test_left();
    test_same_id();
    test_nonsense();
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ok(system(command) == 0, "all of it is removed");
    return tap_done();
}
