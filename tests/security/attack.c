/* One attempt to get out of a sandbox, or to do harm from inside: attack NAME [ARGUMENT...].
 *
 * Exit 0: the attempt worked, which inside a sandbox is a hole. Exit 1: something refused it, with
 * "refused ERRNO" on stdout. Exit 2: wrong usage. The same program runs outside as the control, to
 * show that the attempt works where the wall is not. Static, so that it runs anywhere. */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHARED_KEY    0x6d617321 /* of the System V objects that two sandboxes look for */
#define SHARED_TEXT   "left by another sandbox"
#define SHARED_QUEUE  "/mas-attack"
#define ABSTRACT_NAME "mas-attack"
#define IO_TIMEOUT_MS 2000
#define BUFFER_SIZE   4096

struct attack {
    const char *name, *usage;
    int (*run)(char **args); /* 0: it worked; -errno: refused */
};

static int result(long r)
{
    return r < 0 ? -errno : 0;
}

/* --- raw calls: "sys NUMBER ARG...", an argument being a number, s:text, b:text+zeros */

static long call_argument(const char *text)
{
    if (strncmp(text, "s:", 2) == 0)
        return (long)(uintptr_t)(text + 2);
    if (strncmp(text, "b:", 2) == 0) {
        /* Below 4 GiB, so that 32-bit calls can reach it. */
        char *low = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        if (low == MAP_FAILED)
            exit(2);
        snprintf(low, BUFFER_SIZE, "%s", text + 2);
        return (long)(uintptr_t)low;
    }
    return (long)strtoul(text, NULL, 0);
}

static void call_arguments(char **args, long out[6])
{
    memset(out, 0, 6 * sizeof(*out));
    for (int i = 0; i < 6 && args[i]; i++)
        out[i] = call_argument(args[i]);
}

static int attack_sys(char **args)
{
    long a[6];
    call_arguments(args + 1, a);
    return result(syscall(strtol(args[0], NULL, 0), a[0], a[1], a[2], a[3], a[4], a[5]));
}

