/* SPDX-License-Identifier: Apache-2.0 */
/* The link and the runner as the two containers of a pod have them, for tests of either carrier:
 * programs with users of their own, their ends, and the control plane's side of a connection. */
#pragma once

#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "tests/unit/runner-peer.h"

#define RUNNER_UID 100000
#define LINK_UID   100001
#define LINES      200000

static inline pid_t program_start(uid_t uid, int in_out, const char *const *argv)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (in_out >= 0)
        dup2(in_out, 0);
    dup2(in_out >= 0 ? in_out : 2, 1);
    close_range(3, ~0u, 0);
    if (geteuid() == 0 && (setgid(uid) < 0 || setuid(uid) < 0))
        _exit(126);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

/* The end of a process within PEER_WAIT_MS; its wait status, or -1. */
static inline int end_of(pid_t pid)
{
    int status = -1;
    for (int64_t end = clock_mono_ms() + PEER_WAIT_MS; clock_mono_ms() < end; usleep(10000))
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
    return -1;
}

static inline bool exists_within(const char *path, bool wanted)
{
    struct stat st;
    for (int64_t end = clock_mono_ms() + PEER_WAIT_MS; clock_mono_ms() < end; usleep(10000))
        if ((lstat(path, &st) == 0) == wanted)
            return true;
    return false;
}

static inline void peer_init(struct peer *p)
{
    *p = (struct peer){.next_stream = 1, .next_request = 1, .fd = -1, .channel = -1};
    strbuf_init(&p->in, 1 << 20);
    strbuf_init(&p->out, 8 << 20);
}

/* Goes on over another connection. */
static inline void peer_take(struct peer *p, int fd)
{
    fd_close(&p->fd);
    p->fd = fd;
    p->eof = p->preface = p->hello_ok = p->goodbye = false;
    p->n_states = 0;
    p->attempt++;
    strbuf_reset(&p->in);
    strbuf_reset(&p->out);
    peer_hello(p, 1);
}

static inline void peer_done(struct peer *p)
{
    fd_close(&p->fd);
    for (size_t i = 0; i < p->n_execs; i++) {
        strbuf_done(&p->execs[i].out[0]);
        strbuf_done(&p->execs[i].out[1]);
    }
    strbuf_done(&p->in);
    strbuf_done(&p->out);
}

/* Compares the numbers from 1 to LINES, one per line. */
static inline bool is_counted(const struct strbuf *b)
{
    size_t at = 0;
    for (unsigned i = 1; i <= LINES; i++) {
        char line[16];
        size_t n = (size_t)snprintf(line, sizeof(line), "%u\n", i);
        if (b->len - at < n || memcmp(b->data + at, line, n) != 0)
            return false;
        at += n;
    }
    return at == b->len;
}

static inline void copy_program(const char *from, const char *to)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PEER_OUT_MAX);
    _cleanup_close_ int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert(fd >= 0 && fd_read_file_at(AT_FDCWD, from, &b) == 0);
    assert(fd_write_all(fd, b.data, b.len) == 0 && fchmod(fd, 0755) == 0);
}
