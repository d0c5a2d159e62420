#include "daemon/stage.h"

#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

void stage_append(char ***v, char *text)
{
    size_t n = strv_length(*v);
    *v = xrealloc(*v, (n + 2) * sizeof(char *));
    (*v)[n] = text;
    (*v)[n + 1] = NULL;
}

void stage_append_list(char ***argv, const char *prefix, char *const *list)
{
    for (; list && *list; list++)
        stage_append(argv, xasprintf("%s%s", prefix, *list));
}

char **stage_take_list(char **argv, const char *prefix)
{
    size_t len = strlen(prefix);
    char **list = NULL;
    for (; *argv; argv++)
        if (strncmp(*argv, prefix, len) == 0)
            stage_append(&list, *argv + len);
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
