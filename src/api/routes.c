/* SPDX-License-Identifier: Apache-2.0 */
/* Every route there is. docs/openapi.json is checked against this table by a test. */
#include "api/handlers.h"
#include "api/members.h"

#define GET_    HTTP_GET_
#define POST_   HTTP_POST_
#define PUT_    HTTP_PUT_
#define DELETE_ HTTP_DELETE_
#define PATCH_  HTTP_PATCH_
/* Who may look at what there is, and end it. */
#define SEE (ROLE_AGENT | ROLE_OPERATOR | ROLE_ADMIN)
/* Who decides what there is to run. */
#define RUN_IT (ROLE_OPERATOR | ROLE_ADMIN)
#define SB     "/v1/sandboxes/{id}"
#define EX     "/v1/sandboxes/{id}/execs/{exec_id}"

const struct route routes[] = {
    /* the MAS API: MAS tool calls */
    {GET_, "/v1/sandbox/health", STYLE_A, ROUTE_OPEN, handle_mas_health, "is it alive"},
    {POST_, "/v1/sandbox/create", STYLE_A, ROUTE_BODY, handle_mas_create, "make a sandbox",
     ROLE_AGENT, "sandbox", .body = body_mas_create},
    {POST_, "/v1/sandbox/execute", STYLE_A, ROUTE_BODY | ROUTE_EXECUTES, handle_mas_execute,
     "run one tool call", ROLE_AGENT, "intent", .body = body_mas_execute},
    {POST_, "/v1/sandbox/destroy", STYLE_A, ROUTE_BODY, handle_mas_destroy, "throw a sandbox away",
     SEE, "sandbox", .body = body_mas_destroy},

    /* the sbx API: sandboxes and streaming exec */
    {GET_, "/healthz", STYLE_B, ROUTE_OPEN, handle_healthz, "is it alive"},
    {GET_, "/metrics", STYLE_B, 0, handle_metrics, "counters as Prometheus reads them",
     ROLE_OPERATOR | ROLE_AUDITOR | ROLE_ADMIN},
    {POST_, "/sandboxes", STYLE_B, ROUTE_BODY | ROUTE_IDEMPOTENT | ROUTE_EXECUTES,
     handle_sbx_create, "make a sandbox", ROLE_AGENT, "sandbox", .body = body_sbx_create},
    {GET_, "/sandboxes", STYLE_B, 0, handle_sbx_list, "all sandboxes, by id", SEE},
    {GET_, "/sandboxes/{id}", STYLE_B, 0, handle_sbx_get, "one sandbox", SEE},
    {DELETE_, "/sandboxes/{id}", STYLE_B, 0, handle_sbx_delete, "delete a sandbox", SEE, "sandbox"},
    {POST_, "/sandboxes/{id}/exec", STYLE_B, ROUTE_BODY | ROUTE_EXECUTES, handle_sbx_exec,
     "run a command", ROLE_AGENT, "intent", .body = body_sbx_exec},
    {GET_, "/sandboxes/{id}/execs/{exec_id}", STYLE_B, 0, handle_sbx_exec_status,
     "a command's status", SEE},
    {POST_, "/sandboxes/{id}/execs/{exec_id}/cancel", STYLE_B, ROUTE_BODY_OPTIONAL,
     handle_sbx_exec_cancel, "end a command", SEE, "steer"},
    {GET_, "/sandboxes/{id}/stream", STYLE_B, ROUTE_WS, handle_sbx_stream,
     "a command's events over a WebSocket", SEE, .query = query_stream},
    {GET_, "/sandboxes/{id}/ingest", STYLE_B, ROUTE_WS, handle_sbx_ingest,
     "events from a sidecar over a WebSocket", ROLE_AGENT},

    /* native */
    {GET_, "/v1/status", STYLE_NATIVE, 0, handle_status, "what runs here and what it enforces",
     ROLES_ALL},
    {GET_, "/v1/tools", STYLE_NATIVE, 0, handle_tools, "the built-in tools", ROLES_ALL},
    {GET_, "/openapi.json", STYLE_NATIVE, 0, handle_openapi, "this API as OpenAPI", ROLES_ALL},
    {POST_, "/v1/run", STYLE_NATIVE, ROUTE_BODY | ROUTE_IDEMPOTENT | ROUTE_EXECUTES, handle_run,
     "run a command in a sandbox of its own", ROLE_AGENT, "intent", .body = body_run},
    {POST_, "/v1/sandboxes", STYLE_NATIVE, ROUTE_BODY | ROUTE_IDEMPOTENT, handle_sandbox_create,
     "make a sandbox from a spec", ROLE_AGENT, "sandbox", .body = body_sandbox},
    {GET_, "/v1/sandboxes", STYLE_NATIVE, 0, handle_sandbox_list, "sandboxes, a page at a time",
     SEE, .query = query_list},
    {GET_, SB, STYLE_NATIVE, 0, handle_sandbox_get, "one sandbox", SEE},
    {DELETE_, SB, STYLE_NATIVE, 0, handle_sandbox_delete, "delete a sandbox", SEE, "sandbox"},
    {GET_, SB "/stats", STYLE_NATIVE, 0, handle_sandbox_stats, "what it uses now", SEE},
    {GET_, SB "/network", STYLE_NATIVE, 0, handle_network_get, "what it may reach", SEE},
    {GET_, SB "/network/log", STYLE_NATIVE, 0, handle_network_log,
     "decisions about its connections, as NDJSON or over SSE", SEE, .query = query_network_log},
    {PATCH_, SB "/network", STYLE_NATIVE, ROUTE_BODY, handle_network_change,
     "narrow it, or widen it through the gate", ROLE_AGENT, "sandbox", .body = body_network},
    {POST_, SB "/pause", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_sandbox_pause,
     "stop its processes where they are", ROLE_AGENT, "sandbox"},
    {POST_, SB "/resume", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_sandbox_resume,
     "let its processes go on", ROLE_AGENT, "sandbox"},
    {GET_, SB "/ports/{port}/{path}", STYLE_NATIVE, ROUTE_PORT, handle_port,
     "a server inside it, with any method, or a WebSocket", ROLE_AGENT, "network"},
    {GET_, SB "/forward/{port}", STYLE_NATIVE, ROUTE_WS, handle_port_forward,
     "a TCP connection to a port inside it, over a WebSocket", ROLE_AGENT, "network"},
    {GET_, SB "/traffic-tokens", STYLE_NATIVE, 0, handle_traffic_list,
     "tokens for its ports, without their secrets", SEE},
    {POST_, SB "/traffic-tokens", STYLE_NATIVE, ROUTE_BODY, handle_traffic_add,
     "make a token for its ports", ROLE_AGENT, "network", .body = body_traffic},
    {DELETE_, SB "/traffic-tokens/{token_id}", STYLE_NATIVE, 0, handle_traffic_revoke,
     "revoke a token for its ports", ROLE_AGENT, "network"},
    {POST_, SB "/traffic-tokens/{token_id}/link", STYLE_NATIVE, ROUTE_BODY, handle_traffic_link,
     "a link that works once and sets a cookie for one port", ROLE_AGENT, "network",
     .body = body_traffic_link},
    {POST_, SB "/snapshot", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_refused, "refused by name",
     ROLE_AGENT},
    {GET_, SB "/files/watch", STYLE_NATIVE, 0, handle_refused, "refused by name", ROLE_AGENT},
    {POST_, SB "/exec", STYLE_NATIVE, ROUTE_BODY | ROUTE_EXECUTES, handle_exec, "run a command",
     ROLE_AGENT, "intent", .body = body_exec},
    {GET_, SB "/execs", STYLE_NATIVE, 0, handle_exec_list, "its commands, oldest first", SEE},
    {GET_, EX, STYLE_NATIVE, 0, handle_exec_get, "one command", SEE},
    {GET_, EX "/logs", STYLE_NATIVE, 0, handle_exec_logs, "its events as NDJSON", SEE,
     .query = query_logs},
    {POST_, EX "/stdin", STYLE_NATIVE, ROUTE_RAW, handle_exec_stdin, "write to its stdin",
     ROLE_AGENT, "steer", .query = query_stdin},
    {POST_, EX "/signal", STYLE_NATIVE, ROUTE_BODY, handle_exec_signal, "send it a signal",
     ROLE_AGENT, "steer", .body = body_signal},
    {POST_, EX "/resize", STYLE_NATIVE, ROUTE_BODY, handle_exec_resize, "resize its terminal",
     ROLE_AGENT, "steer", .body = body_resize},
    {POST_, EX "/cancel", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_exec_cancel, "end it", SEE,
     "steer"},
    {GET_, EX "/attach", STYLE_NATIVE, ROUTE_WS, handle_attach, "its terminal over a WebSocket",
     ROLE_AGENT, "steer", .query = query_attach},
    {GET_, SB "/processes", STYLE_NATIVE, ROUTE_EXECUTES, handle_processes, "its processes",
     ROLE_AGENT, "intent"},
    {GET_, SB "/files", STYLE_NATIVE, ROUTE_EXECUTES, handle_file_list, "list a directory",
     ROLE_AGENT, "intent", .query = query_files},
    {DELETE_, SB "/files", STYLE_NATIVE, ROUTE_EXECUTES, handle_file_remove,
     "remove a file or directory", ROLE_AGENT, "intent", .query = query_files},
    {GET_, SB "/files/content", STYLE_NATIVE, ROUTE_EXECUTES, handle_file_read, "read a file",
     ROLE_AGENT, "intent", .query = query_read},
    {PUT_, SB "/files/content", STYLE_NATIVE, ROUTE_RAW | ROUTE_EXECUTES, handle_file_write,
     "write a file", ROLE_AGENT, "intent", .query = query_write},
    {GET_, SB "/files/stat", STYLE_NATIVE, ROUTE_EXECUTES, handle_file_stat, "about one file",
     ROLE_AGENT, "intent", .query = query_path},
    {POST_, SB "/files/mkdir", STYLE_NATIVE, ROUTE_BODY | ROUTE_EXECUTES, handle_file_mkdir,
     "make a directory", ROLE_AGENT, "intent", .body = body_mkdir},
    {POST_, SB "/files/move", STYLE_NATIVE, ROUTE_BODY | ROUTE_EXECUTES, handle_file_move,
     "move a file or directory", ROLE_AGENT, "intent", .body = body_move},
    {GET_, SB "/files/tar", STYLE_NATIVE, ROUTE_EXECUTES, handle_tar_read,
     "download a directory as tar", ROLE_AGENT, "intent", .query = query_path},
    {PUT_, SB "/files/tar", STYLE_NATIVE, ROUTE_RAW | ROUTE_EXECUTES, handle_tar_write,
     "upload a tar into a directory", ROLE_AGENT, "intent", .query = query_path},

    /* images */
    {GET_, "/v1/images", STYLE_NATIVE, 0, handle_image_list, "the images there are", ROLES_ALL,
     .query = query_image},
    {DELETE_, "/v1/images", STYLE_NATIVE, 0, handle_image_remove,
     "remove an image by ?image=", RUN_IT, .query = query_image},
    {POST_, "/v1/images/pull", STYLE_NATIVE, ROUTE_BODY, handle_image_pull,
     "fetch an image, with progress as NDJSON or SSE", RUN_IT, .body = body_pull},
    {PUT_, "/v1/images/tar", STYLE_NATIVE, ROUTE_RAW, handle_image_upload,
     "make an image of an uploaded tar", RUN_IT, .query = query_upload},
    {GET_, "/v1/images/{id}", STYLE_NATIVE, 0, handle_image_get, "one image, by digest or name",
     ROLES_ALL},
    {DELETE_, "/v1/images/{id}", STYLE_NATIVE, 0, handle_image_remove, "remove an image", RUN_IT},

    /* the actions API: actions, approval, audit */
    {POST_, "/api/validate", STYLE_C, ROUTE_BODY, handle_validate, "what a text from outside tries",
     ROLES_ALL, .body = body_actions_validate},
    {GET_, "/api/skills", STYLE_C, 0, handle_skill_list, "the skills there are", ROLES_ALL},
    {POST_, "/api/skills/{id}/enable", STYLE_C, ROUTE_BODY_OPTIONAL, handle_skill_enable,
     "let a skill be used", ROLE_OPERATOR | ROLE_ADMIN},
    {POST_, "/api/skills/{id}/disable", STYLE_C, ROUTE_BODY_OPTIONAL, handle_skill_disable,
     "let a skill not be used", ROLE_OPERATOR | ROLE_ADMIN},

    /* keys */
    {GET_, "/v1/identity", STYLE_NATIVE, 0, handle_identity, "who asks, as the daemon sees it",
     ROLES_ALL},
    {GET_, "/v1/keys", STYLE_NATIVE, 0, handle_key_list, "all keys, without their secrets",
     ROLE_ADMIN},
    {POST_, "/v1/keys", STYLE_NATIVE, ROUTE_BODY, handle_key_add, "make a key", ROLE_ADMIN,
     .body = body_key},
    {DELETE_, "/v1/keys/{id}", STYLE_NATIVE, 0, handle_key_revoke, "revoke a key", ROLE_ADMIN},
    {POST_, "/v1/keys/{id}/rotate", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_key_rotate,
     "give a key another secret", ROLE_ADMIN},

    /* secrets */
    {GET_, "/v1/secrets", STYLE_NATIVE, 0, handle_secret_list,
     "names and hosts of the secrets that the caller may name", ROLE_AGENT},
    {PUT_, "/v1/secrets/{id}", STYLE_NATIVE, ROUTE_BODY, handle_secret_put,
     "keep a secret of the caller's own, sealed", ROLE_AGENT, .body = body_secret},
    {DELETE_, "/v1/secrets/{id}", STYLE_NATIVE, 0, handle_secret_remove,
     "forget a secret of the caller's own", ROLE_AGENT},

    /* audit */
    {GET_, "/v1/audit", STYLE_NATIVE, 0, handle_audit, "records of the audit as NDJSON or SSE",
     ROLE_AUDITOR | ROLE_ADMIN, .query = query_audit},
    {GET_, "/v1/audit/checkpoint", STYLE_NATIVE, 0, handle_audit_checkpoint,
     "the newest record's hash, signed", ROLE_AUDITOR | ROLE_ADMIN},
    {POST_, "/v1/audit/rotate", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_audit_rotate,
     "have another key sign from here on", RUN_IT},
    {GET_, "/v1/audit/export", STYLE_NATIVE, 0, handle_audit_export,
     "the audit with all that proves it", ROLE_AUDITOR | ROLE_ADMIN, .query = query_since},

    /* changes */
    {GET_, "/v1/events", STYLE_NATIVE, ROUTE_WS, handle_events,
     "changes as they happen, over SSE or a WebSocket, or as NDJSON", ROLES_ALL,
     .query = query_events},

    /* approvals and policy */
    {GET_, "/v1/approvals", STYLE_NATIVE, 0, handle_approval_list,
     "what waits for a person, and what was decided", ROLES_ALL, .query = query_approvals},
    {GET_, "/v1/approvals/events", STYLE_NATIVE, ROUTE_WS, handle_approval_events,
     "approvals as they change, over a WebSocket", ROLES_ALL},
    {GET_, "/v1/approvals/{id}", STYLE_NATIVE, 0, handle_approval_get,
     "one approval with all that would run", ROLES_ALL},
    {POST_, "/v1/approvals/{id}/approve", STYLE_NATIVE, ROUTE_BODY_OPTIONAL,
     handle_approval_approve, "allow it, once or for a session", ROLE_APPROVER,
     .body = body_decision},
    {POST_, "/v1/approvals/{id}/reject", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_approval_reject,
     "refuse it", ROLE_APPROVER, .body = body_decision},
    {POST_, "/v1/policy/reload", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_policy_reload,
     "read the policy file again", ROLE_ADMIN},
    {POST_, "/v1/upgrade", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_upgrade,
     "go on with the program that is installed now", ROLE_ADMIN},

    /* the actions API: actions, approval, audit */
    {GET_, "/", STYLE_C, ROUTE_OPEN, handle_actions_root, "what this is"},
    {GET_, "/api/status", STYLE_C, 0, handle_actions_status, "whether it runs and how much waits",
     ROLES_ALL},
    {POST_, "/api/actions", STYLE_C, ROUTE_BODY | ROUTE_EXECUTES, handle_actions_submit,
     "submit an action", ROLE_AGENT, "intent", .body = body_actions_submit},
    {GET_, "/api/actions/pending", STYLE_C, 0, handle_actions_pending,
     "actions that wait for a person", ROLES_ALL},
    {GET_, "/api/actions/{id}", STYLE_C, 0, handle_actions_get, "one action and its result",
     ROLES_ALL},
    {POST_, "/api/actions/{id}/approve", STYLE_C, ROUTE_BODY | ROUTE_EXECUTES,
     handle_actions_approve, "allow or refuse an action", ROLE_APPROVER, "intent",
     .body = body_actions_approve},
    {GET_, "/api/audit-logs", STYLE_C, 0, handle_actions_audit_logs,
     "the newest records of the audit", ROLE_AUDITOR | ROLE_ADMIN, .query = query_limit},

    /* for protocol test suites */
    {POST_, "/v1/debug/echo", STYLE_NATIVE, ROUTE_RAW | ROUTE_DEBUG, handle_debug_echo,
     "echo a body", ROLES_ALL},
    {GET_, "/v1/debug/echo", STYLE_NATIVE, ROUTE_WS | ROUTE_DEBUG, handle_debug_echo_ws,
     "echo WebSocket messages", ROLES_ALL},
};
const size_t n_routes = sizeof(routes) / sizeof(routes[0]);
