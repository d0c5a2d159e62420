/* SPDX-License-Identifier: Apache-2.0 */
/* A runner small enough to test the warden with: PID 1 of the sandbox that runs one shell command
 * per request as the tool's user. Requests and answers on descriptor 3: a 32-bit length, then the
 * command, or the command's output with "exit=N" on its last line. "!pid1 CMD" runs CMD without
 * changing ids. A connection that comes over descriptor 4 replaces the one before. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUEST_MAX 65536
#define ANSWER_MAX  (1024 * 1024)

static unsigned tool_uid = 1000;
static int shared;

static int read_all(int fd, void *data, size_t len)
{
    for (char *p = data; len;) {
        ssize_t n = read(fd, p, len);
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static void run(const char *command)
{
    if (strncmp(command, "!pid1 ", 6) == 0)
        command += 6;
    else if (!shared && (setgroups(0, NULL) || setresgid(tool_uid, tool_uid, tool_uid) ||
                         setresuid(tool_uid, tool_uid, tool_uid)))
        _exit(99);
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin", 1);
    if (chdir("/workspace"))
        _exit(98);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void answer(int sock, const char *command)
{
    static char out[ANSWER_MAX + 64];
    uint32_t len = 0;
    int pipes[2], status = 0;
    if (pipe(pipes))
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        for (int i = 3; i < 16; i++)
            close(i);
        run(command);
    }
    close(pipes[1]);
    for (ssize_t n; len < ANSWER_MAX && (n = read(pipes[0], out + len, ANSWER_MAX - len)) > 0;)
        len += (uint32_t)n;
    close(pipes[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = 0xff00;
    len += (uint32_t)sprintf(out + len, "exit=%d",
                             WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    if (write(sock, &len, sizeof(len)) != sizeof(len) || write(sock, out, len) != (ssize_t)len)
        return;
}

static int receive_connection(void)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    int fd = -1;
    if (recvmsg(4, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
    return fd;
}

static int serve(int sock)
{
    static char command[REQUEST_MAX + 1];
    uint32_t len;
    if (read_all(sock, &len, sizeof(len)) || len > REQUEST_MAX || read_all(sock, command, len))
        return -1;
    command[len] = 0;
    if (strcmp(command, "!exit") == 0)
        exit(7);
    answer(sock, command);
    return 0;
}

int main(int argc, char **argv)
{
    int sock = 3;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--shared-uid") == 0)
            shared = 1;
        if (strcmp(argv[i], "--uid") == 0 && i + 1 < argc)
            tool_uid = (unsigned)atoi(argv[i + 1]);
    }
    for (;;) {
        struct pollfd p[2] = {{4, POLLIN, 0}, {sock, POLLIN, 0}};
        if (poll(p, sock < 0 ? 1 : 2, -1) < 0)
            continue;
        if (p[0].revents) {
            int fresh = receive_connection();
            if (fresh < 0)
                return 3;
            close(sock);
            sock = fresh;
        } else if (p[1].revents && serve(sock) < 0) {
            close(sock);
            sock = -1;
        }
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
    }
}
