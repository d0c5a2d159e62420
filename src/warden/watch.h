/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's event loop: descriptors, children by pidfd, and one-shot timers on one epoll set.
 *
 * Single-threaded. A callback may add and remove any watch, its own included; a removed watch is
 * never called again, even if its event was already collected. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct watcher;
struct watch;

typedef void (*watch_fd_fn)(int fd, uint32_t epoll_events, void *data);
/* wait_status as wait() gives it; the child is already reaped. */
typedef void (*watch_child_fn)(pid_t pid, int wait_status, void *data);
typedef void (*watch_timer_fn)(void *data);

struct watcher *watcher_new(void); /* NULL with errno */
void watcher_free(struct watcher *w);

/* fd is borrowed and must stay open until watch_remove(). NULL with errno. */
struct watch *watcher_add_fd(struct watcher *w, int fd, uint32_t epoll_events, watch_fd_fn fn,
                             void *data);
/* pidfd is taken on success, or -1 to have one opened. The watch removes itself after the call. */
struct watch *watcher_add_child(struct watcher *w, pid_t pid, int pidfd, watch_child_fn fn,
                                void *data);
/* Is this child watched? */
bool watcher_has_child(const struct watcher *w, pid_t pid);
/* Called once after delay_ms, then removed by itself. */
struct watch *watcher_add_timer(struct watcher *w, int delay_ms, watch_timer_fn fn, void *data);
void watch_remove(struct watch *watch); /* NULL is fine */

/* Handles what is ready, waiting at most timeout_ms (-1: no limit) for the first. */
int watcher_once(struct watcher *w, int timeout_ms);
/* Until watcher_quit(). 0, or -errno. */
int watcher_run(struct watcher *w);
void watcher_quit(struct watcher *w);
