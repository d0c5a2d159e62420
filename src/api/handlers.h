/* SPDX-License-Identifier: Apache-2.0 */
/* Every route's handler, by file. */
#pragma once

#include "api/request.h"

/* Whether a switch of the query is on; what it may be was checked (MEMBER_SWITCH). */
bool api_query_switch(const struct api_request *req, const char *name);
/* A whole number of the query; *ret stays as it is where there is none. */
int api_query_number(const struct api_request *req, const char *name, uint64_t min, uint64_t max,
                     uint64_t *ret, struct error *err);
/* For a stream of events: the client asks for a WebSocket where the route is one, and since=SEQ
 * (the last event it has; 0 without it) is a number. */
int api_check_stream(const struct api_request *req, uint64_t *ret_since, struct error *err);

/* mas.c */
int handle_mas_health(struct api_request *req);
int handle_mas_create(struct api_request *req);
int handle_mas_execute(struct api_request *req);
int handle_mas_destroy(struct api_request *req);
/* sbx.c */
int handle_sbx_create(struct api_request *req);
int handle_sbx_list(struct api_request *req);
int handle_sbx_get(struct api_request *req);
int handle_sbx_delete(struct api_request *req);
int handle_sbx_exec(struct api_request *req);
int handle_sbx_exec_status(struct api_request *req);
int handle_sbx_exec_cancel(struct api_request *req);
int handle_sbx_stream(struct api_request *req);
int handle_sbx_ingest(struct api_request *req);
/* Positive: the request came with the token of some sandbox's stream container; the handler finds
 * out which sandbox that is. 0: it came without one. Negative: its token is wrong. */
int ingest_identify(struct api_request *req, struct error *err);
/* images.c */
int handle_image_list(struct api_request *req);
int handle_image_get(struct api_request *req);
int handle_image_pull(struct api_request *req);
int handle_image_remove(struct api_request *req);
/* image-upload.c */
int handle_image_upload(struct api_request *req);
/* ports.c */
int handle_port(struct api_request *req);
int handle_port_forward(struct api_request *req);
/* traffic.c */
int handle_traffic_add(struct api_request *req);
int handle_traffic_list(struct api_request *req);
int handle_traffic_revoke(struct api_request *req);
int handle_traffic_link(struct api_request *req);
/* sandboxes.c */
int handle_sandbox_create(struct api_request *req);
int handle_sandbox_list(struct api_request *req);
int handle_sandbox_get(struct api_request *req);
int handle_sandbox_delete(struct api_request *req);
int handle_sandbox_stats(struct api_request *req);
/* network.c */
int handle_network_get(struct api_request *req);
int handle_network_log(struct api_request *req);
int handle_network_change(struct api_request *req);

int handle_sandbox_pause(struct api_request *req);
int handle_sandbox_resume(struct api_request *req);
int handle_sandbox_snapshot(struct api_request *req); /* snapshots.c */
int handle_sandbox_fork(struct api_request *req);
int handle_sandbox_restore(struct api_request *req);
int handle_snapshot_list(struct api_request *req);
int handle_snapshot_delete(struct api_request *req);
int handle_refused(struct api_request *req);
/* execs.c */
int handle_run(struct api_request *req);
int handle_exec(struct api_request *req);
int handle_exec_list(struct api_request *req);
int handle_exec_get(struct api_request *req);
int handle_exec_logs(struct api_request *req);
int handle_exec_stdin(struct api_request *req);
int handle_exec_signal(struct api_request *req);
int handle_exec_resize(struct api_request *req);
int handle_exec_cancel(struct api_request *req);
int handle_processes(struct api_request *req);
/* attach.c */
int handle_attach(struct api_request *req);
/* files.c */
int handle_file_list(struct api_request *req);
int handle_file_remove(struct api_request *req);
int handle_file_read(struct api_request *req);
int handle_file_write(struct api_request *req);
int handle_file_stat(struct api_request *req);
int handle_file_mkdir(struct api_request *req);
int handle_file_move(struct api_request *req);
int handle_tar_read(struct api_request *req);
int handle_tar_write(struct api_request *req);
/* keys.c */
int handle_key_list(struct api_request *req);
int handle_key_add(struct api_request *req);
int handle_key_revoke(struct api_request *req);
int handle_key_rotate(struct api_request *req);
int handle_identity(struct api_request *req);
/* secrets.c */
int handle_secret_list(struct api_request *req);
int handle_secret_put(struct api_request *req);
int handle_secret_remove(struct api_request *req);
/* audit.c */
bool audit_is_on(struct api_request *req); /* false after answering that it is not */
int handle_audit(struct api_request *req);
int handle_audit_checkpoint(struct api_request *req);
int handle_audit_rotate(struct api_request *req);
/* audit-export.c */
int handle_audit_export(struct api_request *req);
/* skills.c */
int handle_skill_list(struct api_request *req);
int handle_skill_enable(struct api_request *req);
int handle_skill_disable(struct api_request *req);
/* validate.c */
int handle_validate(struct api_request *req);
/* events.c */
int handle_events(struct api_request *req);
int handle_approval_events(struct api_request *req);

/* approvals.c */
int handle_approval_list(struct api_request *req);
int handle_approval_get(struct api_request *req);
int handle_approval_approve(struct api_request *req);
int handle_approval_reject(struct api_request *req);
int handle_policy_reload(struct api_request *req);
/* Decides about what the id names and answers once that is on record. */
struct approval;
struct approval_decision;
void approval_reply(struct api_request *req, const char *id, const struct approval_decision *d,
                    void (*answer)(struct api_request *req, struct approval *a));
/* actions.c */
int handle_actions_root(struct api_request *req);
int handle_actions_status(struct api_request *req);
int handle_actions_submit(struct api_request *req);
int handle_actions_pending(struct api_request *req);
int handle_actions_get(struct api_request *req);
int handle_actions_approve(struct api_request *req);
/* actions-audit.c */
int handle_actions_audit_logs(struct api_request *req);
/* upgrade.c */
int handle_upgrade(struct api_request *req);
/* status.c */
int handle_healthz(struct api_request *req);
int handle_metrics(struct api_request *req);
int handle_status(struct api_request *req);
int handle_openapi(struct api_request *req);
int handle_tools(struct api_request *req);
int handle_debug_echo(struct api_request *req);
int handle_debug_echo_ws(struct api_request *req);
