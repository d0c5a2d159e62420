/* SPDX-License-Identifier: Apache-2.0 */
/* See userns.h. Three ids of a sandbox exist on the host: the runner's (0 inside), the tool's
 * (1000) and that of `nobody` (65534); no id of the host is mapped, unless there is no range and
 * all is the caller's. */
#include "warden/local/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "warden/local/root.h"
#include "base/strbuf.h"

#define SUBID_FILE_MAX (1024 * 1024)

/* The first range of this user in /etc/subuid or /etc/subgid: "name-or-uid:first:count". */
static int find_subids(const char *file, uid_t uid, uint32_t *ret_first, uint32_t *ret_count)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SUBID_FILE_MAX);
    const struct passwd *pw = getpwuid(uid);
    char number[16];
    snprintf(number, sizeof(number), "%u", uid);
    int r = fd_read_file_at(AT_FDCWD, file, &text);
    if (r < 0)
        return r;
    char *save = NULL;
    for (char *l = text.data ? strtok_r(text.data, "\n", &save) : NULL; l;
         l = strtok_r(NULL, "\n", &save)) {
        char *colon = strchr(l, ':');
        if (!colon || sscanf(colon, ":%u:%u", ret_first, ret_count) != 2)
            continue;
        *colon = 0;
        if (strcmp(l, number) == 0 || (pw && strcmp(l, pw->pw_name) == 0))
            return 0;
    }
    return -ENOENT;
}

/* newuidmap PID 0 CALLER 1 1 FIRST COUNT: the caller is 0, the range starts at 1. */
static int run_mapper(const char *program, pid_t pid, uint32_t caller, uint32_t first,
                      uint32_t count)
{
    char pid_text[16], caller_text[16], first_text[16], count_text[16];
    snprintf(pid_text, sizeof(pid_text), "%d", (int)pid);
    snprintf(caller_text, sizeof(caller_text), "%u", caller);
    snprintf(first_text, sizeof(first_text), "%u", first);
    snprintf(count_text, sizeof(count_text), "%u", count);
    pid_t child = helper_fork(NULL, 0);
    if (child < 0)
        return child;
    if (child == 0) {
        execlp(program, program, pid_text, "0", caller_text, "1", "1", first_text, count_text,
               (char *)NULL);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

struct subids {
    uint32_t uid_first, uid_count, gid_first, gid_count;
};

/* The mapping programs must run outside the new namespace, so a helper is forked before entering it
 * and told by a byte when to start. */
static pid_t fork_mapper(const struct subids *ids, int *ret_start, struct error *err)
{
    int start[2];
    pid_t target = getpid();
    uint32_t uid = geteuid(), gid = getegid();
    if (pipe2(start, O_CLOEXEC) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "make a pipe");
    pid_t helper = helper_fork(&start[0], 1);
    if (helper == 0) {
        char go;
        if (read(start[0], &go, 1) != 1)
            _exit(1);
        bool mapped = run_mapper("newuidmap", target, uid, ids->uid_first, ids->uid_count) >= 0 &&
                      run_mapper("newgidmap", target, gid, ids->gid_first, ids->gid_count) >= 0;
        _exit(mapped ? 0 : 1);
    }
    close(start[0]);
    *ret_start = start[1];
    if (helper < 0) {
        close(start[1]);
        return error_set(err, ERROR_UNAVAILABLE, -helper, "fork");
    }
    return helper;
}

static int write_single_map(uint32_t uid, uint32_t gid, struct error *err)
{
    char text[64];
    snprintf(text, sizeof(text), "0 %u 1", uid);
    int r = fd_write_file_at(AT_FDCWD, "/proc/self/uid_map", text);
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "map the caller's user id");
    /* The kernel takes a gid_map from a process without rights only after it gave up setgroups(),
     * with which it could leave a group that denies it something. */
    r = fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny");
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "give up setgroups()");
    snprintf(text, sizeof(text), "0 %u 1", gid);
    r = fd_write_file_at(AT_FDCWD, "/proc/self/gid_map", text);
    return r < 0 ? error_set(err, ERROR_UNAVAILABLE, -r, "map the caller's group id") : 0;
}

