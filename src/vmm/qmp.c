/* SPDX-License-Identifier: Apache-2.0 */
/* See qmp.h. There is one machine per process, and so one connection. */
#include "vmm/qmp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "vmm/vmm.h"

#define LINE_MAX_BYTES (256 * 1024)

static struct {
    const struct vm *vm;
    int fd;
    size_t have;
    char message[160];
    char line[LINE_MAX_BYTES];
} qmp = {.fd = -1};

const char *qmp_message(void)
{
    return qmp.message;
}

/* The next line as a new object; *ret is NULL where the line is not an object. */
static int receive_line(int64_t until_ms, json_t **ret)
{
    char *end;
    while (!(end = memchr(qmp.line, '\n', qmp.have))) {
        if (qmp.have == sizeof(qmp.line))
            return -EMSGSIZE;
        int r = vm_wait_for_bytes(qmp.vm->emulator_pidfd, qmp.fd, until_ms);
        if (r < 0)
            return r;
        ssize_t n = read(qmp.fd, qmp.line + qmp.have, sizeof(qmp.line) - qmp.have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EPIPE;
        qmp.have += (size_t)n;
    }
    size_t len = (size_t)(end - qmp.line) + 1;
    *ret = json_loadb(qmp.line, len, 0, NULL);
    qmp.have -= len;
    memmove(qmp.line, end + 1, qmp.have);
    return 0;
}

static void keep_message(json_t *answer)
{
    const char *text = json_string_value(json_object_get(json_object_get(answer, "error"), "desc"));
    snprintf(qmp.message, sizeof(qmp.message), "%s", text ? text : "");
}

/* Events come at any time, and are not what is waited for. */
static int receive_answer(void)
{
    int64_t until_ms = clock_mono_ms() + QMP_TIMEOUT_MS;
    for (;;) {
        json_t *answer = NULL;
        int r = receive_line(until_ms, &answer);
        if (r < 0)
            return r;
        bool good = json_object_get(answer, "return"), bad = json_object_get(answer, "error");
        if (bad)
            keep_message(answer);
        json_decref(answer);
        if (good || bad)
            return good ? 0 : -EIO;
    }
}

static int send_command(const char *command, json_t *arguments, int fd)
{
    json_t *o = json_pack("{s:s, s:o*}", "execute", command, "arguments", arguments);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return -ENOMEM;
    ssize_t n = fd_send_msg(qmp.fd, text, strlen(text), &fd, fd >= 0);
    int r = n < 0 ? (int)n : n == (ssize_t)strlen(text) ? 0 : -EIO;
    free(text);
    return r < 0 ? r : receive_answer();
}

int qmp_call(const char *command, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    json_t *arguments = format ? json_vpack_ex(NULL, 0, format, ap) : NULL;
    va_end(ap);
    return send_command(command, arguments, -1);
}

int qmp_send_fd(const char *name, int fd)
{
    return send_command("getfd", json_pack("{s:s}", "fdname", name), fd);
}

int qmp_open(struct vm *vm, int fd)
{
    json_t *greeting = NULL;
    fd_close(&qmp.fd); /* that of the emulator before */
    qmp.vm = vm;
    qmp.fd = fd;
    qmp.have = 0;
    int r = receive_line(clock_mono_ms() + QMP_TIMEOUT_MS, &greeting);
    json_decref(greeting);
    return r < 0 ? r : qmp_call("qmp_capabilities", NULL);
}

int qmp_wait_migration(void)
{
    int64_t until_ms = clock_mono_ms() + QMP_TIMEOUT_MS;
    for (;;) {
        json_t *event = NULL;
        char status[32] = "";
        int r = receive_line(until_ms, &event);
        if (r < 0)
            return r;
        const char *name = json_string_value(json_object_get(event, "event"));
        const char *value =
            json_string_value(json_object_get(json_object_get(event, "data"), "status"));
        if (name && strcmp(name, "MIGRATION") == 0 && value)
            snprintf(status, sizeof(status), "%s", value);
        json_decref(event);
        if (strcmp(status, "completed") == 0)
            return 0;
        if (strcmp(status, "failed") == 0 || strcmp(status, "cancelled") == 0)
            return -EIO;
    }
}
