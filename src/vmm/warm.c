/* SPDX-License-Identifier: Apache-2.0 */
/* The first command of a machine takes many times as long as the next one: under emulation every
 * instruction on its way is translated, in a copy every page on it is copied or found. So each
 * machine runs one that does nothing before it is handed out, the way that a control plane would
 * have it run: a process of ours is the first connection that the runner serves. It is without
 * effect when that fails; the machine is then handed out as it is. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "proto/frame.h"
#include "proto/message.h"
#include "vmm/vmm.h"

#define WARM_MAX_S  20
#define WARM_STREAM 0xffffffffu /* no control plane comes as far */
#define WARM_BYTES  (64 * 1024)

static int send_frames(int fd)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(WARM_BYTES);
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)":", NULL};
    char *env[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    const struct msg_hello hello = {.version = PROTO_VERSION};
    const struct msg_spawn spawn = {.request_id = WARM_STREAM,
                                    .timeout_ms = WARM_MAX_S * 1000,
                                    .argv = argv,
                                    .env = env,
                                    .cwd = "",
                                    .tag = "",
                                    .pins = ""};
    strbuf_append(&out, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    msg_hello_format(&out, 0, &hello);
    msg_spawn_format(&out, WARM_STREAM, &spawn);
    return fd_write_all(fd, out.data, out.len);
}

/* Whether a frame of these bytes says that the command is over. *len: what is left of them. */
static bool has_ended(uint8_t *data, size_t *len)
{
    struct frame f;
    int n;
    while ((n = frame_parse(data, *len, &f)) > 0) {
        bool end = f.stream == WARM_STREAM && (f.type == MSG_EXIT || f.type == MSG_SPAWN_FAILED);
        *len -= (size_t)n;
        memmove(data, data + n, *len);
        if (end)
            return true;
    }
    return n < 0;
}

static void await_end(int fd)
{
    static uint8_t data[2 * WARM_BYTES];
    size_t len = 0;
    bool greeted = false;
    ssize_t n;
    while (len < sizeof(data) && (n = read(fd, data + len, sizeof(data) - len)) > 0) {
        len += (size_t)n;
        if (!greeted && len >= FRAME_PREFACE_SIZE) {
            greeted = true;
            len -= FRAME_PREFACE_SIZE;
            memmove(data, data + FRAME_PREFACE_SIZE, len);
        }
        if (greeted && has_ended(data, &len))
            return;
    }
}

static void __attribute__((noreturn)) warm_main(int fd)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(FRAME_HEADER_SIZE);
    alarm(WARM_MAX_S);
    if (send_frames(fd) == 0) {
        await_end(fd);
        frame_append(&out, MSG_FORGET, WARM_STREAM, NULL, 0);
        fd_write_all(fd, out.data, out.len);
    }
    _exit(0);
}

int vm_warm(pid_t *ret_pid)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    *ret_pid = fork();
    if (*ret_pid == 0) {
        close(pair[0]);
        warm_main(pair[1]);
    }
    int r = *ret_pid < 0 ? -errno : 0;
    close(pair[1]);
    if (r < 0)
        fd_close(&pair[0]);
    return r < 0 ? r : pair[0];
}