#ifdef __x86_64__
static int attack_x32(char **args)
{
    long a[6];
    call_arguments(args + 1, a);
    return result(
        syscall(0x40000000 | strtol(args[0], NULL, 0), a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* A 64-bit program may use the 32-bit way in; the kernel then takes 32-bit numbers. */
static long call_i386(long nr, long a, long b, long c, long d, long e)
{
    long r;
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)r;
}

static int attack_i386(char **args)
{
    long a[6];
    call_arguments(args + 1, a);
    long r = call_i386(strtol(args[0], NULL, 0), a[0], a[1], a[2], a[3], a[4]);
    return r < 0 && r > -4096 ? (int)r : 0;
}

/* socketcall(): the arguments are behind a pointer, where no filter sees them. */
static int attack_socketcall(char **args)
{
    uint32_t *low = (uint32_t *)(uintptr_t)call_argument("b:");
    low[0] = (uint32_t)strtoul(args[1], NULL, 0);
    low[1] = (uint32_t)strtoul(args[2], NULL, 0);
    low[2] = (uint32_t)strtoul(args[3], NULL, 0);
    low[3] = (uint32_t)(uintptr_t)(low + 8);
    long r = call_i386(102, strtol(args[0], NULL, 0), (long)(uintptr_t)low, 0, 0, 0);
    return r < 0 ? (int)r : 0;
}
#endif

/* --- files */

static int attack_read(char **args)
{
    char text[BUFFER_SIZE];
    int fd = open(args[0], O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return -errno;
    if (n == 0)
        return -ENODATA; /* masked */
    fwrite(text, 1, (size_t)n, stdout);
    return 0;
}

static int attack_write(char **args)
{
    int fd = open(args[0], O_WRONLY);
    if (fd < 0)
        return -errno;
    return result(write(fd, args[1], strlen(args[1])));
}

static int attack_create(char **args)
{
    int fd = open(args[0], O_WRONLY | O_CREAT | O_EXCL, 0600);
    return fd < 0 ? -errno : 0;
}

static int attack_link(char **args)
{
    return result(link(args[0], args[1]));
}

static int attack_symlink_read(char **args)
{
    char target[256] = "";
    if (symlink(args[0], args[1]) < 0 && errno != EEXIST)
        return -errno;
    if (readlink(args[1], target, sizeof(target) - 1) < 0)
        return -errno;
    return attack_read(args + 1);
}

static int attack_list(char **args)
{
    int fd = open(args[0], O_RDONLY | O_DIRECTORY);
    char entries[BUFFER_SIZE];
    if (fd < 0)
        return -errno;
    return result(syscall(SYS_getdents64, fd, entries, sizeof(entries)));
}

static int attack_mknod(char **args)
{
    mode_t type = strcmp(args[1], "b") == 0 ? S_IFBLK : S_IFCHR;
    if (mknod(args[0], type | 0666, makedev((unsigned)atoi(args[2]), (unsigned)atoi(args[3]))) < 0)
        return -errno;
    return 0;
}

static int attack_handle(char **args)
{
    struct {
        struct file_handle h;
        char bytes[128];
    } handle = {.h.handle_bytes = 128};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, args[0], &handle.h, &mount_id, 0) < 0)
        return -errno;
    int dir = open(args[0], O_RDONLY);
    return result(open_by_handle_at(dir, &handle.h, O_RDONLY));
}

/* --- mounts and namespaces */

static int attack_mount(char **args)
{
    const char *data = args[3] ? args[3] : NULL;
    return result(mount(args[0], args[1], args[2], 0, data));
}

static int attack_bind(char **args)
{
    return result(mount(args[0], args[1], NULL, MS_BIND, NULL));
}

static int attack_remount(char **args)
{
    return result(mount(NULL, args[0], NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int attack_umount(char **args)
{
    return result(umount2(args[0], MNT_DETACH));
}

static int attack_new_mount_api(char **args)
{
    (void)args;
    int fs = fsopen("tmpfs", 0);
    if (fs < 0)
        return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    return result(fsmount(fs, 0, 0));
}

static int attack_open_tree(char **args)
{
    int tree = open_tree(AT_FDCWD, args[0], OPEN_TREE_CLONE);
    if (tree < 0)
        return -errno;
    return result(move_mount(tree, "", AT_FDCWD, args[1], MOVE_MOUNT_F_EMPTY_PATH));
}

static int attack_pivot_root(char **args)
{
    if (mount("none", args[0], "tmpfs", 0, NULL) < 0 && errno != EPERM)
        return -errno;
    if (chdir(args[0]) < 0)
        return -errno;
    return result(syscall(SYS_pivot_root, ".", "."));
}

static int attack_chroot(char **args)
{
    return result(chroot(args[0]));
}

static int attack_unshare(char **args)
{
    return result(unshare((int)strtol(args[0], NULL, 0)));
}

static int wait_child(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

static int attack_clone(char **args)
{
    long pid = syscall(SYS_clone, strtol(args[0], NULL, 0) | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid < 0 ? -errno : wait_child((pid_t)pid);
}

static int attack_clone3(char **args)
{
    struct clone_args a = {.flags = strtoull(args[0], NULL, 0), .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &a, sizeof(a));
    if (pid == 0)
        _exit(0);
    return pid < 0 ? -errno : wait_child((pid_t)pid);
}

static int attack_setns(char **args)
{
    int fd = open(args[0], O_RDONLY);
    if (fd < 0)
        return -errno;
    return result(setns(fd, 0));
}

/* --- the runner, and other processes */

static int attack_ptrace(char **args)
{
    pid_t pid = atoi(args[0]);
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
        return -errno;
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return 0;
}

static int attack_ptrace_attach(char **args)
{
    pid_t pid = atoi(args[0]);
    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0)
        return -errno;
    waitpid(pid, NULL, 0);
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return 0;
}

static int attack_vm_read(char **args)
{
    char here[64];
    struct iovec local = {here, sizeof(here)};
    struct iovec remote = {(void *)strtoul(args[1], NULL, 0), sizeof(here)};
    return result(process_vm_readv(atoi(args[0]), &local, 1, &remote, 1, 0));
}

static int attack_kill(char **args)
{
    return result(kill(atoi(args[0]), atoi(args[1])));
}

static int attack_pidfd_kill(char **args)
{
    int fd = (int)syscall(SYS_pidfd_open, atoi(args[0]), 0);
    if (fd < 0)
        return -errno;
    return result(syscall(SYS_pidfd_send_signal, fd, atoi(args[1]), NULL, 0));
}

static int attack_pidfd_getfd(char **args)
{
    int fd = (int)syscall(SYS_pidfd_open, atoi(args[0]), 0);
    if (fd < 0)
        return -errno;
    return result(syscall(SYS_pidfd_getfd, fd, atoi(args[1]), 0));
}

static int attack_prlimit(char **args)
{
    struct rlimit none = {1000, 1000};
    return result(prlimit(atoi(args[0]), RLIMIT_NOFILE, &none, NULL));
}

/* Descriptors beyond standard input, output and error. */
static int attack_leaked_fds(char **args)
{
    (void)args;
    for (int fd = 3; fd < 65536; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            printf("descriptor %d\n", fd);
            return 0;
        }
    }
    return -EBADF;
}

/* A child that the runner did not start, but is told about. */
static int attack_clone_parent(char **args)
{
    for (int i = 0; i < atoi(args[0]); i++) {
        long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
        if (pid < 0)
            return -errno;
        if (pid == 0)
            _exit(77);
    }
    return 0;
}

/* --- rights */

static int attack_setuid(char **args)
{
    uid_t id = (uid_t)strtoul(args[0], NULL, 0);
    return result(setresuid(id, id, id));
}

static int attack_setgid(char **args)
{
    gid_t id = (gid_t)strtoul(args[0], NULL, 0);
    return result(setresgid(id, id, id));
}

static int attack_setgroups(char **args)
{
    gid_t id = (gid_t)strtoul(args[0], NULL, 0);
    return result(syscall(SYS_setgroups, 1, &id));
}

/* Meant to be started from a set-user-ID file. */
static int attack_euid_root(char **args)
{
    (void)args;
    return geteuid() == 0 ? 0 : -EPERM;
}

static int attack_has_capability(char **args)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    (void)args;
    return data[0].effective || data[1].effective || data[0].permitted ? 0 : -EPERM;
}

static int attack_raise_capability(char **args)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    unsigned mask = 1u << atoi(args[0]);
    struct __user_cap_data_struct data[2] = {{mask, mask, mask}};
    return result(syscall(SYS_capset, &header, data));
}

static int attack_realtime(char **args)
{
    struct sched_param p = {.sched_priority = 1};
    (void)args;
    return result(sched_setscheduler(0, SCHED_FIFO, &p));
}

static int attack_nice(char **args)
{
    return result(setpriority(PRIO_PROCESS, 0, atoi(args[0])));
}

static int attack_raise_rlimit(char **args)
{
    struct rlimit l;
    int resource = atoi(args[0]);
    if (getrlimit(resource, &l) < 0)
        return -errno;
    l.rlim_max = l.rlim_max == RLIM_INFINITY ? RLIM_INFINITY : l.rlim_max + 1;
    l.rlim_cur = l.rlim_max;
    return result(setrlimit(resource, &l));
}

/* What the limit is in the end, whatever the call said: one byte or less is none. */
static int attack_core(char **args)
{
    struct rlimit l = {1 << 20, 1 << 20};
    char line[256];
    unsigned long soft = 0;
    (void)args;
    if (setrlimit(RLIMIT_CORE, &l) < 0)
        return -errno;
    FILE *f = fopen("/proc/self/limits", "re");
    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "Max core file size %lu", &soft);
    if (f)
        fclose(f);
    return soft > 1 ? 0 : -EPERM;
}

/* --- network */

static int attack_socket(char **args)
{
    return result(socket(atoi(args[0]), (int)strtol(args[1], NULL, 0), atoi(args[2])));
}

/* EOPNOTSUPP comes after both sockets were made: the family was reached. */
static int attack_socketpair(char **args)
{
    int pair[2];
    int r = result(socketpair(atoi(args[0]), (int)strtol(args[1], NULL, 0), atoi(args[2]), pair));
    return r == -EOPNOTSUPP ? 0 : r;
}

static int attack_connect(char **args)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[1]))};
    unsigned b[4];
    if (sscanf(args[0], "%u.%u.%u.%u", &b[0], &b[1], &b[2], &b[3]) != 4)
        return -EINVAL;
    a.sin_addr.s_addr = htonl(b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3]);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    return result(connect(fd, (struct sockaddr *)&a, sizeof(a)));
}

