/* SPDX-License-Identifier: Apache-2.0 */
/* See root.h. Big directories of the host (/usr and what is beside it) are read-only binds; the
 * parts of /etc that programs need are copied, so that they cost no mounts and nothing else of /etc
 * shows. Files that tell who is who are synthetic. */
#include "warden/local/root.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "proto/plan.h"
#include "warden/copy.h"
#include "warden/local/node-proxy.h"

#define ROOT_TMPFS_OPTIONS "size=96m,nr_inodes=32k,mode=0755"

const char *const root_host_dirs[] = {"usr",   "bin",   "sbin",   "lib",
                                      "lib32", "lib64", "libx32", NULL};

static const char *const empty_dirs[] = {
    "etc",   "etc/ssh",   "dev",       "dev/pts",   "dev/shm",      "proc",       "sys",
    "tmp",   "run",       "workspace", "home",      "home/sandbox", "cache",      "mnt",
    "opt",   "srv",       "root",      "var",       ".mas",         ".mas/empty", "var/tmp",
    "media", ".mas/disk", ".mas/run",  ".mas/link",
};

/* There is no route: without this every ssh would need options for the proxy. */
static const char ssh_config[] = "Host * !localhost !127.0.0.1 !::1\n"
                                 "    ProxyCommand " PLAN_SSH_PROXY "\n";

static const struct {
    const char *name, *target;
} links[] = {
    {"dev/fd", "/proc/self/fd"},
    {"dev/stdin", "/proc/self/fd/0"},
    {"dev/stdout", "/proc/self/fd/1"},
    {"dev/stderr", "/proc/self/fd/2"},
    {"dev/ptmx", "pts/ptmx"},
    {".mas/gateway.sock", "run/gateway.sock"},
    {"var/run", "../run"},
    {"etc/mtab", "/proc/self/mounts"},
};

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"dev/null", 1, 3},   {"dev/zero", 1, 5},    {"dev/full", 1, 7},
    {"dev/random", 1, 8}, {"dev/urandom", 1, 9}, {"dev/tty", 5, 0},
};

/* Below /etc; a trailing '*' matches a prefix. Copied where world-readable. */
const char *const root_etc_parts[] = {
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "timezone",
    "mime.types",
    "protocols",
    "services",
    "terminfo",
    "inputrc",
    "bash.bashrc",
    "profile",
    "os-release",
    "debian_version",
    "gai.conf",
    "host.conf",
    "locale.alias",
    "magic",
    "magic.mime",
    "ca-certificates",
    "ca-certificates.conf",
    "fonts",
    "perl",
    "python3*",
    "java*",
    "xml",
    "sgml",
    "groff",
    "papersize",
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/ca-trust",
    "crypto-policies",
    NULL,
};

/* The copy gets its attributes while it is attached nowhere, so that there is no moment at which a
 * process could find it writable or with programs that change their user. AT_RECURSIVE is for hosts
 * on which a part of /usr is a mount of its own. */
