/* SPDX-License-Identifier: Apache-2.0 */
/* Every key of the configuration. Help, mas-sandbox.yaml(5), the example file, the parsers of all
 * three sources and the hand-over to the control plane are made of this table; adding a key is a
 * line here and a member of struct config. */
#include "config/config.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"

#define MEMBER(m) (((struct config *)0)->m)
/* 0, or a compile error. */
#define REQUIRE(condition) (0 * sizeof(char[(condition) ? 1 : -1]))
#define TYPED(m, ctype)                                                                            \
    .offset = offsetof(struct config, m) +                                                         \
              REQUIRE(__builtin_types_compatible_p(__typeof__(MEMBER(m)), ctype)),                 \
    .size = sizeof(MEMBER(m))
/* The largest number that a member can hold; other types than these are an error. */
#define MOST(m)                                                                                    \
    _Generic(MEMBER(m), int                                                                        \
             : INT_MAX, uint32_t                                                                   \
             : UINT32_MAX, int64_t                                                                 \
             : INT64_MAX, uint64_t                                                                 \
             : INT64_MAX)

#define TEXT(kind, n, m, dflt, more, text)                                                         \
    {                                                                                              \
        .name = #n, .type = kind, TYPED(m, char *), .fallback = dflt, .flags = more, .help = text  \
    }
#define STRING(n, m, dflt, text) TEXT(CONFIG_STRING, n, m, dflt, 0, text)
#define PATH(n, m, dflt, text)   TEXT(CONFIG_PATH, n, m, dflt, 0, text)
#define SECRET(n, m, text)       TEXT(CONFIG_STRING, n, m, NULL, KEY_SECRET, text)
#define INTERNAL(n, m)           TEXT(CONFIG_STRING, n, m, NULL, KEY_SECRET | KEY_INTERNAL, "")
#define CHOICE(n, m, dflt, all, text)                                                              \
    {                                                                                              \
        .name = #n, .type = CONFIG_CHOICE, TYPED(m, char *), .fallback = dflt, .choices = all,     \
        .help = text                                                                               \
    }
#define CHOICE_FROM(n, m, dflt, table, text)                                                       \
    {                                                                                              \
        .name = #n, .type = CONFIG_CHOICE, TYPED(m, char *), .fallback = dflt,                     \
        .choices_from = table, .help = text                                                        \
    }
/* The member is an enum whose values are the choices in their order, from 0 on. */
#define ENUM(n, m, dflt, all, text)                                                                \
    {                                                                                              \
        .name = #n, .type = CONFIG_ENUM, TYPED(m, unsigned), .unit = 1, .fallback = dflt,          \
        .choices = all, .help = text                                                               \
    }
#define NUMBER(kind, n, m, one, dflt, lo, hi, text)                                                \
    {                                                                                              \
        .name = #n, .type = kind, .size = sizeof(MEMBER(m)), .unit = one, .min = lo, .max = hi,    \
        .offset = offsetof(struct config, m) + REQUIRE((lo) >= 0 && (hi) <= MOST(m) / (one)),      \
        .fallback = dflt, .help = text                                                             \
    }
#define INT(n, m, dflt, lo, hi, text)       NUMBER(CONFIG_INT, n, m, 1, dflt, lo, hi, text)
#define MEBIBYTES(n, m, dflt, lo, hi, text) NUMBER(CONFIG_INT, n, m, MIB, dflt, lo, hi, text)
#define SIZE(n, m, dflt, lo, hi, text)      NUMBER(CONFIG_SIZE, n, m, 1, dflt, lo, hi, text)
#define CORES(n, m, dflt, text)             NUMBER(CONFIG_CORES, n, m, 1, dflt, 0, 1024000, text)
#define DURATION(n, m, dflt, lo, hi, text)  NUMBER(CONFIG_DURATION, n, m, 1, dflt, lo, hi, text)
#define BOOL(n, m, dflt, text)                                                                     \
    {                                                                                              \
        .name = #n, .type = CONFIG_BOOL, TYPED(m, bool), .fallback = dflt, .help = text            \
    }
#define LIST(kind, n, m, text)                                                                     \
    {                                                                                              \
        .name = #n, .type = kind, TYPED(m, char **), .help = text                                  \
    }
#define INTERNAL_LIST(n, m)                                                                        \
    {                                                                                              \
        .name = #n, .type = CONFIG_LIST, TYPED(m, char **), .flags = KEY_SECRET | KEY_INTERNAL,    \
        .help = ""                                                                                 \
    }
#define GROUP(title)                                                                               \
    {                                                                                              \
        .group = title                                                                             \
    }

#define SECONDS 1000LL
#define HOURS   (3600 * SECONDS)
#define DAYS    (24 * HOURS)
#define KIB     1024LL
#define MIB     (1024 * KIB)
#define GIB     (1024 * MIB)
#define TIB     (1024 * GIB)

