/* SPDX-License-Identifier: Apache-2.0 */
/* The record by which mas-sandboxd becomes mas-warden: what goes in comes out, and what is not of
 * this version, cut short or without its descriptors is refused. */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "tap.h"
#include "warden/startup.h"

static char allowed_one[] = "/srv/one", allowed_two[] = "/srv/two";
static char *allowed[] = {allowed_one, allowed_two, NULL};

static void fill(struct startup *s)
{
    startup_init(s);
    s->options.state_dir = "/state/warden";
    s->options.store_dir = "/state";
    s->options.mounts_allow = allowed;
    s->options.config.blanks = 17;
    s->control_path = "/state/control";
    s->line_mode = true;
    s->state_fd = open("/", O_PATH | O_CLOEXEC);
    s->n_listeners = 1;
    s->listeners[0].fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    snprintf(s->listeners[0].name, STARTUP_NAME_SIZE, "sock");
}

static bool cloexec(int fd)
{
    return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static void test_whole(void)
{
    static struct startup s;
    struct error err = {0};
    fill(&s);
    int fd = startup_seal(&s);
    ok(fd > 2 && !cloexec(fd) && !cloexec(s.state_fd) && !cloexec(s.listeners[0].fd),
       "the record and its descriptors pass an execution");
    ok(write(fd, "x", 1) < 0, "the record cannot be changed");
    struct startup *t = startup_take(fd, &err);
    ok(t != NULL, "it is taken: %s", err.message);
    if (!t)
        return;
    ok(strcmp(t->options.state_dir, "/state/warden") == 0 &&
           strcmp(t->options.store_dir, "/state") == 0 &&
           strcmp(t->control_path, "/state/control") == 0 && !t->options.policy_file,
       "strings, and those that are not set");
    ok(strv_length(t->options.mounts_allow) == 2 &&
           strcmp(t->options.mounts_allow[1], "/srv/two") == 0,
       "a list");
    ok(t->options.config.blanks == 17 && t->line_mode && t->n_listeners == 1 &&
           strcmp(t->listeners[0].name, "sock") == 0,
       "numbers and listeners");
    ok(cloexec(t->state_fd) && cloexec(t->listeners[0].fd), "descriptors go no further");
    ok(fcntl(fd, F_GETFD) < 0, "the record is closed");
    startup_free(t);
}

static void refused(const void *data, size_t len, const char *word, const char *what)
{
    struct error err = {0};
    struct startup *t = startup_take(fd_sealed_memory("test", data, len), &err);
    ok(!t && strstr(err.message, word), "%s: %s", what, t ? "taken" : err.message);
}

static void test_refused(void)
{
    static struct startup s;
    struct error err = {0};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(sizeof(s) + STARTUP_TEXT_MAX);
    fill(&s);
    _cleanup_close_ int fd = startup_seal(&s);
    ok(fd_read_from_start(fd, &b) == 0, "a good record");
    struct startup *r = (struct startup *)(void *)b.data;
    r->version++;
    refused(b.data, b.len, "version 2", "another version is named");
    r->version--;
    r->bytes += 8;
    refused(b.data, b.len, "different builds", "another size");
    r->bytes -= 8;
    refused(b.data, 4, "cut short", "four bytes");
    refused(b.data, sizeof(s) - 1, "different builds", "cut in the record");
    refused(b.data, b.len - 1, "different builds", "cut in its strings");
    b.data[b.len - 1] = 'x';
    refused(b.data, b.len, "strings", "a string without an end");
    b.data[b.len - 1] = 0;
    r->n_listeners = HANDOVER_LISTENERS_MAX + 1;
    refused(b.data, b.len, "no sense", "too many listeners");
    r->n_listeners = 1;
    memset(r->listeners[0].name, 'x', STARTUP_NAME_SIZE);
    refused(b.data, b.len, "no sense", "a listener's name without an end");
    r->listeners[0].name[0] = 0;
    memset(r->listeners[0].name, 0, STARTUP_NAME_SIZE);
    r->state_fd = 999;
    refused(b.data, b.len, "state_fd", "a descriptor that is not there");
    r->state_fd = 1;
    refused(b.data, b.len, "state_fd", "a standard stream");
    ok(!startup_take(998, &err) && strstr(err.message, "no start-up record"), "no record");
}

int main(void)
{
    test_whole();
    test_refused();
    return tap_done();
}
