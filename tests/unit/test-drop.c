/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's and the gateway's drop: a child gives everything up and then tries what it
 * must not be able to do any more. Each attempt succeeds before the drop, so that it can fail. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "daemon/drop.h"
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "tests/unit/tap.h"

#define NUMBER_OF_FCHMODAT2 452 /* on every machine; newer than this C library */

enum attempt {
    OPEN_HOST_FILE,
    OPEN_PROC,
    LIST_ROOT,
    WRITE_TMP,
    EXECUTE,
    CONNECT_TCP,
    SIGNAL_PARENT,
    UNSHARE_NAMESPACE,
    CLONE_NAMESPACE,
    CLONE3_NAMESPACE,
    WRITE_STATE,
    READ_RESOLVER,
    WRITE_NULL,
    BIND_TCP,
    ATTACH_PROGRAM,
    NEST_FILTER,
    CHANGE_BY_PATH,
    CHANGE_OPEN,
    MOUNT,
    JOIN_NAMESPACE,
    _ATTEMPT_MAX,
};

static const char *const names[_ATTEMPT_MAX] = {
    [OPEN_HOST_FILE] = "read /etc/passwd",
    [OPEN_PROC] = "read /proc/1/status",
    [LIST_ROOT] = "list /usr/bin",
    [WRITE_TMP] = "write to /tmp",
    [EXECUTE] = "execute a program",
    [CONNECT_TCP] = "connect to a TCP port",
    [SIGNAL_PARENT] = "signal the warden",
    [UNSHARE_NAMESPACE] = "make a user namespace by unshare",
    [CLONE_NAMESPACE] = "make a user namespace by clone",
    [CLONE3_NAMESPACE] = "make a user namespace by clone3",
    [WRITE_STATE] = "write to the state directory",
    [READ_RESOLVER] = "read /etc/hosts",
    [WRITE_NULL] = "write to /dev/null",
    [BIND_TCP] = "bind a TCP port",
    [ATTACH_PROGRAM] = "attach a program to a socket",
    [NEST_FILTER] = "install a further filter",
    [CHANGE_BY_PATH] = "change owner, mode, time, attributes or size of a file by its path",
    [CHANGE_OPEN] = "change owner, mode and time of a file that is open",
    [MOUNT] = "mount a file system",
    [JOIN_NAMESPACE] = "join the network namespace that there is",
};

/* What the child found, in memory it shares with us. */
struct result {
    bool done[_ATTEMPT_MAX];
    char error[256];
    uid_t uid;
    unsigned long long caps;
    int dumpable, no_new_privs, death_signal;
    rlim_t open_files;
};

static struct result *result;
static int port;

static bool can_open(const char *path, int flags)
{
    _cleanup_close_ int fd = open(path, flags | O_CLOEXEC, 0600);
    return fd >= 0;
}

static bool can_execute(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool can_tcp(bool connecting)
{
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connecting)
        a.sin_port = htons((uint16_t)port);
    return fd >= 0 && (connecting ? connect(fd, (struct sockaddr *)&a, sizeof(a))
                                  : bind(fd, (struct sockaddr *)&a, sizeof(a))) == 0;
}

static struct sock_filter pass[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
static struct sock_fprog pass_program = {1, pass};

static bool can_attach(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    int r = setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &pass_program, sizeof(pass_program));
    close(pair[0]);
    close(pair[1]);
    return r == 0;
}

static bool can_nest(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &pass_program) == 0;
}

/* Whether a call that returns twice made a child; it ends at once. */
static bool has_child(long pid)
{
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid > 0;
}

static bool can_clone(void)
{
    return has_child(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL));
}

static bool can_clone3(void)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    return has_child(syscall(SYS_clone3, &args, sizeof(args)));
}

/* Every call that changes a file which nobody has opened to read or to write. */
static unsigned change_by_path(const char *path)
{
    const struct timespec times[2] = {{1, 0}, {1, 0}};
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    bool worked[] = {
        chmod(path, 0600) == 0,
        fchmodat(AT_FDCWD, path, 0600, 0) == 0,
        syscall(NUMBER_OF_FCHMODAT2, fd, "", 0600, AT_EMPTY_PATH) == 0,
        chown(path, getuid(), getgid()) == 0,
        lchown(path, getuid(), getgid()) == 0,
        fchownat(fd, "", getuid(), getgid(), AT_EMPTY_PATH) == 0,
        utimensat(AT_FDCWD, path, times, 0) == 0,
        utimensat(fd, "", times, AT_EMPTY_PATH) == 0,
        syscall(SYS_utimensat, fd, NULL, times, 0) == 0, /* never, of an O_PATH descriptor */
        setxattr(path, "user.test", "x", 1, 0) == 0,
        lremovexattr(path, "user.test") == 0,
        truncate(path, 0) == 0,
    };
    unsigned found = 0;
    for (size_t i = 0; i < sizeof(worked) / sizeof(worked[0]); i++)
        found |= worked[i] ? 1u << i : 0;
    return found;
}

