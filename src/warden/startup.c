/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/startup.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"

/* The strings, in the order in which they follow the record. An empty one stands for NULL, which is
 * what the configuration means by it; a list ends with an empty one. */
static const struct {
    size_t at;
    bool list;
} texts[] = {
    {offsetof(struct startup, options.state_dir)},
    {offsetof(struct startup, options.store_dir)},
    {offsetof(struct startup, options.mounts_allow), .list = true},
    {offsetof(struct startup, options.fence_dir)},
    {offsetof(struct startup, options.policy_file)},
    {offsetof(struct startup, options.cgroup_prefix)},
    {offsetof(struct startup, options.podman_socket)},
    {offsetof(struct startup, options.docker_socket)},
    {offsetof(struct startup, options.audit_checkpoint_file)},
    {offsetof(struct startup, control_path)},
    {offsetof(struct startup, daemon_name)},
};

static const struct {
    size_t at;
    const char *name;
} descriptors[] = {
#define FD(member)                                                                                 \
    {                                                                                              \
        offsetof(struct startup, member), #member                                                  \
    }
    FD(options.runner_fd),    FD(options.toolnet_fd), FD(options.engine_fd), FD(options.oci_fd),
    FD(options.intercept_fd), FD(options.vmm_fd),     FD(options.net_fd),    FD(state_fd),
    FD(state_control_fd),     FD(state_images_fd),    FD(state_lock_fd),     FD(state_parent_fd),
    FD(daemon_dir_fd),        FD(default_image_fd),   FD(line_in),           FD(line_out),
    FD(control_config_fd),    FD(gateway_config_fd),  FD(keeper_config_fd),  FD(kube_fd),
    FD(kube_settings_fd),
#undef FD
};

static void *member_at(const struct startup *s, size_t at)
{
    return (char *)(uintptr_t)s + at;
}

void startup_init(struct startup *s)
{
    *s = (struct startup){.version = STARTUP_VERSION, .bytes = sizeof(*s)};
    warden_options_init(&s->options);
    for (size_t i = 0; i < ELEMENTS(descriptors); i++)
        *(int *)member_at(s, descriptors[i].at) = -1;
    for (size_t i = 0; i < HANDOVER_LISTENERS_MAX; i++)
        s->listeners[i].fd = s->listeners[i].dir_fd = -1;
}

/* --- in mas-sandboxd */

static int put_text(struct strbuf *b, const char *text)
{
    return strbuf_append(b, text ? text : "", text ? strlen(text) + 1 : 1);
}

static int put_texts(const struct startup *s, struct strbuf *b)
{
    int r;
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        if (!texts[i].list) {
            r = put_text(b, *(const char **)member_at(s, texts[i].at));
            if (r < 0)
                return r;
            continue;
        }
        char *const *list = *(char *const **)member_at(s, texts[i].at);
        for (; list && *list; list++) {
            r = put_text(b, *list);
            if (r < 0)
                return r;
        }
        /* A list ends with an empty text, as it ends with NULL in memory. */
        r = put_text(b, NULL);
        if (r < 0)
            return r;
    }
    return 0;
}

static int set_cloexec(const struct startup *s, bool on, const char **ret_name)
{
    for (size_t i = 0; i < ELEMENTS(descriptors); i++) {
        int fd = *(int *)member_at(s, descriptors[i].at);
        *ret_name = descriptors[i].name;
        if (fd >= 0 && (fd <= STDERR_FILENO || fd_set_cloexec(fd, on) < 0))
            return -EBADF;
    }
    *ret_name = "a listening socket";
    for (uint32_t i = 0; i < s->n_listeners; i++) {
        const struct startup_listener *l = &s->listeners[i];
        if (fd_set_cloexec(l->fd, on) < 0 || (l->dir_fd >= 0 && fd_set_cloexec(l->dir_fd, on) < 0))
            return -EBADF;
    }
    return 0;
}

int startup_seal(const struct startup *s)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(STARTUP_TEXT_MAX);
    _cleanup_free_ struct startup *copy = new0(struct startup);
    const char *name;
    int r = put_texts(s, &text);
    if (r < 0)
        return r;
    *copy = *s;
    copy->text_bytes = (uint32_t)text.len;
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        *(void **)member_at(copy, texts[i].at) = NULL;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(sizeof(*copy) + STARTUP_TEXT_MAX);
    r = strbuf_append(&b, copy, sizeof(*copy));
    if (r < 0)
        return r;
    r = strbuf_append(&b, text.data, text.len);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = fd_sealed_memory("mas-startup", b.data, b.len);
    if (fd < 0)
        return fd;
    /* What the operator's shell left open must not stay open in the warden. */
    if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return -errno;
    r = set_cloexec(s, false, &name);
    if (r < 0)
        return r;
    r = fd_set_cloexec(fd, false);
    if (r < 0)
        return r;
    return fd_steal(&fd);
}

