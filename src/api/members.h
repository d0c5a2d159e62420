/* SPDX-License-Identifier: Apache-2.0 */
/* What the bodies and queries of routes may hold (members.c), and the check of both. */
#pragma once

#include "base/members.h"

struct api_request;
struct error;

extern const struct member body_mas_create[], body_mas_execute[], body_mas_destroy[],
    body_mas_line[];
extern const struct member body_sbx_create[], body_sbx_exec[];
extern const struct member body_actions_validate[], body_actions_submit[], body_actions_approve[];
extern const struct member body_run[], body_sandbox[], body_exec[], body_signal[], body_resize[];
extern const struct member body_mkdir[], body_move[], body_pull[], body_key[], body_decision[],
    body_secret[], body_traffic[], body_traffic_link[], body_snapshot[], body_fork[],
    body_restore[];
extern const struct member body_attach[], body_network[];

extern const struct member query_stream[], query_list[], query_logs[], query_stdin[],
    query_attach[];
extern const struct member query_files[], query_read[], query_write[], query_path[];
extern const struct member query_image[], query_upload[], query_owner[], query_approvals[],
    query_limit[], query_events[];
extern const struct member query_ingest[];
extern const struct member query_audit[], query_since[], query_network_log[];

/* The query and the body of a request against its route's tables. The native API refuses what it
 * does not know; the contracts' answers tell it in X-Mas-Ignored. */
int api_check_members(struct api_request *req, struct error *err);