static bool can_change_open(const char *path)
{
    const struct timespec times[2] = {{1, 0}, {1, 0}};
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && fchmod(fd, 0600) == 0 && fchown(fd, getuid(), getgid()) == 0 &&
           futimens(fd, times) == 0;
}

static bool can_mount(const char *at)
{
    if (mount("test", at, "tmpfs", 0, NULL) < 0)
        return false;
    umount2(at, MNT_DETACH);
    return true;
}

static bool can_join(void)
{
    _cleanup_close_ int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return setns(fd, CLONE_NEWNET) == 0;
}

static void attempt_all(const char *state)
{
    char path[128], in_tmp[64];
    snprintf(path, sizeof(path), "%s/probe", state);
    snprintf(in_tmp, sizeof(in_tmp), "/tmp/test-drop-%d", getpid());
    bool *done = result->done;
    done[OPEN_HOST_FILE] = can_open("/etc/passwd", O_RDONLY);
    done[OPEN_PROC] = can_open("/proc/1/status", O_RDONLY);
    done[LIST_ROOT] = can_open("/usr/bin", O_RDONLY | O_DIRECTORY);
    done[WRITE_TMP] = can_open(in_tmp, O_WRONLY | O_CREAT);
    if (done[WRITE_TMP])
        unlink(in_tmp);
    done[EXECUTE] = can_execute();
    done[CONNECT_TCP] = can_tcp(true);
    done[BIND_TCP] = can_tcp(false);
    done[SIGNAL_PARENT] = kill(getppid(), 0) == 0;
    done[CLONE_NAMESPACE] = can_clone();
    done[CLONE3_NAMESPACE] = can_clone3();
    done[CHANGE_BY_PATH] = can_open(path, O_WRONLY | O_CREAT) && change_by_path(path);
    done[CHANGE_OPEN] = can_change_open(path);
    done[WRITE_STATE] = can_open(path, O_WRONLY | O_CREAT) && unlink(path) == 0;
    done[MOUNT] = can_mount(state);
    done[JOIN_NAMESPACE] = can_join();
    done[READ_RESOLVER] = can_open("/etc/hosts", O_RDONLY);
    done[WRITE_NULL] = can_open("/dev/null", O_WRONLY);
    done[ATTACH_PROGRAM] = can_attach();
    done[NEST_FILTER] = can_nest();
    done[UNSHARE_NAMESPACE] = unshare(CLONE_NEWUSER) == 0; /* last: it changes who we are */
}

