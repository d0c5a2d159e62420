/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories between here and a sandbox. */
#pragma once

struct session;
struct sbx_error;

/* As it is when absolute, else below /workspace. The caller frees it. */
char *transfer_remote_path(const char *path);

/* Makes missing parents; keeps the permission bits. */
int transfer_file_in(struct session *s, const char *local, const char *id, const char *remote,
                     struct sbx_error *err);
/* Nothing local changes before the first byte is there. */
int transfer_file_out(struct session *s, const char *id, const char *remote, const char *local,
                      struct sbx_error *err);
/* What is in one directory to another, which is made. *ret_skipped counts what was left out. */
int transfer_tree_in(struct session *s, const char *local, const char *id, const char *remote,
                     int *ret_skipped, struct sbx_error *err);
int transfer_tree_out(struct session *s, const char *id, const char *remote, const char *local,
                      int *ret_skipped, struct sbx_error *err);
