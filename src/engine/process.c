/* SPDX-License-Identifier: Apache-2.0 */
/* The container's first process on the host: found by the engine's word once, then held by pidfd
 * and told from others by its start time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "engine/engine.h"

#define STAT_MAX         4096
#define FIELD_STATE      3
#define FIELD_PARENT     4
#define FIELD_START_TIME 22
#define TURNS_MAX        4

/* A number of its stat; 0 where there is no such process any more. */
static uint64_t stat_number(pid_t pid, int wanted)
{
    char path[64];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(STAT_MAX);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (pid <= 0 || fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data)
        return 0;
    /* The name in the second field may hold anything: count from its closing parenthesis. */
    const char *p = strrchr(text.data, ')');
    if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
        return 0;
    for (int field = FIELD_STATE - 1; p && field < wanted; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t process_started(pid_t pid)
{
    return stat_number(pid, FIELD_START_TIME);
}

pid_t process_parent(pid_t pid)
{
    return (pid_t)stat_number(pid, FIELD_PARENT);
}

int process_open(const struct engine_mark *m)
{
    if (m->pid <= 1)
        return -ESRCH;
    int fd = pidfd_open(m->pid, 0);
    if (fd < 0)
        return -errno;
    if (m->started && process_started(m->pid) == m->started)
        return fd;
    close(fd);
    return -ESRCH;
}

/* Asked again once it is held: only then the number cannot have been given to another. */
int process_find(struct engine *e)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        _cleanup_json_ json_t *container = NULL;
        int r = api_inspect(e, &container);
        if (r < 0)
            return r == -ENOENT ? -ESRCH : r;
        const json_t *state = json_object_get(container, "State");
        json_int_t pid = json_integer_value(json_object_get(state, "Pid"));
        if (!json_is_true(json_object_get(state, "Running")) || pid <= 1 || pid > INT32_MAX)
            return -ESRCH;
        if (turn && pid == e->mark.pid)
            return 0;
        fd_close(&e->pidfd);
        e->mark.pid = (pid_t)pid;
        e->mark.started = process_started(e->mark.pid);
        e->pidfd = process_open(&e->mark);
        if (e->pidfd < 0)
            return -ESRCH;
    }
    return -ESRCH; /* another one each time */
}
