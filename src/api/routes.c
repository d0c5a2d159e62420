/* Every route there is. docs/openapi.json is checked against this table by a test. */
#include "api/handlers.h"

#define GET_    HTTP_GET_
#define POST_   HTTP_POST_
#define PUT_    HTTP_PUT_
#define DELETE_ HTTP_DELETE_
#define SB      "/v1/sandboxes/{id}"
#define EX      "/v1/sandboxes/{id}/execs/{exec_id}"

const struct route routes[] = {
    /* contract A: MAS tool calls */
    {GET_, "/v1/sandbox/health", STYLE_A, ROUTE_OPEN, handle_a_health, "is it alive"},
    {POST_, "/v1/sandbox/create", STYLE_A, ROUTE_BODY, handle_a_create, "make a sandbox"},
    {POST_, "/v1/sandbox/execute", STYLE_A, ROUTE_BODY | ROUTE_EXECUTES, handle_a_execute,
     "run one tool call"},
    {POST_, "/v1/sandbox/destroy", STYLE_A, ROUTE_BODY, handle_a_destroy, "throw a sandbox away"},

    /* contract B: sandboxes and streaming exec */
    {GET_, "/healthz", STYLE_B, ROUTE_OPEN, handle_healthz, "is it alive"},
    {GET_, "/metrics", STYLE_B, 0, handle_metrics, "counters as Prometheus reads them"},
    {POST_, "/sandboxes", STYLE_B, ROUTE_BODY | ROUTE_IDEMPOTENT | ROUTE_EXECUTES, handle_b_create,
     "make a sandbox"},
    {GET_, "/sandboxes", STYLE_B, 0, handle_b_list, "all sandboxes, by id"},
    {GET_, "/sandboxes/{id}", STYLE_B, 0, handle_b_get, "one sandbox"},
    {DELETE_, "/sandboxes/{id}", STYLE_B, 0, handle_b_delete, "delete a sandbox"},
    {POST_, "/sandboxes/{id}/exec", STYLE_B, ROUTE_BODY | ROUTE_EXECUTES, handle_b_exec,
     "run a command"},
    {GET_, "/sandboxes/{id}/execs/{exec_id}", STYLE_B, 0, handle_b_exec_status,
     "a command's status"},
    {POST_, "/sandboxes/{id}/execs/{exec_id}/cancel", STYLE_B, ROUTE_BODY_OPTIONAL,
     handle_b_exec_cancel, "end a command"},
    {GET_, "/sandboxes/{id}/stream", STYLE_B, ROUTE_WS, handle_b_stream,
     "a command's events over a WebSocket"},
    {GET_, "/sandboxes/{id}/ingest", STYLE_B, ROUTE_WS, handle_b_ingest,
     "events from a sidecar over a WebSocket"},

    /* native */
    {GET_, "/v1/status", STYLE_NATIVE, 0, handle_status, "what runs here and what it enforces"},
    {GET_, "/v1/tools", STYLE_NATIVE, 0, handle_tools, "the built-in tools"},
    {GET_, "/openapi.json", STYLE_NATIVE, 0, handle_openapi, "this API as OpenAPI"},
    {POST_, "/v1/run", STYLE_NATIVE, ROUTE_BODY | ROUTE_IDEMPOTENT | ROUTE_EXECUTES, handle_run,
     "run a command in a sandbox of its own"},
    {POST_, "/v1/sandboxes", STYLE_NATIVE, ROUTE_BODY | ROUTE_IDEMPOTENT, handle_sandbox_create,
     "make a sandbox from a spec"},
    {GET_, "/v1/sandboxes", STYLE_NATIVE, 0, handle_sandbox_list, "sandboxes, a page at a time"},
    {GET_, SB, STYLE_NATIVE, 0, handle_sandbox_get, "one sandbox"},
    {DELETE_, SB, STYLE_NATIVE, 0, handle_sandbox_delete, "delete a sandbox"},
    {GET_, SB "/stats", STYLE_NATIVE, 0, handle_sandbox_stats, "what it uses now"},
    {POST_, SB "/pause", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_refused, "refused by name"},
    {POST_, SB "/resume", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_refused, "refused by name"},
    {POST_, SB "/snapshot", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_refused, "refused by name"},
    {GET_, SB "/files/watch", STYLE_NATIVE, 0, handle_refused, "refused by name"},
    {POST_, SB "/exec", STYLE_NATIVE, ROUTE_BODY | ROUTE_EXECUTES, handle_exec, "run a command"},
    {GET_, SB "/execs", STYLE_NATIVE, 0, handle_exec_list, "its commands, oldest first"},
    {GET_, EX, STYLE_NATIVE, 0, handle_exec_get, "one command"},
    {GET_, EX "/logs", STYLE_NATIVE, 0, handle_exec_logs, "its events as NDJSON"},
    {POST_, EX "/stdin", STYLE_NATIVE, ROUTE_RAW, handle_exec_stdin, "write to its stdin"},
    {POST_, EX "/signal", STYLE_NATIVE, ROUTE_BODY, handle_exec_signal, "send it a signal"},
    {POST_, EX "/resize", STYLE_NATIVE, ROUTE_BODY, handle_exec_resize, "resize its terminal"},
    {POST_, EX "/cancel", STYLE_NATIVE, ROUTE_BODY_OPTIONAL, handle_exec_cancel, "end it"},
    {GET_, EX "/attach", STYLE_NATIVE, ROUTE_WS, handle_attach, "its terminal over a WebSocket"},
    {GET_, SB "/processes", STYLE_NATIVE, ROUTE_EXECUTES, handle_processes, "its processes"},
    {GET_, SB "/files", STYLE_NATIVE, ROUTE_EXECUTES, handle_file_list, "list a directory"},
    {DELETE_, SB "/files", STYLE_NATIVE, ROUTE_EXECUTES, handle_file_remove,
     "remove a file or directory"},
    {GET_, SB "/files/content", STYLE_NATIVE, ROUTE_EXECUTES, handle_file_read, "read a file"},
    {PUT_, SB "/files/content", STYLE_NATIVE, ROUTE_RAW | ROUTE_EXECUTES, handle_file_write,
     "write a file"},
    {GET_, SB "/files/stat", STYLE_NATIVE, ROUTE_EXECUTES, handle_file_stat, "about one file"},
    {POST_, SB "/files/mkdir", STYLE_NATIVE, ROUTE_BODY | ROUTE_EXECUTES, handle_file_mkdir,
     "make a directory"},
    {POST_, SB "/files/move", STYLE_NATIVE, ROUTE_BODY | ROUTE_EXECUTES, handle_file_move,
     "move a file or directory"},
    {GET_, SB "/files/tar", STYLE_NATIVE, ROUTE_EXECUTES, handle_tar_read,
     "download a directory as tar"},
    {PUT_, SB "/files/tar", STYLE_NATIVE, ROUTE_RAW | ROUTE_EXECUTES, handle_tar_write,
     "upload a tar into a directory"},

    /* for protocol test suites */
    {POST_, "/v1/debug/echo", STYLE_NATIVE, ROUTE_RAW | ROUTE_DEBUG, handle_debug_echo,
     "echo a body"},
    {GET_, "/v1/debug/echo", STYLE_NATIVE, ROUTE_WS | ROUTE_DEBUG, handle_debug_echo_ws,
     "echo WebSocket messages"},
};
const size_t n_routes = sizeof(routes) / sizeof(routes[0]);
