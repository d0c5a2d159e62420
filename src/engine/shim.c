/* SPDX-License-Identifier: Apache-2.0 */
/* docker forgets a container whose start failed half-way while the process that watches it goes on:
 * containerd's shim, with what its runtime had begun. No other program looks for it, so the broker
 * that removes such a container does. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "engine/engine.h"

#define SHIM_NAME        "containerd-shim"
#define SHIM_ID_FLAG     "-id"
#define COMMAND_LINE_MAX 8192
#define PATIENCE_MS      2000 /* for one that is about to end by itself */
#define TURN_MS          100

bool shim_is_of(const char *command_line, size_t len, const char *id)
{
    const char *end = command_line + len, *before = "";
    const char *slash = strrchr(command_line, '/'), *name = slash ? slash + 1 : command_line;
    if (strncmp(name, SHIM_NAME, strlen(SHIM_NAME)) != 0)
        return false;
    for (const char *p = command_line; p < end; before = p, p += strlen(p) + 1)
        if (strcmp(before, SHIM_ID_FLAG) == 0 && strcmp(p, id) == 0)
            return true;
    return false;
}

static bool is_shim(pid_t pid, const void *id)
{
    char path[64];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(COMMAND_LINE_MAX);
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    return fd_read_file_at(AT_FDCWD, path, &text) >= 0 && text.data &&
           shim_is_of(text.data, text.len, id);
}

static bool is_child(pid_t pid, const void *parent)
{
    return process_parent(pid) == *(const pid_t *)parent;
}

/* The first one; 0 if there is none. With end, all of them are sent SIGKILL, each looked at again
 * once it is held: only then its number cannot have been given to another. */
static pid_t each_process(bool (*is)(pid_t pid, const void *data), const void *data, bool end)
{
    pid_t found = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *d; dir && (end || !found) && (d = readdir(dir));) {
        pid_t pid = isdigit((unsigned char)d->d_name[0]) ? (pid_t)atoi(d->d_name) : 0;
        if (pid <= 1 || !is(pid, data))
            continue;
        found = pid;
        _cleanup_close_ int pidfd = end ? pidfd_open(pid, 0) : -1;
        if (pidfd >= 0 && is(pid, data))
            pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    }
    if (dir)
        closedir(dir);
    return found;
}

void shim_end(const char *id)
{
    int64_t end = clock_mono_ms() + PATIENCE_MS;
    pid_t pid;
    while ((pid = each_process(is_shim, id, false)) && clock_mono_ms() < end)
        poll(NULL, 0, TURN_MS);
    if (!pid)
        return;
    log_warn("killed what docker had left of a container that did not start id=%s pid=%d", id,
             (int)pid);
    each_process(is_child, &pid, true); /* while it is known whose they are */
    each_process(is_shim, id, true);
}