/* Enters the namespace; *ret_count is the number of subordinate ids mapped from 1 on, maybe 0. */
static int enter_userns(uint32_t *ret_count, struct error *err)
{
    struct subids ids = {0};
    uint32_t uid = geteuid(), gid = getegid();
    int start = -1, status = -1;
    pid_t helper = -1;
    if (find_subids("/etc/subuid", uid, &ids.uid_first, &ids.uid_count) == 0 &&
        find_subids("/etc/subgid", uid, &ids.gid_first, &ids.gid_count) == 0) {
        helper = fork_mapper(&ids, &start, err);
        if (helper < 0)
            return helper;
    }
    if (unshare(CLONE_NEWUSER) < 0) {
        int error = errno;
        if (helper > 0) {
            close(start); /* which is the helper's end */
            waitpid(helper, NULL, 0);
        }
        return root_refused(err, error, "make a user namespace");
    }
    if (helper > 0) {
        bool told = write(start, "x", 1) == 1;
        close(start);
        if (waitpid(helper, &status, 0) == helper && told && status == 0) {
            *ret_count = ids.uid_count < ids.gid_count ? ids.uid_count : ids.gid_count;
            return 0;
        }
        log_warn("newuidmap or newgidmap failed; runner and tool share a uid");
    }
    *ret_count = 0;
    return write_single_map(uid, gid, err);
}

int id_range_open(struct id_range *r, uint32_t first, uint32_t count, uint32_t block,
                  struct error *err)
{
    *r = (struct id_range){.first = first, .count = count, .block = block};
    if (block < ID_BLOCK_MIN)
        return error_set(err, ERROR_INVALID, 0, "id_block is below %d", ID_BLOCK_MIN);
    if (geteuid() != 0) {
        int e = enter_userns(&r->count, err);
        if (e < 0)
            return e;
        r->in_userns = true;
        r->first = 1;
        r->shared = r->count < block;
    } else if (first == 0 || count < block || first + (uint64_t)count > UINT32_MAX) {
        return error_set(err, ERROR_INVALID, 0, "id range %u+%u is not usable", first, count);
    }
    r->n_blocks = r->shared ? 0 : r->count / block;
    r->used = r->n_blocks ? xcalloc(r->n_blocks, 1) : NULL;
    return 0;
}

void id_range_share(struct id_range *r)
{
    *r = (struct id_range){.shared = true};
}

void id_range_done(struct id_range *r)
{
    free(r->used);
    *r = (struct id_range){0};
}

/* setgroups() is given up before the map of groups, as in write_single_map(). A kernel without that
 * file has no such rule. */
int userns_become_caller(uid_t uid, gid_t gid)
{
    char map[32];
    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    int r = fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny");
    snprintf(map, sizeof(map), "%u 0 1", (unsigned)gid);
    r = r < 0 && r != -ENOENT ? r : fd_write_file_at(AT_FDCWD, "/proc/self/gid_map", map);
    snprintf(map, sizeof(map), "%u 0 1", (unsigned)uid);
    if (r < 0)
        return r;
    return fd_write_file_at(AT_FDCWD, "/proc/self/uid_map", map);
}

int64_t id_block_take(struct id_range *r)
{
    if (r->shared)
        return 0;
    for (uint32_t i = 0; i < r->n_blocks; i++) {
        /* Blocks go round: the ids of a sandbox that has just ended are used again as late as
         * possible, when what it still held under them is gone. */
        uint32_t at = (r->next + i) % r->n_blocks;
        if (r->used[at])
            continue;
        r->used[at] = 1;
        r->next = (at + 1) % r->n_blocks;
        return (int64_t)r->first + (int64_t)at * r->block;
    }
    return -EAGAIN;
}

bool id_block_reserve(struct id_range *r, int64_t first)
{
    int64_t at = (first - r->first) / r->block;
    if (r->shared || first < r->first || (first - r->first) % r->block || at >= r->n_blocks ||
        r->used[at])
        return false;
    r->used[at] = 1;
    return true;
}

/* -1 and errors of id_block_take() are below first, so that a cell that never had ids may release
 * them as well. */
void id_block_release(struct id_range *r, int64_t first)
{
    if (!r->shared && first >= r->first)
        r->used[(first - r->first) / r->block] = 0;
}

int id_block_map(const struct id_range *r, int64_t first, int proc_fd, pid_t pid)
{
    char path[32], map[128];
    if (r->shared)
        snprintf(map, sizeof(map), "%d 0 1\n", SANDBOX_TOOL_ID);
    else
        snprintf(map, sizeof(map), "%d %lld 1\n%d %lld 1\n%d %lld 1\n", SANDBOX_RUNNER_ID,
                 (long long)first, SANDBOX_TOOL_ID, (long long)first + 1, SANDBOX_NOBODY_ID,
                 (long long)first + 2);
    snprintf(path, sizeof(path), "%d/uid_map", (int)pid);
    int e = fd_write_file_at(proc_fd, path, map);
    if (e < 0)
        return e;
    snprintf(path, sizeof(path), "%d/gid_map", (int)pid);
    return fd_write_file_at(proc_fd, path, map);
}

uint32_t id_block_host_id(const struct id_range *r, int64_t first, uint32_t inside)
{
    if (r->shared)
        return 0;
    return (uint32_t)first + (inside == SANDBOX_TOOL_ID ? 1 : inside == SANDBOX_NOBODY_ID ? 2 : 0);
}
