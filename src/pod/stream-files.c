/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/fd.h"
#include "base/json-format.h"
#include "base/list.h"
#include "base/output-stream.h"
#include "base/utf8.h"
#include "pod/stream.h"

#define ID_SIZE    64
#define EXECS_MAX  1024 /* as many as a runner remembers */
#define CHUNK      32768
#define EXIT_BYTES 16

struct stream_exec {
    struct list node;
    char id[ID_SIZE];
    uint64_t at[OUTPUT_STREAMS]; /* sent up to here */
    bool start_sent, exit_sent;
    bool ended;   /* its exit is there, and so all of its output */
    bool present; /* found by the last scan */
    int code;
};

struct stream_files {
    int dir;
    const char *id;
    struct list execs;
    size_t n_execs;
};

struct stream_files *stream_files_new(int dir_fd, const char *id)
{
    struct stream_files *f = new0(struct stream_files);
    f->dir = dir_fd;
    f->id = id;
    list_init(&f->execs);
    return f;
}

static void exec_drop(struct stream_files *f, struct stream_exec *e)
{
    list_remove(&e->node);
    f->n_execs--;
    free(e);
}

static int exec_open(const struct stream_files *f, const struct stream_exec *e, const char *suffix)
{
    char name[ID_SIZE + 16];
    snprintf(name, sizeof(name), "%s.%s", e->id, suffix);
    return openat(f->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
}

/* What is acknowledged is a hole in front of the rest. */
static uint64_t find_begin(int fd)
{
    off_t data = lseek(fd, 0, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
        data = lseek(fd, 0, SEEK_END);
    return data > 0 ? (uint64_t)data : 0;
}

static void exec_rewind(const struct stream_files *f, struct stream_exec *e)
{
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR; s++) {
        _cleanup_close_ int fd = exec_open(f, e, output_name(s));
        e->at[output_index(s)] = fd < 0 ? 0 : find_begin(fd);
    }
    e->start_sent = e->exit_sent = false;
}

void stream_files_rewind(struct stream_files *f)
{
    list_for_each(e, &f->execs, struct stream_exec, node)
        exec_rewind(f, e);
}

static struct stream_exec *exec_find(struct stream_files *f, const char *id, size_t len)
{
    list_for_each(e, &f->execs, struct stream_exec, node) {
        if (strlen(e->id) == len && memcmp(e->id, id, len) == 0)
            return e;
    }
    if (f->n_execs >= EXECS_MAX)
        return NULL; /* it is found when another one is gone */
    struct stream_exec *e = new0(struct stream_exec);
    memcpy(e->id, id, len);
    list_append(&f->execs, &e->node);
    f->n_execs++;
    exec_rewind(f, e);
    return e;
}

static void exec_read_code(const struct stream_files *f, struct stream_exec *e)
{
    char text[EXIT_BYTES + 1] = "";
    _cleanup_close_ int fd = exec_open(f, e, "exit");
    if (fd < 0 || read(fd, text, EXIT_BYTES) < 0)
        return;
    e->code = atoi(text);
    e->ended = true;
}

static void take_name(struct stream_files *f, const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t len = dot ? (size_t)(dot - name) : 0;
    if (!len || len >= ID_SIZE || utf8_valid_prefix(name, len) != len)
        return;
    bool is_exit = strcmp(dot, ".exit") == 0;
    if (!is_exit && strcmp(dot, ".stdout") != 0 && strcmp(dot, ".stderr") != 0)
        return;
    struct stream_exec *e = exec_find(f, name, len);
    if (!e)
        return;
    e->present = true;
    if (is_exit && !e->ended)
        exec_read_code(f, e);
}

int stream_files_scan(struct stream_files *f)
{
    int copy = openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        int error = errno;
        fd_close(&copy);
        return -error;
    }
    list_for_each(e, &f->execs, struct stream_exec, node)
        e->present = false;
    for (struct dirent *entry; (entry = readdir(d));)
        take_name(f, entry->d_name);
    closedir(d);
    list_for_each_safe(e, &f->execs, struct stream_exec, node) {
        if (!e->present)
            exec_drop(f, e);
    }
    return 0;
}

/* --- events */

static struct json_text event_begin(const struct stream_files *f, const struct stream_exec *e,
                                    const char *type, struct strbuf *out)
{
    strbuf_reset(out);
    struct json_text t = json_text_begin(out, '{');
    json_text_string(&t, "sandbox_id", f->id);
    json_text_string(&t, "exec_id", e->id);
    json_text_string(&t, "type", type);
    return t;
}

static bool event_end(struct json_text *t)
{
    struct timespec now;
    struct tm parts;
    char seconds[32], text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, sizeof(text), "%s.%09ldZ", seconds, now.tv_nsec);
    json_text_string(t, "time", text);
    return json_text_end(t, '}') >= 0;
}

/* As text where it is some, so that it can be read on the way. A character that is cut by the end
 * of the piece goes with the next one, unless there is nothing before it. */
static bool format_output(const struct stream_files *f, struct stream_exec *e, uint8_t stream,
                          const char *data, size_t len, struct strbuf *out)
{
    size_t tail = utf8_incomplete_suffix(data, len);
    size_t whole = len > tail && len == CHUNK ? len - tail : len;
    uint64_t *at = &e->at[output_index(stream)];
    struct json_text t = event_begin(f, e, "output", out);
    json_text_string(&t, "stream", output_name(stream));
    json_text_int(&t, "offset", (int64_t)*at);
    if (utf8_valid_prefix(data, whole) == whole) {
        json_text_bytes(&t, "data", data, whole);
    } else {
        _cleanup_free_ char *encoded = base64_encode(data, whole, NULL);
        json_text_string(&t, "data_base64", encoded);
    }
    *at += whole;
    return event_end(&t);
}

static bool next_output(const struct stream_files *f, struct stream_exec *e, struct strbuf *out)
{
    static char chunk[CHUNK];
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR; s++) {
        _cleanup_close_ int fd = exec_open(f, e, output_name(s));
        ssize_t n = fd < 0 ? 0 : pread(fd, chunk, CHUNK, (off_t)e->at[output_index(s)]);
        if (n > 0)
            return format_output(f, e, s, chunk, (size_t)n, out);
    }
    return false;
}

static bool exec_next(const struct stream_files *f, struct stream_exec *e, struct strbuf *out)
{
    if (!e->start_sent) {
        struct json_text start = event_begin(f, e, "start", out);
        e->start_sent = true;
        return event_end(&start);
    }
    if (e->exit_sent)
        return false;
    bool ended = e->ended; /* before the output is looked at: then nothing follows it */
    if (next_output(f, e, out))
        return true;
    if (!ended)
        return false;
    struct json_text exit = event_begin(f, e, "exit", out);
    json_text_int(&exit, "exit_code", e->code);
    e->exit_sent = true;
    return event_end(&exit);
}

/* In turns: one that had something goes to the end of the list. */
bool stream_files_next(struct stream_files *f, struct strbuf *out)
{
    list_for_each(e, &f->execs, struct stream_exec, node) {
        if (!exec_next(f, e, out))
            continue;
        list_remove(&e->node);
        list_append(&f->execs, &e->node);
        return true;
    }
    return false;
}