/* clang-format off */
const struct config_key config_keys[] = {
    GROUP("Listening"),
    LIST(CONFIG_LIST, listen, listen, "addresses to listen on: HOST:PORT, [V6]:PORT, unix:PATH (unix: alone is the socket where sbx looks first) or :PORT (all interfaces; only loopback without auth_token and require_keys). May be repeated. Without one, the daemon answers JSON lines on standard input"),
    SECRET(auth_token, api.token, "bearer token that every request must carry"),
    PATH(auth_token_file, auth_token_file, NULL, "file that holds the token (better: a flag is seen by other users)"),
    PATH(tls_cert, tls_cert, NULL, "PEM certificate chain; with tls_key, TCP listeners speak TLS"),
    PATH(tls_key, tls_key, NULL, "PEM private key of tls_cert"),
    INTERNAL(tls_cert_pem, http.tls_cert),
    INTERNAL(tls_key_pem, http.tls_key),
    BOOL(require_keys, api.require_keys, "false", "every call needs a key or the token, even while there is no key"),
    BOOL(insecure, insecure, "false", "allow listening beyond loopback without a token or require_keys"),
    LIST(CONFIG_LIST, allowed_origins, api.allowed_origins, "origins of web pages that may call (scheme://host[:port]); such a page must bring a key or token"),
    STRING(ports_domain, api.ports_domain, NULL, "domain below which servers in sandboxes have hosts of their own: {port}-{id}.DOMAIN"),
    DURATION(port_answer_timeout, api.port_answer_timeout_ms, "5m", 1 * SECONDS, 24 * HOURS, "how long a server in a sandbox may take for the head of its answer"),
    LIST(CONFIG_LIST, allowed_hosts_header, api.allowed_hosts,
         "names that are accepted in the Host header, in addition to those of loopback and of the listen addresses"),
    BOOL(enable_process, enable_process, "false",
         "allow sandboxes of the process runtime, which has no isolation; -runtime process does too"),
    BOOL(debug_endpoints, api.debug_endpoints, "false", "serve /v1/debug/echo for protocol test suites"),

    GROUP("Daemon"),
    CHOICE_FROM(runtime, runtime, "local", runtime_choices, "runtime of a sandbox whose request names none"),
    CHOICE(oci_runtime, oci_runtime, "crun", "crun|runc|runsc|kata",
           "program behind the runtime oci where a request names none"),
    LIST(CONFIG_LIST, engines, engines, "container engines (podman, docker) that sandboxes may use; empty: none"),
    PATH(podman_socket, podman_socket, "/run/podman/podman.sock", "the socket of podman's service"),
    PATH(docker_socket, docker_socket, "/run/docker.sock", "the socket of docker's daemon"),
    PATH(microvm_dir, microvm_dir, "/var/lib/mas-sandbox-microvm",
         "what virtual machines start from: vmlinux, initramfs and root.img, made by scripts/microvm/machine.sh"),
    DURATION(engine_timeout, warden.engine_timeout_ms, "30s", 100, 3600000, "how long one request to a container engine may take"),
    DURATION(engine_connect_timeout, warden.engine_connect_timeout_ms, "5s", 100, 3600000,
         "how long a container engine may take to accept a connection"),
    DURATION(engine_start_timeout, warden.engine_start_timeout_ms, "20s", 100, 3600000,
         "how long a container's runner may take from the container's start to its first message"),
    ENUM(min_isolation, min_isolation, "none", "none|restricted|namespaces|user-space-kernel|virtual-machine",
           "the least isolation that any sandbox may have"),
    PATH(runtime_config, runtime_config, NULL, "configuration file of the runtime, which microvm takes (docs/microvm.md)"),
    PATH(policy_file, policy_file, NULL, "the operator's policy (YAML): what may run, what a person is asked about; read again on "
         "SIGHUP, and when it has changed and rested for a second. A bad file, or one whose own tests fail, refuses the start; later, "
         "the policy that was loaded stays and the log says so"),
    PATH(state_dir, state_dir, NULL, "state; default /var/lib/mas-sandbox as root, else "
         "$XDG_STATE_HOME/mas-sandbox; line mode: a private temporary one"),
    PATH(landlock_dir, landlock_dir, "/var/tmp", "where sandboxes of the landlock runtime have their files; its parents must let any user pass"),
    STRING(user, user, "mas-sandbox", "user the control plane becomes when started as root"),
    PATH(libexec_dir, libexec_dir, NULL, "where mas-toolrunner and mas-tool-net are; default: beside this program"),
    CHOICE(log_level, log_level, "info", "debug|info|warn|error", "the least severe level that is logged"),
    CHOICE(log_format, log_format, "text", "text|json", "format of log lines, which go to stderr"),
    DURATION(shutdown_grace, shutdown_grace_ms, "30s", 0, DAYS,
             "how long running requests may take to finish after SIGTERM"),
    INT(control_restarts, control_restarts, "10", 0, 1000,
        "how often a crashed control plane is started again within control_restart_window; one that waits for room on a full disk is not counted"),
    DURATION(control_restart_window, control_restart_window_ms, "1m", SECONDS, DAYS, "the time in which control_restarts are counted"),

    GROUP("Sandboxes"),
    LIST(CONFIG_PATHS, mounts_allow, mounts_allow, "host directories that sandboxes may mount, or mount below; in "
         "YAML also mounts: {allow: [...]}"),
    INT(uid_range_first, warden.id_first, "2000000000", 65536, 4294900000, "first host uid given to sandboxes"),
    INT(uid_range_count, warden.id_count, "65536", 4, 2147483648, "how many host uids and gids there are to give"),
    INT(uid_block, warden.id_block, "4", 3, 65536, "how many host uids and gids each sandbox takes"),
    STRING(cgroup_prefix, cgroup_prefix, "mas-sandbox", "name of our cgroup below each hierarchy's root"),
    INT(max_sandboxes, manager.max_sandboxes, "1000", 1, 100000, "sandboxes at once"),
    MEBIBYTES(default_memory_mb, default_limits.memory_bytes, "512", 0, 1 << 24, "memory and swap of a sandbox in MiB; 0: not limited"),
    MEBIBYTES(max_memory_mb, max_limits.memory_bytes, "0", 0, 1 << 24, "most memory in MiB that a request may ask for; 0: what the host has"),
    MEBIBYTES(default_disk_mb, default_limits.disk_bytes, "256", 0, 1 << 24,
         "disk of a sandbox in MiB: /workspace, /tmp, /home and /dev/shm together"),
    MEBIBYTES(max_disk_mb, max_limits.disk_bytes, "16384", 1, 1 << 24, "most disk in MiB that a request may ask for"),
    INT(default_disk_inodes, warden.disk_default_inodes, "65536", 16, 1 << 24, "files and directories on a sandbox's disk"),
    CORES(default_cpu_cores, default_limits.cpu_millicores, "0", "cpu of a sandbox in cores; 0: not limited"),
    CORES(max_cpu_cores, max_limits.cpu_millicores, "0", "most cores that a request may ask for; 0: what the host has"),
    INT(default_max_processes, default_limits.processes, "256", 2, 4194304, "processes and threads of a sandbox"),
    INT(max_processes, max_limits.processes, "4096", 2, 4194304, "most processes and threads that a request may ask for"),
    INT(default_open_files, default_limits.open_files, "4096", 32, 1048576, "open files of each process in a sandbox"),
    INT(max_open_files, max_limits.open_files, "65536", 32, 1048576, "most open files that a request may ask for"),
    MEBIBYTES(max_io_mb_per_s, max_limits.io_bytes_per_s, "0", 0, 1 << 24,
         "most disk throughput in MiB per second that a request may ask for; 0: any"),
    INT(blanks, warden.blanks, "32", 0, 1000, "sandboxes that were never used and are kept ready, each given out once; 0: none"),
    INT(oci_blanks, warden.oci_blanks, "4", 0, 1000, "sandboxes of an OCI runtime that are kept ready from its first use on; everything but the container itself is made"),
    INT(microvm_blanks, warden.microvm_blanks, "0", 0, 1000, "virtual machines of the usual size that have booted and wait, each given out once"),
    MEBIBYTES(memory_reserve_mb, warden.memory_reserve_bytes, "32", 0, 1 << 20,
         "MiB of a sandbox's memory limit that are left to its processes when its disk is in memory"),
    MEBIBYTES(state_reserve_mb, warden.state_reserve_bytes, "256", 0, 1 << 24,
         "MiB of the state directory's file system that sandboxes' disks and images leave free"),
    MEBIBYTES(tmpfs_max_mb, warden.tmpfs_max_bytes, "1024", 0, 1 << 24,
         "the largest disk in MiB that is kept in memory where the sandbox has no memory limit; a larger one is an image on the host's disk"),
    INT(disk_templates, warden.disk_templates, "8", 1, 1000, "formatted disk images that are kept, one per size"),
    INT(inotify_instances, warden.user_limits.inotify_instances, "32", 0, 1 << 20, "inotify instances of a sandbox"),
    INT(inotify_watches, warden.user_limits.inotify_watches, "8192", 0, 1 << 24, "inotify watches of a sandbox"),
    INT(fanotify_groups, warden.user_limits.fanotify_groups, "0", 0, 1 << 20, "fanotify groups of a sandbox"),
    INT(fanotify_marks, warden.user_limits.fanotify_marks, "0", 0, 1 << 24, "fanotify marks of a sandbox"),
    LIST(CONFIG_MAP, env, env, "environment of every command (NAME=value); variables: SANDBOX_ENV_NAME"),
    DURATION(idle_ttl, manager.idle_ttl_ms, "15m", 0, 365 * DAYS, "an idle sandbox is deleted after this; 0: never"),
    DURATION(reconnect_timeout, manager.reconnect_timeout_ms, "60s", SECONDS, HOURS, "how long a sandbox whose connection broke is looked for before it counts as crashed, where the runtime's connections may break"),
    INT(reconnects_per_minute, manager.reconnects_per_minute, "60", 1, 1000000, "how often in a minute the connection to a sandbox may break before the sandbox counts as crashed"),
    DURATION(create_ready_timeout, manager.create_timeout_ms, "60s", SECONDS, HOURS, "how long a sandbox may take to start"),

    GROUP("Approvals"),
    DURATION(approval_ttl, approvals.ttl_ms, "1h", SECONDS, 30 * DAYS, "how long a call waits for a person, and "
             "how long an approval that was given can be used"),
    DURATION(approval_retention, approvals.keep_ms, "24h", SECONDS, 365 * DAYS, "how long a decided approval is shown"),
    INT(max_pending_approvals, approvals.max_pending, "1000", 1, 100000, "calls that may wait for a person"),
    INT(max_pending_approvals_per_key, approvals.max_pending_per_key, "100", 1, 100000,
         "calls of one key that may wait for a person; one key never has more than half of max_pending_approvals"),
    STRING(webhook_url, api.webhook.url, NULL, "http or https URL that receives every approval and its changes. It is called through the "
           "gateway as the key webhook, which a policy has to allow; addresses that are not public need gateway_allow_private"),
    SECRET(webhook_secret, api.webhook.secret,
         "signs what is sent to webhook_url: X-Mas-Signature is HMAC-SHA-256 of X-Mas-Timestamp, a dot and the body"),
    INT(webhook_queue, api.webhook.queue_max, "256", 1, 100000,
         "events that may wait to be sent to webhook_url; further ones are dropped, and the log says so"),
    INT(webhook_tries, api.webhook.tries_max, "4", 1, 16,
         "how often an event is sent until it is accepted; a second apart, then two, four and so on"),
    DURATION(webhook_timeout, api.webhook.timeout_ms, "10s", SECONDS, 120 * SECONDS, "how long sending one event may take"),

    GROUP("Network"),
    LIST(CONFIG_LIST, allowed_hosts, gateway.allow_hosts, "hosts that URL tools and sandboxes may reach; empty: any public one"),
    LIST(CONFIG_LIST, disallowed_hosts, gateway.deny_hosts, "hosts that neither URL tools nor sandboxes may reach, whatever a sandbox allows"),
    LIST(CONFIG_LIST, gateway_allow_private, gateway.allow_private,
         "private addresses, and this host's own, that may be reached all the same: address, CIDR or host name"),
    DURATION(gateway_request_timeout, gateway.request_timeout_ms, "10s", 1, HOURS,
         "how long a program may take to say where it wants to connect to"),
    DURATION(gateway_resolve_timeout, gateway.resolve_timeout_ms, "10s", 1, HOURS, "how long looking up a name may take"),
    DURATION(gateway_connect_timeout, gateway.connect_timeout_ms, "10s", 1, HOURS, "how long connecting may take, all addresses of a name together"),
    DURATION(gateway_idle_timeout, gateway.idle_timeout_ms, "150s", 1, DAYS, "a connection without a byte in either direction ends after this"),
    INT(gateway_max_connections, gateway.max_connections, "512", 1, 100000, "connections of all sandboxes together; one key may have no more of them than are left free"),
    INT(gateway_max_connections_per_sandbox, gateway.max_connections_per_label, "32", 1, 100000, "connections of one sandbox"),
    INT(network_records_per_minute, manager.network_records_per_minute, "20", 1, 100000,
        "connections of one sandbox and rule that the audit has one by one; the others are one summary"),
    {.name = "secrets", .type = CONFIG_MAP, .flags = KEY_ANY_NAME, TYPED(secrets.pairs, char **),
     .help = "secrets that requests of sandboxes are given on their way, NAME: \"FROM HOST[,HOST...] HEADER\"; FROM is file:PATH, env:VARIABLE "
             "or credential:NAME (systemd), a host a name or *.domain with an optional port (443), HEADER a line with {} where the secret goes"},
    LIST(CONFIG_LIST, secret_hosts, secrets.hosts, "hosts (names, *.domain, with an optional port) for which keys may keep secrets of their own; empty: none"),
    INTERNAL_LIST(secrets_sealed, secrets.sealed),
    INTERNAL(secrets_public_key, secrets.public_key),
    INTERNAL_LIST(machine_cidrs, machine_cidrs),
    LIST(CONFIG_LIST, network_cidrs, network_cidrs,
         "networks that sandboxes may ask to reach by address, each with or without :port; empty: there is no network by address. "
         "Networks that are not public need gateway_allow_private as well; names in disallowed_hosts have no effect on packets"),
    STRING(network_pool, network_pool, "10.213.0.0/16", "network from which sandboxes with a network by address get their IPv4 addresses"),
    STRING(network_pool6, network_pool6, "fd6d:6173:6e65:7400::/64", "network from which the same sandboxes get their IPv6 addresses"),
    INT(network_uid, network.uid, "64224", 1, 4294900000, "user and group of mas-net, which makes the links and rules of networks by address"),
    INT(network_connections, network.connections, "1024", 1, 1000000, "connections that one sandbox may have by address"),
    INT(network_connects_per_second, network.connects_per_second, "200", 1, 1000000,
        "connections that one sandbox may begin by address, each second"),
    INT(network_mbytes_per_second, network.mbytes_per_second, "0", 0, 100000,
        "MB each second that one sandbox may send, and receive, by address; 0: not limited"),
    STRING(web_search_endpoint, web_search_endpoint, "https://api.duckduckgo.com/", "the URL that the tool web_search asks"),

    GROUP("Requests"),
    INT(max_connections, http.max_connections, "4096", 1, 500000,
        "connections at once. When there is one more, the connection whose request has been incomplete for longest is answered 503, or the new one where all are being served"),
    INT(unix_reserve_percent, http.unix_reserve_percent, "10", 0, 90, "percent of max_connections that are kept for Unix sockets, where the daemon listens on one"),
    INT(address_connections_percent, http.address_percent, "25", 0, 100,
        "percent of max_connections that callers of one address without a key may have when all are taken; 0: any number"),
    INT(key_connections_percent, http.tag_percent, "50", 0, 100,
        "percent of max_connections that one key (without keys: one address) may have; over it: 429; 0: any number"),
    INT(refusals_per_minute, http.refusals_per_minute, "600", 0, 1000000,
        "401, 403, 404 and 405 for one address that has shown no key; over it: 429 and the end of the connection; 0: any number"),
    INT(connection_backlog, http.listen_backlog, "4096", 1, 65535,
        "connections that the kernel keeps until they are accepted; net.core.somaxconn may say fewer"),
    SIZE(max_header_bytes, http.max_header_bytes, "64Ki", KIB, 16 * MIB, "request line and headers; over it: 431"),
    SIZE(max_body_bytes, api.max_body_bytes, "1Mi", KIB, GIB, "JSON body; over it: 413"),
    SIZE(max_upload_bytes, api.max_upload_bytes, "1Gi", KIB, TIB, "uploaded file or tar; over it: 413"),
    SIZE(max_discard_bytes, http.max_discard_bytes, "16Mi", 0, GIB, "bytes of a body that are read after a 413, so that the client sees the answer"),
    SIZE(max_line_bytes, max_line_bytes, "10Mi", KIB, GIB, "length of a line of the line protocol"),
    SIZE(max_write_queue, http.max_write_queue, "1Mi", 4 * KIB, GIB, "bytes queued on one connection before it has to wait"),
    SIZE(max_write_total, http.max_write_total, "512Mi", 256 * MIB, TIB,
         "bytes queued on all connections; over it, the slowest reader of the key (without keys: the address) with most of them is reset"),
    DURATION(header_timeout, http.header_timeout_ms, "10s", 1, HOURS, "how long a request may take from its first byte to the end of its headers"),
    DURATION(body_timeout, http.body_timeout_ms, "30s", 1, HOURS, "how long a client may pause between two pieces of a body"),
    DURATION(body_total_timeout, http.body_total_ms, "6h", 0, 30 * DAYS, "how long a whole body may take; 0: any time"),
    SIZE(body_min_rate, http.body_min_rate, "1Ki", 0, GIB,
         "bytes per second of a body, averaged, after its first body_timeout; 0: any rate"),
    DURATION(idle_timeout, http.idle_timeout_ms, "75s", 1, DAYS, "a kept-alive connection without a request ends after this"),
    DURATION(write_timeout, http.write_timeout_ms, "60s", 1, DAYS, "a client that reads nothing of its answer is dropped after this"),
    SIZE(write_min_rate, http.write_min_rate, "1Ki", 0, GIB,
         "bytes per second that a client reads of a waiting answer, averaged, after write_timeout; 0: any rate"),
    DURATION(write_total_timeout, http.write_total_ms, "1h", 0, 30 * DAYS,
             "how long a client may take to read a whole answer of more than max_write_queue; 0: any time"),
    SIZE(ws_max_message, http.ws_max_message, "1Mi", KIB, GIB, "size of a WebSocket message"),
    DURATION(ws_ping, http.ws_ping_ms, "30s", 0, DAYS, "time between two WebSocket pings; 0: none"),

    GROUP("Keys"),
    INT(max_keys, keys.max, "1000", 1, 100000, "keys on record; the oldest ended ones make room for new ones"),
    INT(key_max_sandboxes, keys.defaults.max_sandboxes, "0", 0, 100000, "sandboxes of a key that has no quota of its own; 0: any number"),
    INT(key_max_execs, keys.defaults.max_execs, "0", 0, 1000000, "running commands of a key that has no quota of its own; 0: any number"),
    INT(key_reserve_percent, manager.reserve_percent, "12", 0, 50, "percent of max_sandboxes and max_execs that are kept for keys (without keys: addresses) with less than an even share"),
    INT(key_requests_per_minute, keys.defaults.requests_per_minute, "6000", 0, 100000000,
         "requests per minute of a key that has no rate of its own; over it: 429; 0: any number"),

    GROUP("MCP"),
    BOOL(mcp, use_mcp_stdio, "false", "speak MCP on stdin and stdout instead of listening; over HTTP it is at /mcp"),
    INT(mcp_max_sessions, mcp.max_sessions, "4096", 1, 100000, "MCP sessions at once"),
    INT(mcp_max_sessions_per_key, mcp.max_sessions_per_key, "1024", 1, 100000, "MCP sessions of one key at once"),
    INT(mcp_max_calls, mcp.max_calls, "32", 1, 10000, "requests of one MCP session at once"),
    INT(mcp_max_batch, mcp.max_batch, "64", 1, 10000, "messages of one batch, in the MCP revision that has batches"),
    INT(mcp_max_subscriptions, mcp.max_subscriptions, "256", 0, 100000, "resources one session may watch"),
    INT(mcp_page_size, mcp.page_size, "100", 1, 10000, "items of a list in one answer"),
    SIZE(mcp_max_message_bytes, mcp.max_message_bytes, "4Mi", KIB, GIB, "size of a client's MCP message; over it: 413"),
    SIZE(mcp_max_answer_bytes, mcp.max_answer_bytes, "16Mi", 64 * KIB, GIB, "size of an MCP answer; over it the client gets an error instead"),
    SIZE(mcp_queue_bytes, mcp.queue_bytes, "1Mi", 4 * KIB, GIB, "unsent bytes of one MCP stream before progress and logs are left out"),
    SIZE(mcp_replay_bytes, mcp.replay_bytes, "1Mi", 0, GIB, "bytes of sent events that a session keeps in order to send them again"),
    SIZE(mcp_buffer_total_bytes, mcp.buffer_total_bytes, "256Mi", MIB, TIB, "bytes of events that are kept for all sessions"),
    DURATION(mcp_session_ttl, mcp.session_ttl_ms, "30m", SECONDS, 365 * DAYS, "an idle session ends after this"),
    DURATION(mcp_client_timeout, mcp.client_timeout_ms, "10m", SECONDS, DAYS,
         "how long a client may take to answer what it is asked (sampling, elicitation)"),
    DURATION(mcp_stream_after, mcp.stream_after_ms, "500ms", 1, HOURS, "an answer that takes longer becomes a stream"),
    DURATION(mcp_replay_ttl, mcp.replay_ms, "1m", SECONDS, DAYS, "how long a finished stream can be asked for again"),
    DURATION(mcp_keepalive, mcp.keepalive_ms, "15s", 0, HOURS, "time between two signs of life of a quiet stream; 0: none"),
    DURATION(mcp_retry, mcp.retry_ms, "1s", 1, HOURS, "how long a client should wait before it comes back to a stream"),
    SIZE(mcp_output_bytes, mcp.output_bytes, "16Ki", 256, MIB, "bytes of stdout, and as many of stderr, in the answer of a tool: the beginning and the end"),
    SIZE(mcp_transfer_bytes, mcp.transfer_bytes, "2Mi", KIB, GIB, "bytes of a file that go in or out in one tool call"),
    DURATION(mcp_command_timeout, mcp.command_timeout_ms, "2m", 0, DAYS, "timeout of a command that a tool waits for; 0: as exec_timeout"),
    DURATION(mcp_approval_wait, mcp.approval_wait_ms, "45s", 0, DAYS,
             "how long a call waits for a person before it is answered as pending"),

    GROUP("Audit"),
    BOOL(audit, use_audit, "true", "record what happens; what cannot be recorded does not run"),
    ENUM(audit_fsync, audit.fsync, "never", "never|batch|always",
           "when records are forced to disk, in addition to each checkpoint: batch within milliseconds, always before the call goes on"),
    INT(audit_checkpoint_records, audit.checkpoint_records, "10000", 0, 1000000000,
        "records after which the warden signs the newest; 0: only by time"),
    DURATION(audit_checkpoint_interval, audit.checkpoint_ms, "10s", 0, 365 * DAYS,
             "how long a record may wait to be signed; 0: only by count"),
    PATH(audit_checkpoint_file, audit_checkpoint_file, NULL, "the warden appends every checkpoint to this file too"),
    BOOL(audit_checkpoint_syslog, audit_checkpoint_syslog, "false", "the warden sends every checkpoint to syslog too"),
    DURATION(audit_retention, audit.retention_ms, "9600h", 0, 36500 * DAYS,
             "how long records are kept; 0: for ever, whatever audit_retention_records says"),
    INT(audit_retention_records, audit.retention_records, "0", 0, 1000000000000, "this many of the newest records are kept, however old they are"),
    SIZE(audit_max_bytes, audit.max_bytes, "0", 0, 1024 * TIB,
         "size of all records together; over it the oldest are dropped, whatever their age; 0: no limit"),

    GROUP("Skills"),
    PATH(skill_root, api.skill_root, NULL, "host directory that the skill filesystem works below, for all keys; must be "
         "below mounts_allow; without it, each key has a sandbox of its own for it"),

    GROUP("Validation"),
    DURATION(validate_timeout, api.validate_timeout_ms, "2s", 1, HOURS,
         "how long looking at one text may take; a text that takes longer counts as not looked at"),
    INT(validate_queue, api.validate_queue, "64", 1, 10000, "long texts that may wait to be looked at; over it: 429"),
    INT(validate_queue_per_key, api.validate_queue_per_key, "16", 1, 10000,
         "long texts of one key, or of one address without a key, that may wait; keys take turns"),

    GROUP("Commands"),
    {.name = "use_async_exec", .alias = "async_exec", .type = CONFIG_BOOL,
     TYPED(api.async_exec, bool), .fallback = "true",
     .help = "POST /sandboxes/{id}/exec without \"async\" answers at once"},
    DURATION(exec_timeout, api.exec_timeout_ms, "0", 0, 365 * DAYS, "timeout of a command that names none; 0: no timeout"),
    DURATION(exec_max_timeout, api.exec_max_timeout_ms, "6h", SECONDS, 365 * DAYS, "longest a command may run"),
    DURATION(exec_status_retention, manager.retention_ms, "30m", SECONDS, 365 * DAYS,
             "how long a finished command's status and output are kept"),
    INT(max_execs, manager.max_execs, "4096", 1, 1000000, "running commands in all sandboxes"),
    INT(max_execs_per_sandbox, manager.max_execs_per_sandbox, "256", 1, 1024, "running commands in one sandbox"),
    INT(max_snapshots, manager.max_snapshots, "8", 0, 1024, "snapshots that one key may have"),
    INT(max_exec_list, api.max_exec_list, "10000", 1, 1000000, "commands that one listing of a sandbox shows, the oldest first; the others are left out"),
    SIZE(max_stdin_queue, manager.max_stdin_queue, "1Mi", 4 * KIB, GIB, "input that a command has not read yet; over it: 429"),
    INT(max_idempotency_keys, api.max_idempotency_keys, "10000", 1, 1000000, "idempotency keys that are remembered at a time; over it: 429"),
    INT(max_idempotency_keys_per_key, api.max_idempotency_keys_per_key, "1000", 1, 1000000,
         "idempotency keys of one API key; one never has more than half of max_idempotency_keys"),
    DURATION(drain_grace, manager.drain_grace_ms, "250ms", 0, HOURS,
             "how long an exit waits for output that a background child holds open"),
    DURATION(kill_grace, manager.kill_grace_ms, "5s", 0, HOURS, "time between SIGTERM and SIGKILL when a command is ended"),
    INT(busy_poll_us, busy_poll_us, "0", 0, 100000,
        "microseconds for which the daemon polls for the next event before it sleeps, while events come that close together; 0: it does not poll"),
    INT(events_max, events.max_events, "50000", 100, 10000000,
        "changes that are kept for those who read them (/v1/events) later; older ones are a gap"),
    SIZE(events_max_bytes, events.max_bytes, "16Mi", 64 * KIB, GIB, "bytes that the kept changes may take in memory, and in the state directory"),
    INT(stream_buffer, journal.min_events, "200", 1, 1000000, "events of a command kept even when the journal is cut"),
    SIZE(journal_exec_bytes, journal.limit_bytes, "64Mi", 64 * KIB, TIB, "output kept of one command"),
    SIZE(journal_sandbox_bytes, manager.journal_sandbox_bytes, "256Mi", 64 * KIB, TIB, "output kept of all commands of a sandbox"),
    SIZE(journal_total_bytes, journal.total_limit, "1Gi", MIB, 1024 * TIB, "output kept of all commands"),
    ENUM(journal_full, manager.journal_full, "truncate", "truncate|block",
         "what happens when a limit of journals is reached: truncate keeps the head and the tail, block holds the command back"),

    GROUP("Images"),
    BOOL(images, images, "true", "sandboxes may have images"),
    CHOICE(image_pull, image_pull, "missing", "never|missing|always",
           "when a create fetches its image from a registry: never, when it is not here, every time"),
    LIST(CONFIG_LIST, images_registries, keeper.registries,
         "registries (host or host:port) that images may come from, \"*\" for any; without one, none"),
    LIST(CONFIG_LIST, images_hosts, keeper.hosts,
         "further hosts that a fetch may go to, because a registry sends it there for tokens or blobs: names, *.domain, addresses or "
         "networks, each with or without :port"),
    STRING(images_default_registry, keeper.default_registry, NULL, "registry of image names that have none in them"),
    LIST(CONFIG_LIST, images_insecure_registries, keeper.insecure_registries,
         "registries of images_registries that may be spoken to without TLS or with any certificate"),
    PATH(images_auth_file, keeper.auth_file, NULL, "credentials for registries, as containers-auth.json(5) has them"),
    LIST(CONFIG_PATHS, images_allow, keeper.allow,
         "host directories that images may come from (oci:, docker-archive:, rootfs-tar:, dir:)"),
    BOOL(images_disks, keeper.disks, "false",
         "make a disk for virtual machines of each image, too, without which a machine cannot use the image; always so where runtime is microvm"),
    INT(images_jobs, keeper.jobs, "2", 1, 32, "images that are fetched or unpacked at a time"),
    DURATION(images_pull_timeout, keeper.pull_timeout_ms, "10m", SECONDS, DAYS, "how long fetching and unpacking one image may take"),
    DURATION(images_idle_timeout, keeper.idle_timeout_ms, "1m", SECONDS, DAYS,
             "the process that fetches images ends when it was not used for this long, and starts again when it is needed"),
    SIZE(images_max_bytes, keeper.max_bytes, "20Gi", MIB, 1024 * TIB,
         "size of all images, unpacked; those not used for longest make room, never one that is in use"),
    SIZE(images_max_upload_bytes, keeper.max_upload_bytes, "4Gi", MIB, 1024 * TIB, "size of a tar that is uploaded as an image"),
    SIZE(images_max_unpacked_bytes, keeper.limits.bytes, "8Gi", MIB, 1024 * TIB, "size of one image, unpacked"),
    INT(images_max_files, keeper.limits.files, "500000", 1, 100000000, "files of one image"),
    INT(images_max_path_bytes, keeper.limits.path_bytes, "4095", 64, 4095, "length of a name in an image"),
    INT(images_max_depth, keeper.limits.depth, "128", 1, 512, "directories above a file of an image"),
    INT(images_max_layers, keeper.limits.layers, "128", 1, 1000, "layers of one image"),
    SIZE(images_max_layer_bytes, keeper.limits.layer_bytes, "4Gi", MIB, 1024 * TIB, "size of one layer as it comes, compressed"),
    INT(images_max_ratio, keeper.limits.ratio, "200", 1, 100000, "unpacked bytes for each compressed one, past the first 64 MiB"),

    GROUP("Kubernetes"),
    PATH(kube_config, kube.config_file, NULL,
         "kubeconfig of a cluster, read at the start with all that it names; starts mas-kube, which alone has its credential"),
    BOOL(kube_in_cluster, kube.in_cluster, "false", "instead of kube_config: the files of this pod's service account"),
    PATH(kube_socket, kube.socket, NULL,
         "instead of both: the socket of a mas-kube that runs elsewhere (--listen), which has the credential and says what may be made"),
    STRING(kube_context, kube.context, NULL, "context of kube_config; without one, its current-context"),
    BOOL(kube_exec_plugins, kube.exec_plugins, "false", "allow the program that kube_config names for its credential to be run, as mas-kube's user"),
    STRING(kube_namespace_prefix, kube.prefix, "sbx-", "what the name of every namespace that this daemon makes begins with"),
    STRING(kube_instance, kube.instance, "mas-sandbox", "name of this daemon, a label that all of its objects in the cluster carry; each daemon of a cluster needs another"),
    STRING(kube_home, kube.home, NULL, "name of this control plane, an annotation that its sandboxes carry; sandboxes of another one of the same instance are not touched; without one, kube_instance"),
    LIST(CONFIG_LIST, kube_images, kube.images, "images that pods may have: a whole name, or one that ends in / or :, which stands for all names that begin with it"),
    LIST(CONFIG_LIST, kube_runtime_classes, kube.runtime_classes, "RuntimeClasses that pods may have, besides none: gvisor is that of runtime kube-gvisor, kata that of kube-kata"),
    LIST(CONFIG_LIST, kube_storage_classes, kube.storage_classes, "classes that claims may have; default is the cluster's own; none: no claims"),
    STRING(kube_image, kube.image, NULL, "image of a pod whose sandbox names none; without it, such a sandbox is refused"),
    STRING(kube_link_image, kube.link_image, NULL, "image of mas-sandbox's own containers in each pod"),
    INT(kube_direct_port, kube.direct_port, "0", 0, 65535, "port at which the link of a pod is reached directly, at the pod's address and by TLS; 1024 or above; 0: only through the API server"),
    STRING(kube_direct_from, kube.direct_from, NULL, "namespace of this daemon's own pod, the only one from which links may be reached; needed with kube_direct_port"),
    STRING(kube_lease_namespace, kube.lease_namespace, "mas-sandbox", "namespace of the Lease by which one daemon at a time holds kube_home; deploy/kube/base makes it"),
    STRING(kube_shared_namespace, kube.shared_namespace, NULL, "one namespace for the pods of all sandboxes, of deploy/kube/shared; without it each sandbox has a namespace of its own"),
    STRING(kube_priority_class, kube.priority_class, NULL, "PriorityClass of pods"),
    INT(kube_uid_first, kube.uid_first, "1000000", 1000, 4000000000, "first user id of sandboxes in pods; no other program may use these ids on any node"),
    INT(kube_uid_count, kube.uid_count, "20000", 2, 100000000, "how many user ids sandboxes in pods may have; each takes two"),
    DURATION(orphan_ttl, kube.orphan_ms, "24h", 60 * SECONDS, 720 * HOURS, "a pod ends by itself when no control plane has reached it for this long"),
    SIZE(kube_max_disk, kube.disk_bytes, "10Gi", MIB, 1024 * TIB, "largest size of one volume of a pod"),
    BOOL(kube_node_disk, kube.node_disk, "false", "volumes may be on a node's disk, where a pod that is over its size is only evicted"),
    BOOL(kube_hostpath, kube.host_path, "false", "pods may have cache_hostpath of their node as /cache, which all pods there share; the cluster then holds their namespaces to no Pod Security profile, only mas-kube's admission policy does"),
    BOOL(kube_own_users, kube.own_users, "false", "pods may have a user namespace of their own (hostUsers: false)"),
    BOOL(kube_unproven_network, kube.unproven_network, "false", "pods may run although it is not proven that the cluster enforces NetworkPolicies; they are then reported without a network wall"),
    BOOL(kube_writable_root, kube.writable_root, "false", "the root of a pod may be writable"),

    GROUP("sbx API"),
    STRING(image, image, NULL, "image of a sandbox that names none; without one, a view of the host's root; on runtime kube another way to say kube_image"),
    CHOICE(volume_mode, api.volume_mode, "emptydir", "emptydir|pvc", "the volume at /workspace; pvc needs the kube runtime"),
    CHOICE(cache_mode, api.cache_mode, "emptydir", "emptydir|hostpath|pvc", "the volume at /cache; pvc needs the kube runtime"),
    PATH(cache_hostpath, api.cache_hostpath, "/var/lib/sbx-cache", "host directory of cache_mode hostpath; on runtime kube the node's, with kube_hostpath"),
    SIZE(cache_pvc_size, api.cache_pvc_bytes, "5Gi", MIB, 1024 * TIB, "size of the claim of cache_mode pvc"),
    STRING(cache_pvc_storage_class, api.cache_pvc_storage_class, NULL, "storage class of the claim of cache_mode pvc, one of kube_storage_classes; without it, the cluster's default"),
    CHOICE(cache_pvc_access_mode, api.cache_pvc_access_mode, "ReadWriteOnce", "ReadWriteOnce|ReadWriteOncePod|ReadWriteMany",
           "access mode of the claim of cache_mode pvc"),
    INT(warm_pool_size, pool.size, "0", 0, 10000, "sandboxes made ahead from the defaults, each given out once"),
    BOOL(warm_pool_autosize, pool.autosize, "false", "keep as many sandboxes ready as were created in the last minute"),
    INT(warm_pool_min, pool.min, "0", 0, 10000, "least number of sandboxes that are kept ready with warm_pool_autosize"),
    INT(warm_pool_max, pool.max, "0", 0, 10000, "most sandboxes that are kept ready with warm_pool_autosize; 0 means 10"),
    STRING(warm_control_namespace, warm_control_namespace, "sbx-warm-control", "no effect yet"),
    CORES(cpu_request, kube.cpu_request_millicores, "0.1", "cores that a pod asks its node for, at most its limit; 0: as many as its limit"),
    SIZE(mem_request, kube.memory_request_bytes, "0", 0, 1024 * TIB, "memory that a pod asks its node for, at most its limit; 0: as much as its limit"),
    CORES(cpu_limit, cpu_limit_millicores, "0", "another way to say default_cpu_cores"),
    SIZE(mem_limit, mem_limit, "0", 0, 1024 * TIB, "another way to say default_memory_mb, in bytes or Mi"),
    CHOICE(stream_mode, stream_mode, "control-plane", "control-plane|sidecar",
           "what brings the output of commands in pods: the runner's own connection, or a container of the pod; sidecar needs the kube runtime"),
    STRING(stream_sidecar_image, stream_sidecar_image, NULL, "image of that container: ours, or another that speaks the contract; needed with stream_mode sidecar"),
    STRING(stream_endpoint, stream_endpoint, NULL, "URL of this daemon that the container pushes to: http:// or https://, an address that pods reach, and a port; needed with stream_mode sidecar"),
    STRING(stream_events_dir, stream_events_dir, "/sbx-events", "where that container finds the files of output"),
};
/* clang-format on */