/* --- in mas-warden */

/* The next string, or NULL where there is none that ends. */
static char *next_text(char **cursor, const char *end)
{
    char *text = *cursor, *stop = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
    if (!stop || stop - text >= PATH_MAX)
        return NULL;
    *cursor = stop + 1;
    return text;
}

static char **take_list(char **cursor, const char *end)
{
    char **list = xcalloc(WARDEN_ALLOWED_MAX + 1, sizeof(*list));
    for (size_t n = 0; n <= WARDEN_ALLOWED_MAX; n++) {
        list[n] = next_text(cursor, end);
        if (list[n] && !*list[n]) {
            list[n] = NULL;
            return list;
        }
        if (!list[n])
            break;
    }
    free(list);
    return NULL;
}

/* Lists of the first n members are ours; what the record had in the others is of another process.
 */
static void free_lists(struct startup *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (texts[i].list)
            free(*(void **)member_at(s, texts[i].at));
}

static int take_texts(struct startup *s, char *cursor, const char *end)
{
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        void *value = texts[i].list ? (void *)take_list(&cursor, end) : next_text(&cursor, end);
        if (!value) {
            free_lists(s, i);
            return -EPROTO;
        }
        *(void **)member_at(s, texts[i].at) = texts[i].list || *(char *)value ? value : NULL;
    }
    if (cursor == end)
        return 0;
    free_lists(s, ELEMENTS(texts));
    return -EPROTO;
}

static int check_record(const struct startup *s, size_t len, struct error *err)
{
    if (len < 2 * sizeof(uint32_t))
        return error_set(err, ERROR_INTERNAL, EPROTO, "the start-up record is cut short");
    if (s->version != STARTUP_VERSION)
        return error_set(err, ERROR_INVALID, 0,
                         "mas-sandboxd writes start-up records of version %u and this mas-warden "
                         "reads version %u: install both from one version",
                         s->version, STARTUP_VERSION);
    if (s->bytes != sizeof(*s) || len < sizeof(*s) || s->text_bytes != len - sizeof(*s))
        return error_set(err, ERROR_INVALID, 0,
                         "mas-sandboxd and mas-warden are of different builds (a start-up record "
                         "of %u bytes, not %zu): install both from one version",
                         s->bytes, sizeof(*s));
    if (s->mode > STARTUP_CLEAN || s->n_listeners > HANDOVER_LISTENERS_MAX)
        return error_set(err, ERROR_INTERNAL, EPROTO, "the start-up record makes no sense");
    for (uint32_t i = 0; i < s->n_listeners; i++)
        if (strnlen(s->listeners[i].name, STARTUP_NAME_SIZE) == STARTUP_NAME_SIZE)
            return error_set(err, ERROR_INTERNAL, EPROTO, "the start-up record makes no sense");
    return 0;
}

struct startup *startup_take(int fd, struct error *err)
{
    _cleanup_close_ int memory = fd;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(sizeof(struct startup) + STARTUP_TEXT_MAX);
    const char *name = NULL;
    int r = fd_read_from_start(memory, &b);
    if (r < 0) {
        error_set(err, ERROR_INVALID, -r, "there is no start-up record at descriptor %d", fd);
        return NULL;
    }
    struct startup *s = (struct startup *)(void *)b.data;
    if (check_record(s, b.len, err) < 0)
        return NULL;
    r = set_cloexec(s, true, &name);
    if (r < 0) {
        error_set(err, ERROR_INTERNAL, -r, "the start-up record's descriptor %s", name);
        return NULL;
    }
    if (take_texts(s, b.data + sizeof(*s), b.data + b.len) < 0) {
        error_set(err, ERROR_INTERNAL, EPROTO, "the start-up record's strings make no sense");
        return NULL;
    }
    return (struct startup *)(void *)strbuf_steal(&b);
}

void startup_free(struct startup *s)
{
    free_lists(s, ELEMENTS(texts));
    free(s);
}