static int abstract_socket(struct sockaddr_un *ret, socklen_t *ret_len)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path + 1, ABSTRACT_NAME, sizeof(ABSTRACT_NAME) - 1);
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(ABSTRACT_NAME));
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int attack_connect_abstract(char **args)
{
    struct sockaddr_un a;
    socklen_t len;
    int fd = abstract_socket(&a, &len);
    (void)args;
    return result(connect(fd, (struct sockaddr *)&a, len));
}

static int attack_connect_path(char **args)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", args[0]);
    return result(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(a)));
}

/* Adds an interface. */
static int attack_new_link(char **args)
{
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
        struct rtattr name;
        char text[8];
    } m = {.h = {.nlmsg_len = sizeof(m),
                 .nlmsg_type = RTM_NEWLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
           .name = {.rta_len = 4 + 8, .rta_type = 3 /* IFLA_IFNAME */},
           .text = "masx0"};
    struct {
        struct nlmsghdr h;
        struct nlmsgerr e;
        char rest[1024];
    } answer;
    (void)args;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (fd < 0 || send(fd, &m, sizeof(m), 0) < 0 ||
        recv(fd, &answer, sizeof(answer), 0) < (ssize_t)offsetof(typeof(answer), rest))
        return -errno;
    /* Outside, the kernel gets as far as asking which kind of interface. */
    return answer.e.error == -EPERM ? -EPERM : 0;
}