static int bind_read_only(int root_fd, const char *name)
{
    char source[64];
    snprintf(source, sizeof(source), "/%s", name);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    _cleanup_close_ int tree =
        open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (tree < 0 ||
        mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ||
        move_mount(tree, "", root_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* A symlink of a merged /usr is copied, a directory bound. */
static int add_host_dir(int root_fd, const char *name)
{
    char source[64], target[256];
    struct stat st;
    snprintf(source, sizeof(source), "/%s", name);
    if (lstat(source, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(source, target, sizeof(target) - 1);
        if (n < 0)
            return -errno;
        target[n] = 0;
        return symlinkat(target, root_fd, name) < 0 ? -errno : 0;
    }
    if (mkdirat(root_fd, name, 0755) < 0)
        return -errno;
    return bind_read_only(root_fd, name);
}

static int add_file(int root_fd, const char *name, const char *text)
{
    _cleanup_close_ int fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

/* A node of our own as root; otherwise the host's, bound. */
static int add_device(int root_fd, const char *name, dev_t dev)
{
    if (mknodat(root_fd, name, S_IFCHR | 0666, dev) == 0)
        return 0;
    char source[64];
    snprintf(source, sizeof(source), "/%s", name);
    _cleanup_close_ int node = openat(root_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    _cleanup_close_ int tree =
        node < 0 ? -1 : open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || move_mount(tree, "", root_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* Some /proc that hides nothing must be in our namespace, or the kernel refuses sandboxes their
 * own. */
static int add_proc(int root_fd)
{
    _cleanup_close_ int fs = fsopen("proc", FSOPEN_CLOEXEC);
    _cleanup_close_ int mnt = -1;
    if (fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mnt =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mnt < 0)
        mnt = open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (mnt < 0 || move_mount(mnt, "", root_fd, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static int add_program(int root_fd, const char *path, int program_fd)
{
    if (program_fd < 0)
        return 0;
    return copy_fd(program_fd, root_fd, path + 1, 0555);
}

static int populate_etc(int root_fd)
{
    _cleanup_close_ int etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int target = openat(root_fd, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (etc < 0 || target < 0)
        return etc < 0 && errno == ENOENT ? 0 : -errno;
    struct copy_budget budget = COPY_BUDGET_INIT;
    for (size_t i = 0; root_etc_parts[i]; i++) {
        int r = copy_matching(etc, target, root_etc_parts[i], &budget);
        if (r < 0)
            return r;
    }
    return 0;
}

static int populate_root(int root_fd, const struct root_options *o, struct error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(empty_dirs); i++)
        r = mkdirat(root_fd, empty_dirs[i], 0755) < 0 ? -errno : 0;
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "make directories of the template root");
    for (size_t i = 0; root_host_dirs[i]; i++)
        if ((r = add_host_dir(root_fd, root_host_dirs[i])) < 0)
            return root_refused(err, -r, root_host_dirs[i]);
    for (size_t i = 0; r == 0 && i < ELEMENTS(links); i++)
        r = symlinkat(links[i].target, root_fd, links[i].name) < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < n_root_files; i++)
        r = add_file(root_fd, root_files[i].name, root_files[i].text);
    if (r < 0 || (r = add_file(root_fd, &PLAN_NODE_PROXY[1], node_proxy_js)) < 0 ||
        (r = add_file(root_fd, "etc/ssh/ssh_config", ssh_config)) < 0 ||
        (r = populate_etc(root_fd)) < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "fill '/etc' of the template root");
    for (size_t i = 0; i < ELEMENTS(devices); i++)
        if ((r = add_device(root_fd, devices[i].name,
                            makedev(devices[i].major, devices[i].minor))) < 0)
            return root_refused(err, -r, devices[i].name);
    if ((r = add_proc(root_fd)) < 0)
        return root_refused(err, -r, "mount /proc");
    if ((r = add_program(root_fd, ROOT_RUNNER_PATH, o->runner_fd)) < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "copy the runner");
    if ((r = add_program(root_fd, "/.mas/mas-tool-net", o->toolnet_fd)) < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "copy mas-tool-net");
    if ((r = add_program(root_fd, ROOT_VMM_PATH, o->vmm_fd)) < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "copy mas-vmm");
    return 0;
}

/* What a host answers that forbids namespaces: a container's filter (EPERM, ENOSYS), a security
 * module (EACCES), or limits of namespaces that are 0 or used up (ENOSPC, EUSERS). These mean that
 * other runtimes may still work; all other errors are failures of this start. */
int root_refused(struct error *err, int error, const char *what)
{
    static const int forbidden[] = {EPERM, EACCES, ENOSYS, ENOSPC, EUSERS};
    for (size_t i = 0; i < ELEMENTS(forbidden); i++)
        if (error == forbidden[i])
            return error_set(err, ERROR_UNSUPPORTED, error, "%s", what);
    return error_set(err, ERROR_UNAVAILABLE, error, "%s", what);
}

/* EINVAL: the root directory is no mount, or not the one of its namespace. */
static int chroot_refused(struct error *err, int error, const char *what)
{
    if (error == EINVAL)
        return error_set(err, ERROR_UNSUPPORTED, error, "%s (in a chroot)", what);
    return root_refused(err, error, what);
}

static int open_own_ns(struct error *err)
{
    int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? error_set(err, ERROR_UNAVAILABLE, errno, "open /proc/self/ns/mnt") : fd;
}

/* The host's view: a copy of the host's mounts that follows what the host mounts and unmounts later
 * (MS_SLAVE) and passes nothing back. If it did not follow, it would keep a file system of the
 * host's busy that the operator has unmounted. */
static int make_host_view(int *ret_ns_fd, struct error *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return root_refused(err, errno, "make a mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return chroot_refused(err, errno, "detach from the host's mounts");
    int fd = open_own_ns(err);
    if (fd < 0)
        return fd;
    *ret_ns_fd = fd;
    return 0;
}

/* Read-only comes last, because everything before it writes. This mount is not nodev, because the
 * template's own device files are in it; nothing but the warden can make files here. */
static int pivot_into(int root_fd)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
    if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ||
        mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
        return -errno;
    return 0;
}

/* On the tmpfs that covers the scratch directory. */
static int build_root(const struct root_options *o, struct error *err)
{
    _cleanup_close_ int root_fd = open(o->scratch_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open '%s'", o->scratch_dir);
    mode_t mask = umask(0);
    int r = populate_root(root_fd, o, err);
    umask(mask);
    if (r < 0)
        return r;
    r = pivot_into(root_fd);
    return r < 0 ? chroot_refused(err, -r, "enter the template root") : 0;
}

int root_enter(const struct root_options *o, int *ret_host_ns_fd, int *ret_own_ns_fd,
               struct error *err)
{
    _cleanup_close_ int host_ns = -1;
    int r = make_host_view(&host_ns, err);
    if (r < 0)
        return r;
    /* Private, unlike the view: what the host mounts from now on must not appear in sandboxes. */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return chroot_refused(err, errno, "make the template's mount namespace");
    if (mount("mas-root", o->scratch_dir, "tmpfs", MS_NOSUID, ROOT_TMPFS_OPTIONS) < 0)
        return root_refused(err, errno, "mount the template root");
    r = build_root(o, err);
    if (r < 0) {
        umount2(o->scratch_dir, MNT_DETACH);
        return chdir("/") < 0 ? -errno : r;
    }
    r = open_own_ns(err);
    if (r < 0)
        return r;
    *ret_own_ns_fd = r;
    *ret_host_ns_fd = fd_steal(&host_ns);
    return 0;
}
