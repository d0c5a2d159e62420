/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/output.h"
#include "libsbx/sbx.h"

static int write_out(struct event_printer *p, int fd, const char *data, size_t len)
{
    int r = fd_write_all(fd, data, len);
    if (r < 0)
        p->write_errno = -r;
    return r;
}

int event_print(void *printer, const struct sbx_event *ev)
{
    struct event_printer *p = printer;
    if (strcmp(ev->type, "exit") == 0) {
        p->exited = true;
        p->exit_code = exit_code_of(ev->status, ev->error, ev->has_exit_code, ev->exit_code);
    }
    if (p->raw) {
        int r = write_out(p, STDOUT_FILENO, ev->json, ev->json_len);
        if (r < 0)
            return r;
        return write_out(p, STDOUT_FILENO, "\n", 1);
    }
    if (strcmp(ev->type, "output") != 0 || !ev->data_len)
        return 0;
    int fd = strcmp(ev->stream, "stderr") == 0 ? STDERR_FILENO : STDOUT_FILENO;
    return write_out(p, fd, ev->data, ev->data_len);
}

int event_exit_code(const struct event_printer *p)
{
    if (p->write_errno == EPIPE)
        return EXIT_BROKEN_PIPE;
    if (p->write_errno) {
        cli_warn("output: %s", strerror(p->write_errno));
        return EXIT_SBX_FAILED;
    }
    return p->exited ? p->exit_code : 0;
}