const size_t config_n_keys = ELEMENTS(config_keys);
static_assert(ELEMENTS(config_keys) <= CONFIG_KEYS_MAX, "origin[] holds every key");

static bool same_name(const char *name, const char *written)
{
    for (; *name && *written; name++, written++) {
        char c = *written == '-' || *written == '.' ? '_' : *written;
        if (c != *name)
            return false;
    }
    return !*name && !*written;
}

const char *config_key_choices(const struct config_key *k)
{
    return k->choices_from ? k->choices_from() : k->choices;
}

const struct config_key *config_key_find(const char *name)
{
    for (size_t i = 0; i < config_n_keys; i++) {
        const struct config_key *k = &config_keys[i];
        if (k->name && (same_name(k->name, name) || (k->alias && same_name(k->alias, name))))
            return k;
    }
    return NULL;
}

enum config_origin config_origin(const struct config *c, const char *name)
{
    const struct config_key *k = config_key_find(name);
    assert(k);
    return c->origin[k - config_keys];
}

const char *config_suggest(const char *written)
{
    const char *best = NULL;
    size_t best_distance = nearest_patience(written);
    for (size_t i = 0; i < config_n_keys; i++) {
        const struct config_key *k = &config_keys[i];
        if (!k->name || (k->flags & KEY_INTERNAL))
            continue;
        size_t a = strlen(written), b = strlen(k->name);
        if ((a > b ? a - b : b - a) > best_distance)
            continue; /* at least that far */
        size_t d = nearest_distance(written, k->name);
        if (d <= best_distance && (!best || d < best_distance)) {
            best = k->name;
            best_distance = d;
        }
    }
    return best;
}
