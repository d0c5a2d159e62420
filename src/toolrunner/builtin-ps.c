/* SPDX-License-Identifier: Apache-2.0 */
/* ps: the processes of the sandbox: the runner, which is our parent, and all that descends from it.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/descendants.h"

#define PROCESSES_MAX 4096
#define FILE_MAX      65536

struct process {
    int pid, ppid;
    char state, name[64];
    unsigned long user_ticks, system_ticks;
    long rss_pages;
};

/* The name is in parentheses and may itself contain any byte, parentheses too. */
static int stat_parse(char *text, struct process *p)
{
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || strlen(close) < 4)
        return -1;
    *close = 0;
    snprintf(p->name, sizeof(p->name), "%s", open + 1);
    p->pid = atoi(text);
    return sscanf(close + 2,
                  "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u "
                  "%*u %ld",
                  &p->state, &p->ppid, &p->user_ticks, &p->system_ticks, &p->rss_pages) == 5
               ? 0
               : -1;
}

/* Arguments are separated by NULs; a kernel thread or zombie has none. */
static json_t *command_line(int dir_fd, const struct process *p)
{
    bool lossy;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
    fd_read_file_at(dir_fd, "cmdline", &b);
    while (b.len && !b.data[b.len - 1])
        b.len--;
    for (size_t i = 0; i < b.len; i++) {
        if (!b.data[i])
            b.data[i] = ' ';
    }
    if (b.len)
        return json_string_from_bytes(b.data, b.len, &lossy);
    _cleanup_free_ char *name = xasprintf("[%s]", p->name);
    return json_string_from_bytes(name, strlen(name), &lossy);
}

static json_t *process_to_json(int proc_fd, const char *name)
{
    struct process p;
    struct stat st;
    bool lossy;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
    _cleanup_close_ int dir_fd = openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || fstat(dir_fd, &st) < 0 || fd_read_file_at(dir_fd, "stat", &b) < 0 ||
        stat_parse(b.data, &p) < 0)
        return NULL;
    long ticks = sysconf(_SC_CLK_TCK), page_kb = sysconf(_SC_PAGESIZE) / 1024;
    char state[2] = {p.state, 0};
    return json_pack("{s:i, s:i, s:i, s:s, s:o, s:o, s:I, s:I}", "pid", p.pid, "ppid", p.ppid,
                     "uid", (int)st.st_uid, "state", state, "name",
                     json_string_from_bytes(p.name, strlen(p.name), &lossy), "command",
                     command_line(dir_fd, &p), "cpu_ms",
                     (json_int_t)((p.user_ticks + p.system_ticks) * 1000 / (unsigned long)ticks),
                     "rss_kb", (json_int_t)(p.rss_pages * page_kb));
}

int builtin_ps(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    DIR *proc = opendir("/proc");
    if (!proc)
        return builtin_failure_code("internal", "cannot open /proc");
    json_t *list = json_array();
    _cleanup_json_ json_t *o = json_pack("{s:o}", "processes", list);
    bool truncated = false;
    for (struct dirent *d; (d = readdir(proc));) {
        if (!isdigit((unsigned char)d->d_name[0]) ||
            !descendants_include(dirfd(proc), getppid(), (pid_t)atoi(d->d_name)))
            continue;
        truncated = json_array_size(list) >= PROCESSES_MAX;
        if (truncated)
            break;
        json_t *p = process_to_json(dirfd(proc), d->d_name);
        if (p)
            json_array_append_new(list, p);
    }
    closedir(proc);
    json_object_set_new(o, "truncated", json_boolean(truncated));
    return builtin_print(o);
}
