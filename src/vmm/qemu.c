/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's "microvm" machine: no firmware to speak of, no legacy devices, virtio over memory. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/child.h"
#include "vmm/vmm.h"

#define QEMU_PROGRAM "/usr/bin/qemu-system-x86_64"
#define ARGS_MAX     64
#define ARGS_SIZE    4096
#define MIB          (1024ull * 1024)
#define MIN_MIB      64 /* what the kernel and the first process need to start at all */
#define CPUS_MAX     32
#define CONSOLE_LINE "quiet loglevel=1 panic=-1 reboot=t random.trust_cpu=off"

/* The emulator's descriptors, at these numbers. */
enum {
    FD_CTL = 3,
    FD_DATA,
    FD_END,
};

struct args {
    const char *argv[ARGS_MAX + 1];
    size_t n, used;
    char text[ARGS_SIZE];
};

static void __attribute__((format(printf, 2, 3))) add(struct args *a, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(a->text + a->used, sizeof(a->text) - a->used, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(a->text) - a->used || a->n >= ARGS_MAX)
        child_must(-E2BIG, "write the emulator's command", -1);
    a->argv[a->n++] = a->text + a->used;
    a->used += (size_t)n + 1;
}

/* The guest's clock is this processor's, but a guest under emulation cannot measure its speed: it
 * would wait for ever for the timer that it compares with. */
static unsigned long clock_khz(void)
{
    unsigned long khz = 2000000;
    double mhz;
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "cpu MHz : %lf", &mhz) == 1 && mhz > 100 && mhz < 10000) {
            khz = (unsigned long)(mhz * 1000);
            break;
        }
    if (f)
        fclose(f);
    return khz;
}

static unsigned long long guest_mib(const struct vm *vm)
{
    uint64_t bytes = vm->start.child.limits.memory_bytes;
    child_must(bytes < MIN_MIB * MIB ? -ERANGE : 0, "read the machine's memory", WALL_MEMORY);
    return bytes / MIB;
}

static unsigned guest_cpus(const struct vm *vm)
{
    uint64_t m = vm->start.child.limits.cpu_millicores;
    uint64_t n = m ? (m + 999) / 1000 : 1;
    return n > CPUS_MAX ? CPUS_MAX : (unsigned)n;
}

static void add_port(struct args *a, const char *name, int fd, int number)
{
    add(a, "-chardev");
    add(a, "socket,id=%s,fd=%d", name, fd);
    add(a, "-device");
    add(a, "virtserialport,chardev=%s,nr=%d", name, number);
}

static void fill_args(const struct vm *vm, struct args *a)
{
    static const char *const fixed[] = {
        QEMU_PROGRAM,
        "-nodefaults",
        "-no-user-config",
        "-nographic",
        "-no-reboot",
        "-M",
        "microvm,x-option-roms=off,rtc=off",
        "-accel",
        "tcg,thread=multi,tb-size=64",
        "-cpu",
        "qemu64",
        "-monitor",
        "none",
        "-serial",
        "none",
        "-device",
        "virtio-serial-device",
    };
    for (size_t i = 0; i < ELEMENTS(fixed); i++)
        add(a, "%s", fixed[i]);
    add(a, "-m");
    add(a, "%llu", guest_mib(vm));
    add(a, "-smp");
    add(a, "%u", guest_cpus(vm));
    add(a, "-kernel");
    add(a, VM_FILES_DIR "/" VM_KERNEL_NAME);
    add(a, "-initrd");
    add(a, VM_FILES_DIR "/" VM_INITRAMFS_NAME);
    add(a, "-append");
    add(a, CONSOLE_LINE " tsc_early_khz=%lu", clock_khz());
    add(a, "-drive");
    add(a, "id=root,file=" VM_FILES_DIR "/" VM_ROOT_NAME ",format=raw,if=none,readonly=on");
    add(a, "-device");
    add(a, "virtio-blk-device,drive=root,serial=" GUEST_ROOT_DISK);
    if (vm->start.child.disk_from_fd) {
        add(a, "-drive");
        add(a, "id=disk,file=" VM_DISK_FILE ",format=raw,if=none,cache=unsafe,discard=unmap");
        add(a, "-device");
        add(a, "virtio-blk-device,drive=disk,serial=" GUEST_DATA_DISK);
    }
    add_port(a, "data", FD_DATA, 1);
    add_port(a, "ctl", FD_CTL, 2);
}

/* In the emulator's process: descriptors at their numbers, and the tool's user. */
static void __attribute__((noreturn))
become_emulator(const struct vm *vm, int ctl, int data, int message, char *const *argv)
{
    const int fds[] = {ctl, data};
    int high[ELEMENTS(fds)];
    uid_t id = vm->start.child.flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
    _Static_assert(ELEMENTS(fds) == FD_END - FD_CTL, "one number each");
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (size_t i = 0; i < ELEMENTS(fds); i++)
        high[i] = fcntl(fds[i], F_DUPFD, FD_END + 8);
    dup2(message, 2);
    for (size_t i = 0; i < ELEMENTS(fds); i++)
        dup2(high[i], FD_CTL + (int)i);
    close_range(FD_END, ~0U, 0);
    if (setgroups(0, NULL) == 0 && setresgid(id, id, id) == 0 && setresuid(id, id, id) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* which a change of ids undoes */
        execv(argv[0], argv);
    }
    dprintf(2, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void qemu_start(struct vm *vm)
{
    static struct args a;
    int ctl[2], data[2], message[2];
    fill_args(vm, &a);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ctl) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, data) < 0 ||
        pipe2(message, O_CLOEXEC | O_NONBLOCK) < 0)
        child_must(-errno, "make the machine's ports", -1);
    vm->emulator = fork();
    if (vm->emulator == 0)
        become_emulator(vm, ctl[1], data[1], message[1], (char *const *)a.argv);
    child_must(vm->emulator < 0 ? -errno : 0, "start the emulator", -1);
    close(ctl[1]);
    close(data[1]);
    close(message[1]);
    vm->ctl_fd = ctl[0];
    vm->data_fd = data[0];
    vm->message_fd = message[0];
    vm->emulator_pidfd = pidfd_open(vm->emulator, 0);
    child_must(vm->emulator_pidfd < 0 ? -errno : 0, "watch the emulator", -1);
}

void qemu_read_message(struct vm *vm, char *ret, size_t size)
{
    char text[2048];
    ssize_t n = read(vm->message_fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = 0;
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = 0;
    char *last = strrchr(text, '\n');
    snprintf(ret, size, "%s", last ? last + 1 : text);
}