static void describe(void)
{
    struct rlimit files;
    result->uid = getuid();
    result->dumpable = prctl(PR_GET_DUMPABLE);
    result->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    prctl(PR_GET_PDEATHSIG, &result->death_signal);
    getrlimit(RLIMIT_NOFILE, &files);
    result->open_files = files.rlim_cur;
    for (int cap = 0; cap < 41; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            result->caps |= 1ULL << cap;
}

enum role {
    NOBODY_YET,
    CONTROL_AS_ROOT,
    CONTROL_AS_CALLER,
    GATEWAY,
    KEEPER,
    UNPACKER,
    /* Root with all rights, so that nothing but the filter refuses. */
    FENCE_KEEPER,
    LAUNCHER,
    BROKER,
    BROKER_SERVING,
    _ROLE_MAX,
};

static const struct syscall_table *const filters[_ROLE_MAX] = {
    [FENCE_KEEPER] = &filter_fence_keeper,
    [LAUNCHER] = &filter_launcher,
    [BROKER] = &filter_broker,
    [BROKER_SERVING] = &filter_broker_serving,
};

static int drop(enum role role, const char **state, pid_t parent, struct error *err)
{
    _cleanup_close_ int fd = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (role == NOBODY_YET)
        return 0;
    if (filters[role])
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno
                                                          : filter_enter(filters[role], err);
    int r = drop_limits(77, err);
    if (r == 0 && role == CONTROL_AS_ROOT) {
        r = drop_root(*state, fd, err);
        *state = DROP_STATE_PATH;
    }
    if (r == 0)
        r = drop_identity(role == CONTROL_AS_ROOT, DROP_CONTROL_UID, DROP_CONTROL_UID, err);
    if (r == 0)
        r = drop_process(parent, err);
    if (r == 0)
        r = role == GATEWAY  ? drop_gateway_files(err)
            : role < GATEWAY ? drop_files(*state, err)
                             : 0;
    if (r < 0)
        return r;
    return role == GATEWAY    ? drop_gateway_syscalls(err)
           : role == KEEPER   ? drop_keeper_syscalls(err)
           : role == UNPACKER ? filter_enter(&filter_unpacker, err)
                              : drop_control_syscalls(err);
}

/* Runs all attempts in a child that has dropped in the given way. */
static void run(enum role role, const char *state)
{
    pid_t parent = getpid();
    memset(result, 0, sizeof(*result));
    pid_t pid = fork();
    if (pid == 0) {
        struct error err = {0};
        if (drop(role, &state, parent, &err) < 0) {
            snprintf(result->error, sizeof(result->error), "%.255s", err.message);
            _exit(1);
        }
        describe(); /* first: some attempts change it */
        attempt_all(state);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    ok(status == 0, "the child ran (status %d, %s)", status, result->error);
}

static void expect(const char *who, unsigned allowed)
{
    for (unsigned i = 0; i < _ATTEMPT_MAX; i++) {
        bool may = allowed & (1U << i);
        ok(result->done[i] == may, "%s %s %s", who, may ? "can" : "cannot", names[i]);
    }
}

#define BIT(x) (1U << (x))
#define ALL    (BIT(_ATTEMPT_MAX) - 1)

static int listen_somewhere(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return -1;
    port = ntohs(a.sin_port);
    return fd;
}

int main(void)
{
    char state[] = "/tmp/test-drop-XXXXXX";
    result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    _cleanup_close_ int listener = listen_somewhere();
    if (result == MAP_FAILED || listener < 0 || !mkdtemp(state))
        return 1;
    bool root = geteuid() == 0;
    bool landlock =
        syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= 6; /* every wall of ours: ABI 6 */

    run(NOBODY_YET, state);
    expect("nobody yet", root ? ALL : ALL & ~(BIT(MOUNT) | BIT(JOIN_NAMESPACE)));

    if (root && chown(state, DROP_CONTROL_UID, DROP_CONTROL_UID) == 0) {
        run(CONTROL_AS_ROOT, state);
        unsigned may =
            BIT(WRITE_STATE) | BIT(READ_RESOLVER) | BIT(WRITE_NULL) | BIT(CHANGE_BY_PATH);
        expect("control plane of root", landlock ? may : may | BIT(CONNECT_TCP) | BIT(BIND_TCP));
        ok(result->uid == DROP_CONTROL_UID && result->caps == 0, "another user, no bounding set");
        ok(result->dumpable == 0 && result->no_new_privs == 1 && result->death_signal == SIGKILL &&
               result->open_files == 77,
           "process flags and limits");
        ok(chown(state, 0, 0) == 0, "take the directory back");
    }
    if (landlock) {
        run(CONTROL_AS_CALLER, state);
        expect("control plane of a caller",
               BIT(WRITE_STATE) | BIT(READ_RESOLVER) | BIT(WRITE_NULL) | BIT(CHANGE_BY_PATH));
        run(GATEWAY, state);
        expect("gateway",
               BIT(OPEN_HOST_FILE) | BIT(READ_RESOLVER) | BIT(CONNECT_TCP) | BIT(BIND_TCP));
    }
    /* The filters alone: files and the network are other walls' there. */
    unsigned anything = ALL & ~(BIT(UNSHARE_NAMESPACE) | BIT(CLONE_NAMESPACE) |
                                BIT(CLONE3_NAMESPACE) | BIT(MOUNT) | BIT(JOIN_NAMESPACE));
    run(KEEPER, state);
    expect("keeper", anything & ~BIT(ATTACH_PROGRAM));
    run(UNPACKER, state);
    expect("unpacker", anything & ~(BIT(EXECUTE) | BIT(CONNECT_TCP) | BIT(BIND_TCP) |
                                    BIT(ATTACH_PROGRAM) | BIT(NEST_FILTER) | BIT(CHANGE_BY_PATH)));
    if (root) {
        unsigned files = BIT(OPEN_HOST_FILE) | BIT(OPEN_PROC) | BIT(LIST_ROOT) | BIT(WRITE_TMP) |
                         BIT(WRITE_STATE) | BIT(READ_RESOLVER) | BIT(WRITE_NULL);
        run(FENCE_KEEPER, state);
        expect("keeper of a fence", files | BIT(SIGNAL_PARENT) | BIT(CHANGE_BY_PATH));
        run(LAUNCHER, state);
        expect("launcher", BIT(SIGNAL_PARENT));
        run(BROKER, state);
        expect("broker", files | BIT(SIGNAL_PARENT) | BIT(CHANGE_BY_PATH) | BIT(CHANGE_OPEN) |
                             BIT(MOUNT) | BIT(NEST_FILTER));
        run(BROKER_SERVING, state);
        expect("broker that serves", files | BIT(SIGNAL_PARENT));
    }
    rmdir(state);
    return tap_done();
}
