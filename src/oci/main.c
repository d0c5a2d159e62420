/* SPDX-License-Identifier: Apache-2.0 */
/* mas-oci: started by the warden, for one sandbox or one question (proto/oci.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "oci/launcher.h"

/* The drop of a tracer's rights is not ours to check: see the daemon's. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

struct start_message {
    struct oci_start start;
    struct sock_filter filter[OCI_FILTER_MAX];
};

static void receive_start(struct start_message *m, struct launcher *l)
{
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(CHILD_CHANNEL_FD, m, sizeof(*m), fds);
    if (n == 0)
        _exit(0); /* the warden is gone */
    bool whole = n >= (ssize_t)sizeof(m->start) && m->start.n_filter <= OCI_FILTER_MAX &&
                 n == (ssize_t)(sizeof(m->start) + m->start.n_filter * sizeof(m->filter[0])) &&
                 m->start.backend < _OCI_BACKEND_MAX;
    child_must(n < 0 ? (int)n : whole ? 0 : -EPROTO, "wait for the warden", -1);
    l->start = &m->start;
    l->filter = (struct sock_fprog){.len = (unsigned short)m->start.n_filter, .filter = m->filter};
    l->run_fd = fds[0];
}

static const char usage[] =
    "usage: mas-oci [--help|--version]\n"
    "mas-sandboxd starts one per sandbox of an OCI runtime; it is of no use by hand.\n";

/* Started by hand, or by a program other than the warden. */
static int explain_usage(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("mas-oci " MAS_VERSION);
        return 0;
    }
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs(usage, asked ? stdout : stderr);
    return asked ? 0 : 2;
}

int main(int argc, char **argv)
{
    static struct start_message message;
    static struct launcher launcher;
    struct stat st;
    if (argc > 1 || fstat(CHILD_CHANNEL_FD, &st) < 0 || !S_ISSOCK(st.st_mode))
        return explain_usage(argc, argv);
    log_setup("mas-oci", LOG_INFO, false);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    fcntl(CHILD_FAILURE_FD, F_SETFD, FD_CLOEXEC);
    child_must(child_die_with_warden(), "tie to the warden", -1);
    receive_start(&message, &launcher);
    switch (message.start.task) {
    case OCI_LAUNCH:
        launcher_main(&launcher);
    case OCI_ASK:
        return version_report(&message.start, launcher.run_fd) < 0;
    }
    return EXIT_FAILURE;
}
