/* SPDX-License-Identifier: Apache-2.0 */
/* See disk.h. All of it happens in a helper process, because formatting takes tens of milliseconds.
 * A size is formatted once and kept as a template; each sandbox gets a copy that has no name from
 * the start, on a loop device that clears itself with the last unmount, so a crash leaves nothing.
 * The template is sparse; the copy has all of its blocks, or is counted (ledger.h). */
#include "warden/local/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "warden/local/mount.h"
#include "warden/watch.h"

#define MKFS_PROGRAM    "mkfs.ext4"
#define TEMPLATE_PREFIX "disk-"
#define LOOP_TRIES      16
#define DISK_UNIT_BYTES (1024ull * 1024)
#define DISK_MIN_UNITS  4 /* below this ext4 has no room for itself */

#define DISK_STEP_SIZE 160
#define WORK_NAME_SIZE 128

struct disk_answer {
    int32_t error;
    bool backed;
    char step[DISK_STEP_SIZE];
};

/* Lives until its helper is reaped and its answer was taken or given up, whichever is last. So the
 * helper's pid is never used once it may be another process's, and the names that a killed helper
 * leaves are removed when it can make no more of them. */
struct disk_job {
    struct list node; /* of disk_maker.jobs, until the helper is reaped */
    struct disk_maker *maker;
    uint64_t serial;
    int sock;
    pid_t pid; /* 0: reaped */
    struct watch *sock_watch, *child_watch;
    disk_done_fn fn; /* NULL: answered, or given up */
    void *data;
};

