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
void handle_mas_health(struct api_request *req);
void handle_mas_create(struct api_request *req);
void handle_mas_execute(struct api_request *req);
void handle_mas_destroy(struct api_request *req);
/* sbx.c */
void handle_sbx_create(struct api_request *req);
void handle_sbx_list(struct api_request *req);
void handle_sbx_get(struct api_request *req);
void handle_sbx_delete(struct api_request *req);
void handle_sbx_exec(struct api_request *req);
void handle_sbx_exec_status(struct api_request *req);
void handle_sbx_exec_cancel(struct api_request *req);
void handle_sbx_stream(struct api_request *req);
void handle_sbx_ingest(struct api_request *req);
/* images.c */
void handle_image_list(struct api_request *req);
void handle_image_get(struct api_request *req);
void handle_image_pull(struct api_request *req);
void handle_image_remove(struct api_request *req);
/* image-upload.c */
void handle_image_upload(struct api_request *req);
/* ports.c */
void handle_port(struct api_request *req);
void handle_port_forward(struct api_request *req);
/* traffic.c */
void handle_traffic_add(struct api_request *req);
void handle_traffic_list(struct api_request *req);
void handle_traffic_revoke(struct api_request *req);
void handle_traffic_link(struct api_request *req);
/* sandboxes.c */
void handle_sandbox_create(struct api_request *req);
void handle_sandbox_list(struct api_request *req);
void handle_sandbox_get(struct api_request *req);
void handle_sandbox_delete(struct api_request *req);
void handle_sandbox_stats(struct api_request *req);
/* network.c */
void handle_network_get(struct api_request *req);
void handle_network_log(struct api_request *req);
void handle_network_change(struct api_request *req);

void handle_sandbox_pause(struct api_request *req);
void handle_sandbox_resume(struct api_request *req);
void handle_sandbox_snapshot(struct api_request *req); /* snapshots.c */
void handle_sandbox_fork(struct api_request *req);
void handle_sandbox_restore(struct api_request *req);
void handle_snapshot_list(struct api_request *req);
void handle_snapshot_delete(struct api_request *req);
void handle_refused(struct api_request *req);
/* execs.c */
void handle_run(struct api_request *req);
void handle_exec(struct api_request *req);
void handle_exec_list(struct api_request *req);
void handle_exec_get(struct api_request *req);
void handle_exec_logs(struct api_request *req);
void handle_exec_stdin(struct api_request *req);
void handle_exec_signal(struct api_request *req);
void handle_exec_resize(struct api_request *req);
void handle_exec_cancel(struct api_request *req);
void handle_processes(struct api_request *req);
/* attach.c */
void handle_attach(struct api_request *req);
/* files.c */
void handle_file_list(struct api_request *req);
void handle_file_remove(struct api_request *req);
void handle_file_read(struct api_request *req);
void handle_file_write(struct api_request *req);
void handle_file_stat(struct api_request *req);
void handle_file_mkdir(struct api_request *req);
void handle_file_move(struct api_request *req);
void handle_tar_read(struct api_request *req);
void handle_tar_write(struct api_request *req);
/* keys.c */
void handle_key_list(struct api_request *req);
void handle_key_add(struct api_request *req);
void handle_key_revoke(struct api_request *req);
void handle_key_rotate(struct api_request *req);
void handle_identity(struct api_request *req);
/* secrets.c */
void handle_secret_list(struct api_request *req);
void handle_secret_put(struct api_request *req);
void handle_secret_remove(struct api_request *req);
/* audit.c */
bool audit_is_on(struct api_request *req); /* false after answering that it is not */
void handle_audit(struct api_request *req);
void handle_audit_checkpoint(struct api_request *req);
void handle_audit_rotate(struct api_request *req);
/* audit-export.c */
void handle_audit_export(struct api_request *req);
/* skills.c */
void handle_skill_list(struct api_request *req);
void handle_skill_enable(struct api_request *req);
void handle_skill_disable(struct api_request *req);
/* validate.c */
void handle_validate(struct api_request *req);
/* events.c */
void handle_events(struct api_request *req);
void handle_approval_events(struct api_request *req);

/* approvals.c */
void handle_approval_list(struct api_request *req);
void handle_approval_get(struct api_request *req);
void handle_approval_approve(struct api_request *req);
void handle_approval_reject(struct api_request *req);
void handle_policy_reload(struct api_request *req);
/* Decides about what the id names and answers once that is on record. */
struct approval;
struct approval_decision;
void approval_reply(struct api_request *req, const char *id, const struct approval_decision *d,
                    void (*answer)(struct api_request *req, struct approval *a));
/* actions.c */
void handle_actions_root(struct api_request *req);
void handle_actions_status(struct api_request *req);
void handle_actions_submit(struct api_request *req);
void handle_actions_pending(struct api_request *req);
void handle_actions_get(struct api_request *req);
void handle_actions_approve(struct api_request *req);
/* actions-audit.c */
void handle_actions_audit_logs(struct api_request *req);
/* upgrade.c */
void handle_upgrade(struct api_request *req);
/* status.c */
void handle_healthz(struct api_request *req);
void handle_metrics(struct api_request *req);
void handle_status(struct api_request *req);
void handle_openapi(struct api_request *req);
void handle_tools(struct api_request *req);
void handle_debug_echo(struct api_request *req);
void handle_debug_echo_ws(struct api_request *req);