static int attack_lo_down(char **args)
{
    char ifr[40] = "lo";
    (void)args;
    return result(ioctl(socket(AF_INET, SOCK_DGRAM, 0), 0x8914 /* SIOCSIFFLAGS */, ifr));
}

/* --- another sandbox */

/* Leaves something in every place that two sandboxes might share, listens, and waits. */
static int attack_leave(char **args)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 64};
    int shm = shmget(SHARED_KEY, 4096, IPC_CREAT | 0666);
    char *at = shmat(shm, NULL, 0);
    if (at == (void *)-1)
        return -errno;
    strcpy(at, SHARED_TEXT);
    if (msgget(SHARED_KEY, IPC_CREAT | 0666) < 0 || semget(SHARED_KEY, 1, IPC_CREAT | 0666) < 0)
        return -errno;
    /* Not where Landlock is: the queues' file system is below no directory that has rights. */
    mq_open(SHARED_QUEUE, O_CREAT | O_RDWR, 0666, &attr);
    struct sockaddr_un a;
    socklen_t len;
    int abstract = abstract_socket(&a, &len);
    if (bind(abstract, (struct sockaddr *)&a, len) < 0 || listen(abstract, 5) < 0)
        return -errno;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[0]))};
    in.sin_addr.s_addr = htonl(INADDR_ANY);
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(tcp, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(tcp, 5) < 0)
        return -errno;
    puts("left");
    fflush(stdout);
    sleep((unsigned)atoi(args[1]));
    return 0;
}

static int attack_find_shm(char **args)
{
    (void)args;
    int id = shmget(SHARED_KEY, 4096, 0666);
    return id < 0 ? -errno : 0;
}

static int attack_find_msg(char **args)
{
    (void)args;
    return result(msgget(SHARED_KEY, 0666));
}

static int attack_find_sem(char **args)
{
    (void)args;
    return result(semget(SHARED_KEY, 1, 0666));
}

static int attack_find_queue(char **args)
{
    (void)args;
    return result((long)mq_open(SHARED_QUEUE, O_RDWR));
}

/* --- terminals */

static int attack_tty_ioctl(char **args)
{
    char byte = 'x';
    int fd = open("/dev/tty", O_RDWR);
    if (fd < 0)
        return -errno;
    return result(syscall(SYS_ioctl, fd, strtoul(args[0], NULL, 0), &byte));
}

static int ioctl_own_terminal(const char *path, unsigned long request)
{
    char byte = 'x';
    if (setsid() < 0)
        return -errno;
    int slave = open(path, O_RDWR);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
        return -errno;
    return result(syscall(SYS_ioctl, slave, request, &byte));
}

/* A terminal of our own, on which the request needs no right but the call itself. */
static int attack_pty_ioctl(char **args)
{
    char path[32];
    int n, zero = 0, status;
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &zero) < 0 || ioctl(master, TIOCGPTN, &n) < 0)
        return -errno;
    snprintf(path, sizeof(path), "/dev/pts/%d", n);
    pid_t pid = fork(); /* this process may lead a session already */
    if (pid == 0)
        _exit(-ioctl_own_terminal(path, strtoul(args[0], NULL, 0)));
    return waitpid(pid, &status, 0) < 0 ? -errno : -WEXITSTATUS(status);
}

/* --- using things up: each prints how many it got, and holds them for args[1] seconds */