static bool have_mkfs(void)
{
    static const char *const dirs[] = {"/usr/sbin/", "/sbin/", "/usr/bin/"};
    char path[64];
    for (size_t i = 0; i < ELEMENTS(dirs); i++) {
        snprintf(path, sizeof(path), "%s%s", dirs[i], MKFS_PROGRAM);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

void disk_maker_open(struct disk_maker *m, int state_fd, uint32_t max_templates,
                     const char *instance)
{
    *m = (struct disk_maker){
        .state_fd = state_fd,
        .max_templates = max_templates,
        .host_ns_fd = -1,
        .loop_control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC),
        .dev_fd = open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
    };
    snprintf(m->instance, sizeof(m->instance), "%s", instance);
    list_init(&m->jobs);
    m->usable = geteuid() == 0 && m->loop_control_fd >= 0 && m->dev_fd >= 0 && have_mkfs();
}

static uint64_t units_of(uint64_t bytes)
{
    uint64_t units = (bytes + DISK_UNIT_BYTES - 1) / DISK_UNIT_BYTES;
    return units < DISK_MIN_UNITS ? DISK_MIN_UNITS : units;
}

uint64_t disk_image_bytes(uint64_t bytes)
{
    return units_of(bytes) * DISK_UNIT_BYTES;
}

/* Begins with the instance's name, by which the next start removes what a warden that was killed
 * has left (sweep.h). */
static void name_work(const struct disk_maker *m, const char *what, uint64_t serial,
                      char ret[WORK_NAME_SIZE])
{
    snprintf(ret, WORK_NAME_SIZE, "%s-%s-%llu", m->instance, what, (unsigned long long)serial);
}

/* The names that a helper which is dead may have left. */
static void remove_work(const struct disk_maker *m, uint64_t serial)
{
    static const char *const made[] = {"template", "image"};
    char name[WORK_NAME_SIZE];
    for (size_t i = 0; i < ELEMENTS(made); i++) {
        name_work(m, made[i], serial, name);
        unlinkat(m->state_fd, name, 0);
    }
}

static int run_mkfs(int fd, uint64_t inodes)
{
    char path[32], count[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    snprintf(count, sizeof(count), "%llu", (unsigned long long)inodes);
    pid_t pid = helper_fork(&fd, 1);
    if (pid < 0)
        return pid;
    if (pid == 0) {
        /* No journal: the disk dies with its sandbox, and what a crash leaves half-written is never
         * read. nodiscard, because discarding would punch holes into blocks that are accounted for;
         * lazy_itable_init, because the blocks of a new file are zero as they are. */
        char *const env[] = {(char *)"PATH=/usr/sbin:/sbin:/usr/bin:/bin", NULL};
        fd_set_cloexec(fd, false);
        execvpe(MKFS_PROGRAM,
                (char *const[]){(char *)MKFS_PROGRAM, (char *)"-q", (char *)"-F", (char *)"-m",
                                (char *)"0", (char *)"-O", (char *)"^has_journal", (char *)"-N",
                                count, (char *)"-E", (char *)"nodiscard,lazy_itable_init=1", path,
                                NULL},
                env);
        _exit(127);
    }
    int status;
    if (waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* Makes room for one more template: removes all when there are too many, which is rare and cheap.
 */
static void trim_templates(const struct disk_maker *m)
{
    unsigned count = 0;
    for (int pass = 0; pass < 2; pass++) {
        int fd = openat(m->state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        if (!dir)
            return fd_close(&fd);
        for (struct dirent *e; (e = readdir(dir));) {
            if (strncmp(e->d_name, TEMPLATE_PREFIX, strlen(TEMPLATE_PREFIX)) != 0)
                continue;
            if (pass == 0)
                count++;
            else
                unlinkat(m->state_fd, e->d_name, 0);
        }
        closedir(dir);
        if (count < m->max_templates)
            return;
    }
}

static int open_template(const struct disk_maker *m, const struct disk_request *r)
{
    char name[96], temporary[WORK_NAME_SIZE];
    snprintf(name, sizeof(name), TEMPLATE_PREFIX "%llu-%llu",
             (unsigned long long)units_of(r->bytes), (unsigned long long)r->inodes);
    int fd = openat(m->state_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        return fd;
    /* Two helpers may make the same template at once. Each has a temporary name of its own, and
     * whichever rename() is last wins: the two files are alike. */
    trim_templates(m);
    name_work(m, "template", r->serial, temporary);
    _cleanup_close_ int made =
        openat(m->state_fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0)
        return -errno;
    int e = ftruncate(made, (off_t)disk_image_bytes(r->bytes)) < 0 ? -errno : 0;
    if (e == 0)
        e = run_mkfs(made, r->inodes);
    if (e == 0 && renameat(m->state_fd, temporary, m->state_fd, name) < 0)
        e = -errno;
    if (e < 0) {
        unlinkat(m->state_fd, temporary, 0);
        return e;
    }
    return fd_steal(&made);
}

static int copy_sparse(int from, int to, off_t size)
{
    if (ftruncate(to, size) < 0)
        return -errno;
    for (off_t at = 0; at < size;) {
        at = lseek(from, at, SEEK_DATA);
        if (at < 0)
            return errno == ENXIO ? 0 : -errno;
        off_t end = lseek(from, at, SEEK_HOLE);
        if (end < 0)
            return -errno;
        for (off_t out = at; at < end;) {
            ssize_t n = copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);
            if (n <= 0)
                return n < 0 ? -errno : -EIO;
        }
    }
    return 0;
}

static int make_image(const struct disk_maker *m, const struct disk_request *r,
                      struct disk_answer *answer)
{
    char name[WORK_NAME_SIZE];
    struct stat st;
    int e = ledger_check(&r->claim, m->state_fd, answer->step, sizeof(answer->step));
    if (e < 0)
        return e;
    _cleanup_close_ int template = open_template(m, r);
    if (template <0)
        return template;
    name_work(m, "image", r->serial, name);
    _cleanup_close_ int image =
        openat(m->state_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    /* The name goes before the first byte is written, so that a helper that is killed from here on
     * leaves nothing to clean up. The name is needed at all because O_TMPFILE is not to be had on
     * every file system. */
    if (image < 0 || unlinkat(m->state_fd, name, 0) < 0 || fstat(template, &st) < 0)
        return -errno;
    e = copy_sparse(template, image, st.st_size);
    if (e == 0)
        e = ledger_back(&r->claim, image, &answer->backed, answer->step, sizeof(answer->step));
    return e < 0 ? e : fd_steal(&image);
}

static int attach_loop(const struct disk_maker *m, int image, char *ret_path, size_t size)
{
    for (int i = 0; i < LOOP_TRIES; i++) {
        int nr = ioctl(m->loop_control_fd, LOOP_CTL_GET_FREE);
        if (nr < 0)
            return -errno;
        snprintf(ret_path, size, "/dev/loop%d", nr);
        _cleanup_close_ int loop = openat(m->dev_fd, ret_path + 5, O_RDWR | O_CLOEXEC);
        if (loop < 0)
            return -errno;
        /* Direct where the file system can: otherwise what the sandbox writes is cached a second
         * time, which version 1 charges to no group and version 2 to the sandbox, so that with
         * little memory it waits for its own dirty pages (3 instead of 25 MB/s measured on 6.1). */
        struct loop_config config = {.fd = (uint32_t)image,
                                     .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
        if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
            return fd_steal(&loop);
        if (errno != EBUSY) /* another process took it in between */
            return -errno;
    }
    return -EBUSY;
}

static int mount_image(const char *device)
{
    _cleanup_close_ int fs = fsopen("ext4", FSOPEN_CLOEXEC);
    /* Without the flag the kernel clears tables of inodes later on, by punching holes into the
     * image: blocks that were allocated would be gone. They are zero as it is. */
    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int mnt = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return mnt < 0 ? -errno : mnt;
}

static void set_step(struct disk_answer *answer, const char *step)
{
    snprintf(answer->step, sizeof(answer->step), "%s", step);
}

/* In the helper: returns a mounted image or -errno, and the step it got to. */
static int make_disk(const struct disk_maker *m, const struct disk_request *r,
                     struct disk_answer *answer, int *ret_image)
{
    char device[32];
    set_step(answer, "enter the host view");
    if (setns(m->host_ns_fd, CLONE_NEWNS) < 0)
        return -errno;
    set_step(answer, "make a disk image");
    _cleanup_close_ int image = make_image(m, r, answer);
    if (image < 0)
        return image;
    set_step(answer, "attach a loop device");
    _cleanup_close_ int loop = attach_loop(m, image, device, sizeof(device));
    if (loop < 0)
        return loop;
    set_step(answer, "mount the disk image");
    _cleanup_close_ int mnt = mount_image(device);
    if (mnt < 0)
        return mnt;
    set_step(answer, "divide the disk image");
    int e = mount_disk_make_parts(mnt, r->runner_id, r->tool_id);
    if (e < 0)
        return e;
    *ret_image = fd_steal(&image);
    return fd_steal(&mnt);
}

static void helper_main(const struct disk_maker *m, const struct disk_request *r, int sock)
    __attribute__((noreturn));

static void helper_main(const struct disk_maker *m, const struct disk_request *r, int sock)
{
    struct disk_answer answer = {0};
    umask(077);
    int fds[2]; /* the mount, and the image */
    fds[0] = make_disk(m, r, &answer, &fds[1]);
    answer.error = fds[0] < 0 ? -fds[0] : 0;
    /* The image goes along only where its blocks are not allocated yet: the ledger then reads from
     * it how much of its promise is used. */
    size_t n_fds = answer.error ? 0 : answer.backed ? 1 : 2;
    ssize_t n = fd_send_msg(sock, &answer, sizeof(answer), fds, n_fds);
    _exit(n == sizeof(answer) ? 0 : 1);
}

static void job_free_if_over(struct disk_job *job)
{
    if (!job->pid && !job->fn)
        free(job);
}

static void job_stop_listening(struct disk_job *job)
{
    watch_remove(job->sock_watch);
    job->sock_watch = NULL;
    fd_close(&job->sock);
    job->fn = NULL;
}

static void job_on_reaped(struct disk_job *job)
{
    job->pid = 0;
    list_remove(&job->node);
    remove_work(job->maker, job->serial);
    job_free_if_over(job);
}

static void on_helper_exit(pid_t pid, int wait_status, void *data)
{
    (void)pid;
    (void)wait_status;
    job_on_reaped(data); /* its answer, or the end of its socket, may still be to come */
}

static void on_answer(int sock, uint32_t events, void *data)
{
    struct disk_job *job = data;
    struct disk_answer answer = {.error = EIO, .step = "make a disk image"};
    int fds[FD_PASS_MAX];
    (void)events;
    ssize_t n = fd_recv_msg(sock, &answer, sizeof(answer), fds);
    /* The helper runs with the warden's rights but reads a file system: its answer is believed only
     * where the descriptors fit what it says. */
    bool whole =
        n == sizeof(answer) && !answer.error && fds[0] >= 0 && answer.backed == (fds[1] < 0);
    int result = whole ? fds[0] : -(answer.error ? answer.error : EIO);
    int image = whole ? fds[1] : -1;
    for (size_t i = whole ? 2 : 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    answer.step[sizeof(answer.step) - 1] = 0;
    /* The callback may start the next job or free its owner, so the job is over before it is
     * called. */
    disk_done_fn fn = job->fn;
    void *fn_data = job->data;
    job_stop_listening(job);
    job_free_if_over(job);
    fn(result, image, answer.step, fn_data);
}

/* Waits for a helper that the loop does not watch, or not any more. */
static void job_end_helper(struct disk_job *job)
{
    watch_remove(job->child_watch);
    if (job->pid > 0) {
        kill(job->pid, SIGKILL);
        waitpid(job->pid, NULL, 0);
    }
    job_on_reaped(job);
}

struct disk_job *disk_job_start(struct disk_maker *m, struct watcher *watcher,
                                const struct disk_request *request, disk_done_fn fn, void *data)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return NULL;
    const int kept[] = {pair[1], m->loop_control_fd, m->dev_fd, m->state_fd, m->host_ns_fd};
    pid_t pid = helper_fork(kept, ELEMENTS(kept));
    if (pid == 0)
        helper_main(m, request, pair[1]);
    close(pair[1]);
    struct disk_job *job = new0(struct disk_job);
    *job = (struct disk_job){
        .maker = m, .serial = request->serial, .sock = pair[0], .pid = pid, .fn = fn, .data = data};
    list_append(&m->jobs, &job->node);
    if (pid > 0) {
        job->sock_watch = watcher_add_fd(watcher, pair[0], EPOLLIN, on_answer, job);
        job->child_watch = watcher_add_child(watcher, pid, -1, on_helper_exit, job);
    }
    if (pid > 0 && job->sock_watch && job->child_watch)
        return job;
    int error = pid < 0 ? -pid : errno;
    job_stop_listening(job);
    job_end_helper(job);
    errno = error;
    return NULL;
}

void disk_job_cancel(struct disk_job *job)
{
    if (!job)
        return;
    job_stop_listening(job);
    if (job->pid)
        kill(job->pid, SIGKILL); /* its exit is what ends the job */
    job_free_if_over(job);
}

void disk_maker_close(struct disk_maker *m)
{
    list_for_each_safe(job, &m->jobs, struct disk_job, node) {
        job_stop_listening(job);
        job_end_helper(job);
    }
    fd_close(&m->loop_control_fd);
    fd_close(&m->dev_fd);
    m->usable = false;
}
