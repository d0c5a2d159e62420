#include "warden/oci/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "warden/ceiling.h"
#include "warden/cell.h"
#include "warden/state.h"

#define RUN_DIR     "/run"
#define KNOWN_NAME  "mas-sandbox-gvisor"
#define KNOWN_MAX   256
#define TRIAL_ID    "gvisor-trial"
#define TRIAL_MS    3000 /* after the start */
#define TRIAL_BYTES (256ull * 1024 * 1024)

/* "SIZE TIME", which differ between two programs of the same name. */
static int describe_program(const struct warden *w, char *ret, size_t size)
{
    struct stat st;
    if (!w->oci.path[OCI_RUNSC][0] || stat(w->oci.path[OCI_RUNSC], &st) < 0)
        return -ENOENT;
    snprintf(ret, size, "%lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
             st.st_mtim.tv_nsec);
    return 0;
}

/* Root's alone to write, or it says nothing. */
static int read_known(const struct warden *w, struct strbuf *ret)
{
    struct stat st;
    _cleanup_close_ int fd =
        openat(w->run_fd, KNOWN_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0 ||
        st.st_mode & (S_IWGRP | S_IWOTH))
        return -ENOENT;
    return fd_read_file_at(w->run_fd, KNOWN_NAME, ret);
}

void oci_platform_open(struct warden *w)
{
    const char *const *platforms = oci_flavour(OCI_RUNSC)->platforms;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(KNOWN_MAX);
    char program[64];
    if (!w->was_root || describe_program(w, program, sizeof(program)) < 0)
        return;
    w->run_fd = open(RUN_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->run_fd < 0 || read_known(w, &text) < 0 || !text.len)
        return;
    for (unsigned i = 0; platforms[i]; i++) {
        _cleanup_free_ char *line = xasprintf("%s %s\n", program, platforms[i]);
        if (strcmp(line, text.data) == 0)
            w->oci_platform = i + 1;
    }
}

static void save(struct warden *w)
{
    const char *platform = oci_flavour(OCI_RUNSC)->platforms[w->oci_platform - 1];
    char program[64], name[64];
    if (w->run_fd < 0 || describe_program(w, program, sizeof(program)) < 0)
        return;
    _cleanup_free_ char *line = xasprintf("%s %s\n", program, platform);
    snprintf(name, sizeof(name), KNOWN_NAME ".%d", (int)getpid());
    _cleanup_close_ int fd =
        openat(w->run_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : fd_write_all(fd, line, strlen(line));
    if (r == 0 && renameat(w->run_fd, name, w->run_fd, KNOWN_NAME) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(w->run_fd, name, 0);
}

void oci_platform_learn(struct warden *w, unsigned platform)
{
    if (w->oci_platform == platform)
        return;
    w->oci_platform = platform;
    save(w);
}

void oci_platform_forget(struct warden *w)
{
    w->oci_platform = 0;
    if (w->run_fd >= 0)
        unlinkat(w->run_fd, KNOWN_NAME, 0);
}

/* Nobody waits for its reply: it is ended as soon as it runs. */
static void on_trial(void *data)
{
    struct warden *w = data;
    struct plan p = {.version = PLAN_VERSION,
                     .op = PLAN_CREATE,
                     .id = TRIAL_ID,
                     .backend = OCI_RUNSC,
                     .limits = {.memory_bytes = TRIAL_BYTES}};
    struct limits limits;
    struct plan_reply reply = {.wall = -1};
    struct child_trees trees;
    bool used = w->blanks[CELL_OCI].used;
    w->trial_timer = NULL;
    if (w->oci_platform || used || map_count(w->by_id) >= w->options.max_sandboxes)
        return;
    memset(p.weaker, 1, sizeof(p.weaker));
    child_trees_init(&trees);
    int r = ceiling_check(w, &p, &limits, &reply);
    r = r < 0 ? r : cell_create(w, &p, &limits, &trees, &reply);
    w->blanks[CELL_OCI].used = used; /* no launchers are kept for it */
    if (r < 0)
        log_debug("gVisor is not tried error=%s", reply.message);
}

void oci_platform_plan(struct warden *w)
{
    if (w->run_fd >= 0 && !w->oci_platform)
        w->trial_timer = warden_watch_timer(w, TRIAL_MS, on_trial, w);
}