static int hold(const char *what, long n, int error, char **args)
{
    printf("%s %ld %s\n", what, n, error ? strerrorname_np(error) : "all");
    fflush(stdout);
    if (args[1])
        sleep((unsigned)atoi(args[1]));
    return error ? -error : 0;
}

static int attack_take_inotify(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++)
        if (inotify_init1(IN_CLOEXEC) < 0)
            return hold("instances", n, errno, args);
    return hold("instances", n, 0, args);
}

static int attack_take_watches(char **args)
{
    long n = 0;
    int fd = inotify_init1(IN_CLOEXEC);
    for (; n < atol(args[0]); n++) {
        char name[32];
        snprintf(name, sizeof(name), "watch-%ld", n);
        close(open(name, O_WRONLY | O_CREAT, 0600));
        int r = inotify_add_watch(fd, name, IN_MODIFY);
        if (r < 0)
            return hold("watches", n, errno, args);
    }
    return hold("watches", n, 0, args);
}

static int attack_take_aio(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++) {
        aio_context_t context = 0;
        if (syscall(SYS_io_setup, 1024, &context) < 0)
            return hold("contexts", n, errno, args);
    }
    return hold("contexts", n, 0, args);
}

static int attack_take_ptys(char **args)
{
    long n = 0;
    struct rlimit l;
    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
    for (; n < atol(args[0]); n++)
        if (open("/dev/ptmx", O_RDWR | O_NOCTTY) < 0)
            return hold("terminals", n, errno, args);
    return hold("terminals", n, 0, args);
}

static int attack_take_fds(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++)
        if (open("/dev/null", O_RDONLY) < 0)
            return hold("descriptors", n, errno, args);
    return hold("descriptors", n, 0, args);
}

static int attack_take_files(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++) {
        char name[32];
        snprintf(name, sizeof(name), "file-%ld", n);
        int fd = open(name, O_WRONLY | O_CREAT, 0600);
        if (fd < 0)
            return hold("files", n, errno, args);
        close(fd);
    }
    return hold("files", n, 0, args);
}

static int attack_take_processes(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++) {
        pid_t pid = fork();
        if (pid < 0)
            return hold("processes", n, errno, args);
        if (pid == 0)
            for (;;)
                pause();
    }
    return hold("processes", n, 0, args);
}

static int attack_fork_bomb(char **args)
{
    time_t end = time(NULL) + atol(args[0]);
    while (time(NULL) < end)
        if (fork() < 0)
            sched_yield();
    return 0;
}

static int attack_take_memory(char **args)
{
    for (long mib = 0; mib < atol(args[0]); mib++) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return hold("mebibytes", mib, errno, args);
        memset(p, 1, 1 << 20);
    }
    return hold("mebibytes", atol(args[0]), 0, args);
}

/* Memory that belongs to no process: files of memory, System V segments. */
static int attack_take_shared(char **args)
{
    for (long mib = 0; mib < atol(args[0]); mib += 16) {
        int id = shmget(IPC_PRIVATE, 16 << 20, IPC_CREAT | 0600);
        char *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
        if (p == (void *)-1)
            return hold("mebibytes", mib, errno, args);
        memset(p, 1, 16 << 20);
        shmdt(p);
    }
    return hold("mebibytes", atol(args[0]), 0, args);
}

static int attack_spin(char **args)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec - start.tv_sec < atol(args[0]));
    return 0;
}

/* Stops every process it may signal, again and again: the runner's next child among them. */
static int attack_stop_all(char **args)
{
    time_t end = time(NULL) + atol(args[0]);
    while (time(NULL) < end)
        kill(-1, SIGSTOP);
    return 0;
}

