/* SPDX-License-Identifier: Apache-2.0 */
/* mas-intercept: started by the warden for one sandbox, told everything by one record. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "builder/child.h"
#include "intercept/ca.h"
#include "intercept/confine.h"
#include "intercept/interceptor.h"

/* Leak checking traces the process, which the confinement forbids. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static int take_start(struct intercept_start *ret, struct strbuf *sealed, struct error *err)
{
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(CHILD_CHANNEL_FD, ret, sizeof(*ret), fds);
    bool good = n == sizeof(*ret) && ret->version == INTERCEPT_VERSION && fds[0] >= 0 &&
                memchr(ret->label, 0, sizeof(ret->label));
    int r = good ? fd_read_from_start(fds[0], sealed) : -EPROTO;
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    return r < 0 ? error_set(err, ERROR_INVALID, -r, "the warden's first record") : 0;
}

static int send_ready(const struct interceptor *i, const struct error *err)
{
    _cleanup_free_ struct intercept_ready *ready = new0(struct intercept_ready);
    _cleanup_strbuf_ struct strbuf pem = STRBUF_INIT(sizeof(ready->certificate) - 1);
    ready->version = INTERCEPT_VERSION;
    if (error_is_set(err)) {
        ready->error = err->code == ERROR_INVALID ? EINVAL : EIO;
        snprintf(ready->message, sizeof(ready->message), "%s", err->message);
    } else if (ca_format(i->ca, &pem) < 0) {
        ready->error = EINVAL;
        snprintf(
            ready->message, sizeof(ready->message),
            "the names of the hosts that would be intercepted do not fit into one certificate");
    } else {
        memcpy(ready->certificate, pem.data, pem.len);
    }
    ssize_t n = fd_send_msg(CHILD_CHANNEL_FD, ready, sizeof(*ready), NULL, 0);
    return n < 0 ? (int)n : -(int)ready->error;
}

static const char usage[] =
    "usage: mas-intercept [--help|--version]\n"
    "mas-sandboxd starts one such process per sandbox whose requests get secrets; it is of no use "
    "by hand.\n";

/* Started by hand, or by a program that is not the warden. */
static int explain_usage(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("mas-intercept " MAS_VERSION);
        return EXIT_SUCCESS;
    }
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs(usage, asked ? stdout : stderr);
    return asked ? EXIT_SUCCESS : 2;
}

int main(int argc, char **argv)
{
    struct stat st;
    struct intercept_start start;
    struct interceptor i = {0};
    struct error err = {0};
    struct strbuf sealed = STRBUF_INIT(INTERCEPT_FILE_MAX);
    if (argc > 1 || fstat(CHILD_CHANNEL_FD, &st) < 0 || !S_ISSOCK(st.st_mode))
        return explain_usage(argc, argv);
    log_setup("mas-intercept", LOG_INFO, false);
    int r = take_start(&start, &sealed, &err);
    r = r < 0 ? r : interceptor_load_authorities(&i, &err);
    r = r < 0 ? r : intercept_confine(start.keep_user, &err);
    r = r < 0 ? r : interceptor_open(&i, &start, sealed.data, sealed.len, &err);
    explicit_bzero(&start, sizeof(start));
    strbuf_done(&sealed);
    r = send_ready(&i, &err) < 0 ? -EIO : r;
    if (r < 0) {
        log_error("interceptor cannot serve: %s", err.message);
        return EXIT_FAILURE;
    }
    r = interceptor_serve(&i, CHILD_CHANNEL_FD);
    interceptor_done(&i);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
