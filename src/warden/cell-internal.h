/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of cells share with each other and with the kinds: cell.c (what is asked of one),
 * cell-spawn.c (its process), blank.c, cell-start.c (a plan becomes a running sandbox) and
 * cell-end.c. */
#pragma once

#include "warden/cell.h"
#include "warden/state.h"

/* cell-spawn.c: a bare cell in CELL_BLANK, in no list; ops->size zeroes but for what all have. */
struct cell *cell_new(struct warden *w, enum cell_kind kind);
/* The same with its process. Returns NULL with reply's error and message set. */
struct cell *cell_spawn(struct warden *w, enum cell_kind kind, struct plan_reply *reply);
/* For cell_ops.clone: by clone3(), in ops->clone_flags, with ops->main in the child. */
int cell_clone(struct cell *s, struct cell_ends *ends);
/* The same with the group that the child is cloned into; -1: it is not. */
int cell_clone_into(struct cell *s, struct cell_ends *ends, int cgroup_fd);
/* The process is killed before the daemon's when the host itself is out of memory. Where the warden
 * has CAP_SYS_RESOURCE over the host, the value is also the least that the sandbox can set;
 * elsewhere the sandbox can go back to the warden's own value. */
void cell_set_oom_score(const struct cell *s);
/* For cell_ops.take_ids: a block of the warden's range. */
int64_t cell_take_ids(struct cell *s);
/* For cell_ops.admit: the byte that child_wait_for_byte() waits for. */
int cell_admit(struct cell *s);

/* cell-start.c: mas-net has given the cell a way out, or error says why it has not. */
void cell_on_network(struct cell *s, int error, const char *why);
/* The child has become a blank. */
void cell_on_ready(int fd, uint32_t events, void *data);
/* What the child reported of a step that failed, if it did. */
void cell_read_failure(struct cell *s);
void cell_fill_order(struct cell *s);
/* Sends the order and what belongs to it, and waits for the runner to be executed. */
int cell_send_order(struct cell *s);
/* For cell_ops.send_order: struct child_order with the mounts. */
int cell_send_child_order(struct cell *s);
/* Its disk need not be counted in the warden's ledger (any more). */
void cell_release_claim(struct cell *s);
/* The create's reply, which is owed until here; error 0: it runs. */
void cell_reply_to_create(struct cell *s, int error);
/* A runner that dials has done so. The newest connection is kept until it is asked for. */
void cell_take_stream(struct cell *s, int fd);
/* From now on ops->on_channel is called. */
void cell_watch_channel(struct cell *s);
/* A cell that runs already, with a plan from an earlier warden. */
void cell_take_over(struct cell *s);
/* Whether its runner connects by itself, instead of being given connections. */
bool cell_dials(const struct cell *s);

/* cell.c, for rows of cell_ops. */
int cell_kill_process(struct cell *s);
int cell_freeze_group(struct cell *s, bool on, uint64_t tag);
int cell_read_group_stats(struct cell *s, struct plan_reply *ret);

/* cell-end.c: its process has ended. */
void cell_on_child_exit(pid_t pid, int wait_status, void *data);
/* Gives back all but the record itself, once the process is reaped. */
void cell_release(struct cell *s);
/* Ends a cell that was running, now that none of its processes runs any more. */
void cell_end(struct cell *s);
