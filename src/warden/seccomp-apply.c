/* The part of seccomp.h that a child needs. */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "warden/seccomp.h"

int seccomp_program_apply(const struct sock_fprog *p)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, p) < 0 ? -errno : 0;
}