static const struct attack attacks[] = {
    {"sys", "NUMBER ARG...", attack_sys},
#ifdef __x86_64__
    {"x32", "NUMBER ARG...", attack_x32},
    {"i386", "NUMBER ARG...", attack_i386},
    {"socketcall", "CALL A B C", attack_socketcall},
#endif
    {"read", "PATH", attack_read},
    {"write", "PATH TEXT", attack_write},
    {"create", "PATH", attack_create},
    {"link", "FROM TO", attack_link},
    {"symlink-read", "TARGET LINK", attack_symlink_read},
    {"list", "DIR", attack_list},
    {"mknod", "PATH b|c MAJOR MINOR", attack_mknod},
    {"handle", "PATH", attack_handle},
    {"mount", "SOURCE TARGET TYPE [DATA]", attack_mount},
    {"bind", "SOURCE TARGET", attack_bind},
    {"remount", "TARGET", attack_remount},
    {"umount", "TARGET", attack_umount},
    {"new-mount-api", "", attack_new_mount_api},
    {"open-tree", "SOURCE TARGET", attack_open_tree},
    {"pivot-root", "DIR", attack_pivot_root},
    {"chroot", "DIR", attack_chroot},
    {"unshare", "FLAGS", attack_unshare},
    {"clone", "FLAGS", attack_clone},
    {"clone3", "FLAGS", attack_clone3},
    {"setns", "PATH", attack_setns},
    {"ptrace", "PID", attack_ptrace},
    {"ptrace-attach", "PID", attack_ptrace_attach},
    {"vm-read", "PID ADDRESS", attack_vm_read},
    {"kill", "PID SIGNAL", attack_kill},
    {"pidfd-kill", "PID SIGNAL", attack_pidfd_kill},
    {"pidfd-getfd", "PID FD", attack_pidfd_getfd},
    {"prlimit", "PID", attack_prlimit},
    {"leaked-fds", "", attack_leaked_fds},
    {"clone-parent", "COUNT", attack_clone_parent},
    {"setuid", "UID", attack_setuid},
    {"setgid", "GID", attack_setgid},
    {"setgroups", "GID", attack_setgroups},
    {"euid-root", "", attack_euid_root},
    {"has-capability", "", attack_has_capability},
    {"raise-capability", "NUMBER", attack_raise_capability},
    {"realtime", "", attack_realtime},
    {"nice", "VALUE", attack_nice},
    {"raise-rlimit", "NUMBER", attack_raise_rlimit},
    {"core", "", attack_core},
    {"socket", "FAMILY TYPE PROTOCOL", attack_socket},
    {"socketpair", "FAMILY TYPE PROTOCOL", attack_socketpair},
    {"connect", "ADDRESS PORT", attack_connect},
    {"connect-abstract", "", attack_connect_abstract},
    {"connect-path", "PATH", attack_connect_path},
    {"new-link", "", attack_new_link},
    {"lo-down", "", attack_lo_down},
    {"leave", "PORT SECONDS", attack_leave},
    {"find-shm", "", attack_find_shm},
    {"find-msg", "", attack_find_msg},
    {"find-sem", "", attack_find_sem},
    {"find-queue", "", attack_find_queue},
    {"tty-ioctl", "REQUEST", attack_tty_ioctl},
    {"pty-ioctl", "REQUEST", attack_pty_ioctl},
    {"take-inotify", "COUNT [SECONDS]", attack_take_inotify},
    {"take-watches", "COUNT [SECONDS]", attack_take_watches},
    {"take-aio", "COUNT [SECONDS]", attack_take_aio},
    {"take-ptys", "COUNT [SECONDS]", attack_take_ptys},
    {"take-fds", "COUNT [SECONDS]", attack_take_fds},
    {"take-files", "COUNT [SECONDS]", attack_take_files},
    {"take-processes", "COUNT [SECONDS]", attack_take_processes},
    {"take-memory", "MIB [SECONDS]", attack_take_memory},
    {"take-shared", "MIB [SECONDS]", attack_take_shared},
    {"fork-bomb", "SECONDS", attack_fork_bomb},
    {"spin", "SECONDS", attack_spin},
    {"stop-all", "SECONDS", attack_stop_all},
};

static int usage(void)
{
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        fprintf(stderr, "attack %s %s\n", attacks[i].name, attacks[i].usage);
    return 2;
}

/* Every word of the usage but those in brackets and "..." is needed. */
static bool enough_arguments(const struct attack *a, int given)
{
    int needed = 0;
    bool inside = false;
    for (const char *p = a->usage; *p && *p != '['; p++) {
        if (*p != ' ' && !inside)
            needed++;
        inside = *p != ' ';
    }
    return given >= (strstr(a->usage, "...") ? 1 : needed);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        if (strcmp(attacks[i].name, argv[1]) != 0 || !enough_arguments(&attacks[i], argc - 2))
            continue;
        int r = attacks[i].run(argv + 2);
        if (r == 0)
            return 0;
        printf("refused %s\n", strerrorname_np(-r) ? strerrorname_np(-r) : "?");
        return 1;
    }
    return usage();
}
