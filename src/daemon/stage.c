/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/stage.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "proto/handover.h"

void stage_append(char ***v, char *text)
{
    size_t n = strv_length(*v);
    *v = xrealloc(*v, (n + 2) * sizeof(char *));
    (*v)[n] = text;
    (*v)[n + 1] = NULL;
}

int stage_seal(const char *name, char *const *list)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(HANDOVER_CONFIG_MAX);
    int r = 0;
    for (; r == 0 && *list; list++)
        r = strbuf_append(&b, *list, strlen(*list) + 1);
    if (r < 0)
        return r;
    return fd_sealed_memory(name, b.data, b.len);
}

char **stage_take(int fd)
{
    struct strbuf b = STRBUF_INIT(HANDOVER_CONFIG_MAX);
    char **list = NULL;
    if (fd_read_from_start(fd, &b) < 0)
        return NULL;
    for (size_t at = 0; at < b.len; at += strlen(b.data + at) + 1)
        stage_append(&list, b.data + at);
    close(fd);
    return list;
}

char *stage_log_style(const char *format, const char *level)
{
    return xasprintf("%s:%s", format, level);
}

void stage_use_log_style(const char *style)
{
    enum log_level level = LOG_INFO;
    const char *colon = strchr(style, ':');
    if (colon)
        log_level_parse(colon + 1, &level);
    log_setup("mas-sandboxd", level, strncmp(style, "json", 4) == 0);
}

void stage_set_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
