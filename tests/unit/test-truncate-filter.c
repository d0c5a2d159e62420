/* SPDX-License-Identifier: Apache-2.0 */
/* The filter that stands in for Landlock's right to truncate, on any kernel. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"
#include "toolrunner/truncate-filter.h"

static char path[] = "/tmp/mas-truncate-XXXXXX";

static int by_path(void)
{
    return truncate(path, 1);
}

static int open_with(int flags)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    return fd < 0 ? -1 : close(fd);
}

static int for_reading(void)
{
    return open_with(O_RDONLY | O_TRUNC);
}

static int for_neither(void)
{
    return open_with(3 | O_TRUNC);
}

static int for_writing(void)
{
    return open_with(O_WRONLY | O_TRUNC);
}

static int for_both(void)
{
    return open_with(O_RDWR | O_TRUNC | O_CREAT);
}

static int just_reading(void)
{
    return open_with(O_RDONLY);
}

#ifdef SYS_open
static int by_old_call(void)
{
    int fd = (int)syscall(SYS_open, path, O_RDONLY | O_TRUNC, 0);
    return fd < 0 ? -1 : close(fd);
}
#endif

static int by_new_call(void)
{
    uint64_t how[3] = {O_RDONLY | O_TRUNC, 0, 0};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, how, sizeof(how));
    return fd < 0 ? -1 : close(fd);
}

#ifdef __x86_64__
/* A 32-bit call takes addresses below 4 GiB. */
static int by_32_bit_call(void)
{
    long r;
    char *low = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (low == MAP_FAILED)
        return -1;
    strcpy(low, path);
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(92), "b"(low), "c"(1)
                     : "memory", "r8", "r9", "r10", "r11");
    errno = r < 0 ? (int)-r : 0;
    return r < 0 ? -1 : 0;
}
#endif

static struct sock_filter pass[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
static struct sock_fprog pass_program = {1, pass};

static int nest(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &pass_program);
}

static int nest_by_prctl(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &pass_program);
}

static int name_itself(void)
{
    return prctl(PR_SET_NAME, "other", 0, 0, 0);
}

static int ask_for_action(void)
{
    uint32_t action = SECCOMP_RET_ALLOW;
    return (int)syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
}

enum filter { NO_FILTER, NARROW, SEALED };

/* The errno of an attempt in a child, 0 when it worked. */
static int attempt(int (*fn)(void), enum filter filter)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (filter && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                       truncate_filter_enter(filter == NARROW) < 0))
            _exit(255);
        _exit(fn() < 0 ? errno : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const struct {
    const char *what;
    int (*fn)(void);
    int want;
    int sealed; /* where only further filters are refused */
} attempts[] = {
    {"truncate by path", by_path, EACCES, 0},
    {"open for reading and empty", for_reading, EACCES, 0},
    {"open for neither and empty", for_neither, EACCES, 0},
#ifdef SYS_open
    {"the same by the old call", by_old_call, EACCES, 0},
#endif
#ifdef __x86_64__
    {"truncate by a 32-bit call", by_32_bit_call, EACCES, 0},
#endif
    {"the same by openat2", by_new_call, ENOSYS, 0},
    {"open for writing and empty", for_writing, 0, 0},
    {"open for both, make and empty", for_both, 0, 0},
    {"open for reading", just_reading, 0, 0},
    {"a further filter", nest, EINVAL, EINVAL},
    {"a further filter by prctl", nest_by_prctl, EINVAL, EINVAL},
    {"another prctl", name_itself, 0, 0},
    {"what filters can do", ask_for_action, 0, 0},
};

int main(void)
{
    int fd = mkstemp(path);
    close(fd);
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        int got = attempt(attempts[i].fn, NARROW);
        ok(got == attempts[i].want, "%s: %s", attempts[i].what, got ? strerror(got) : "allowed");
        got = attempt(attempts[i].fn, SEALED);
        ok(got == attempts[i].sealed, "not narrow: %s", got ? strerror(got) : "allowed");
        ok(attempt(attempts[i].fn, NO_FILTER) == 0, "without the filter: allowed");
    }
    unlink(path);
    return tap_done();
}
