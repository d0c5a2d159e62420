/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program on a host whose memory for compiled BPF programs is used up, as soon as a file is
 * there: no-jit-memory FILE PROGRAM ARGUMENT... Each installing of a filter asks a process of ours
 * (seccomp's user notification), which lets it go on, or answers what the kernel answers then. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_ENOTSUPP 524

static int install(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static void answer(int listener, const char *file)
{
    struct seccomp_notif asked;
    struct seccomp_notif_resp reply = {0};
    memset(&asked, 0, sizeof(asked));
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
        return;
    reply.id = asked.id;
    if (asked.data.args[0] == SECCOMP_SET_MODE_FILTER && access(file, F_OK) == 0)
        reply.error = -KERNEL_ENOTSUPP;
    else
        reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

int main(int argc, char **argv)
{
    int listener = argc < 3 ? -1 : install();
    if (listener < 0) {
        fprintf(stderr, "no-jit-memory: %s\n", argc < 3 ? "FILE PROGRAM" : strerror(errno));
        return 1;
    }
    pid_t parent = getpid();
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        while (getppid() == parent)
            answer(listener, argv[1]);
        return 0;
    }
    close(listener);
    execv(argv[2], argv + 2);
    return 127;
}
