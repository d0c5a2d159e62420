/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration: one table of keys (table.c), three sources in rising order
 * (YAML file, environment, flags), one check.
 *
 * What a module takes as it is, it defines: struct http_config and its like are filled here and
 * handed on whole. A struct config owns all its strings and vectors, those in them too. A list is a
 * NULL-terminated vector or NULL when empty; a string is NULL when not set (never where the table
 * has a default), never "". A number is 0 where its help says that 0 means none. Durations are in
 * milliseconds, sizes in bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/config.h"
#include "audit/audit.h"
#include "base/strbuf.h"
#include "config/machine.h"
#include "event/event-journal.h"
#include "gateway/gateway.h"
#include "guard/approval.h"
#include "identity/keys.h"
#include "keeper/keeper.h"
#include "kube/config.h"
#include "mcp/config.h"
#include "net/http.h"
#include "proto/limit.h"
#include "runtime/runtime.h"
#include "sandbox/sandbox.h"
#include "secret/secrets.h"
#include "proto/net.h"
#include "warden/warden.h"

struct error;

#define CONFIG_FILE_MAX     (256 * 1024) /* bytes of a YAML file */
#define CONFIG_DEPTH_MAX    8            /* nested maps and lists in it */
#define CONFIG_SECRET_MAX   (64 * 1024)  /* bytes of a token, certificate or key file */
#define CONFIG_LIST_MAX     1024         /* items of a list or map */
#define CONFIG_VALUE_MAX    (64 * 1024)  /* bytes of one value */
#define CONFIG_PROBLEMS_MAX (64 * 1024)  /* bytes of error and warning text each */
#define CONFIG_KEYS_MAX     288

enum config_origin {
    ORIGIN_DEFAULT,
    ORIGIN_FILE,
    ORIGIN_ENV,
    ORIGIN_FLAG,
    ORIGIN_PARENT, /* handed over by config_serialize() */
    _ORIGIN_MAX,
};

struct config {
    /* who may talk to it */
    char **listen; /* empty: line protocol on stdin and stdout */
    struct http_config http;
    struct api_config api;
    char *auth_token_file;
    char *tls_cert, *tls_key; /* paths; their texts are in http, read before the drop */
    bool insecure;
    struct keys_config keys;
    bool enable_process; /* or runtime has no isolation: see config_process_enabled() */

    /* where it lives */
    char *runtime;
    char *oci_runtime;
    char **engines;
    char *podman_socket, *docker_socket;
    char *microvm_dir;
    enum isolation min_isolation;
    char *runtime_config;
    struct machine_config machine; /* of it, or the defaults; config_check() fills it in */
    char **machine_cidrs;          /* its ranges, for a process that cannot read the file */
    char *policy_file;
    char *state_dir; /* NULL: main decides */
    char *landlock_dir;
    char *user;
    char *libexec_dir;
    char *log_level, *log_format;

    /* what sandboxes may have */
    char **mounts_allow;
    char *cgroup_prefix;
    struct limits default_limits, max_limits; /* of a request that asks for none, of any */
    struct warden_config warden;
    struct manager_config manager;
    struct pool_config pool;
    char **env; /* "NAME=value" */
    struct gateway_config gateway;
    char *web_search_endpoint;
    char **network_cidrs;
    char *network_pool, *network_pool6;
    struct net_config network; /* but for the ranges, which daemon.c fills in */
    struct secrets_config secrets;

    /* requests */
    size_t max_line_bytes;
    bool use_mcp_stdio;
    struct mcp_config mcp;

    /* audit */
    bool use_audit;
    struct audit_config audit;
    char *audit_checkpoint_file;
    bool audit_checkpoint_syslog;

    /* commands and their output */
    uint64_t busy_poll_us;
    struct event_journal_config events;
    struct journal_config journal;

    /* what waits for a person */
    struct approvals_config approvals;

    /* life times */
    uint64_t shutdown_grace_ms;
    int64_t control_restarts;
    int64_t control_restart_window_ms;

    /* images */
    bool images;
    char *image, *image_pull;
    struct keeper_config keeper;

    /* a Kubernetes cluster */
    struct kube_config kube;

    /* the sbx API's cluster settings */
    char *warm_control_namespace;
    uint32_t cpu_limit_millicores;
    uint64_t mem_limit;
    char *stream_mode, *stream_sidecar_image, *stream_endpoint, *stream_events_dir;

    uint8_t origin[CONFIG_KEYS_MAX]; /* enum config_origin, by index in the table */
};

enum config_type {
    CONFIG_STRING,
    CONFIG_PATH,   /* a string; relative ones are made absolute by config_check() */
    CONFIG_CHOICE, /* a string out of key->choices */
    CONFIG_ENUM,   /* its place in key->choices */
    CONFIG_INT,
    CONFIG_CORES, /* "1.5" or "1500m", in thousandths */
    CONFIG_BOOL,
    CONFIG_DURATION, /* as Go writes them, at least whole milliseconds */
    CONFIG_SIZE,     /* bytes, or with Ki, Mi, Gi, Ti */
    CONFIG_LIST,     /* comma-separated in variables and flags */
    CONFIG_PATHS,    /* a list of CONFIG_PATH */
    CONFIG_MAP,      /* NAME=value */
    _CONFIG_TYPE_MAX,
};

enum config_key_flags {
    KEY_SECRET = 1,   /* never printed */
    KEY_INTERNAL = 2, /* not a setting: carried by config_serialize() only */
    KEY_ANY_NAME = 4, /* of a map: its names are not those of variables */
};

struct config_key {
    const char *name;  /* in YAML; flags write '-' for '_', variables SANDBOX_ and upper case */
    const char *alias; /* a second name, or NULL */
    enum config_type type;
    unsigned flags;
    size_t offset, size;
    int64_t min, max;                  /* of numbers; cores in thousandths */
    int64_t unit;                      /* of numbers: how much of the member 1 is */
    const char *fallback;              /* the default as text, or NULL */
    const char *choices;               /* "a|b|c" */
    const char *(*choices_from)(void); /* the same from a table of others; NULL: as above */
    const char *group;                 /* heading in help and the man page */
    const char *help;
};

/* Rows without a name are headings. */
extern const struct config_key config_keys[];
extern const size_t config_n_keys;
#define config_for_each_key(k)                                                                     \
    for (const struct config_key *k = config_keys; k < config_keys + config_n_keys; k++)           \
        if (k->name)
/* By name or alias; '-' and '.' count as '_'. NULL when unknown. */
const struct config_key *config_key_find(const char *name);
/* What the value is one of, as "a|b|c"; NULL: anything. */
const char *config_key_choices(const struct config_key *k);
/* Whether containers of pods bring the output of commands (stream_mode). */
bool config_has_streams(const struct config *c);
enum config_origin config_origin(const struct config *c, const char *name);
/* The runtime of sandboxes whose request names none. */
const struct runtime_ops *config_runtime(const struct config *c);
/* The operator named the runtime without isolation, one way or the other. */
bool config_process_enabled(const struct config *c);
/* The operator named this container engine. */
bool config_has_engine(const struct config *c, const char *name);

/* What is wrong with a configuration, a line each, and what is only odd. */
struct config_problems {
    struct strbuf errors, warnings;
    size_t n_errors;
};
void config_problems_init(struct config_problems *p);
void config_problems_done(struct config_problems *p);
void config_error(struct config_problems *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void config_warn(struct config_problems *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* All defaults. */
void config_init(struct config *c);
void config_done(struct config *c);
#define _cleanup_config_ __attribute__((cleanup(config_done)))

/* --- sources. Each applies what it can and notes every problem; origin must not fall. */
void config_load_yaml(struct config *c, const char *name, const char *text, size_t len,
                      struct config_problems *p);
void config_load_file(struct config *c, const char *path, struct config_problems *p);
void config_load_env(struct config *c, char *const *environment, struct config_problems *p);

enum config_mode { MODE_RUN, MODE_CHECK, MODE_PRINT, MODE_CLEAN, MODE_HELP, MODE_VERSION };
struct config_args {
    enum config_mode mode;
    const char *config_path; /* borrowed from argv; NULL: SANDBOX_CONFIG, or no file */
};
/* Reads the flags without applying settings: the file they may name comes first. */
void config_args_scan(int argc, char *const *argv, struct config_args *ret,
                      struct config_problems *p);
void config_load_args(struct config *c, int argc, char *const *argv, struct config_problems *p);
/* Overwrites secrets in argv, where other users could go on reading them. */
void config_args_hide(int argc, char *const *argv);

/* --- after the sources. Reads the token, certificate and key files; then everything that concerns
 * more than one key or the chosen runtime. */
void config_load_secrets(struct config *c, struct config_problems *p);
void config_check(struct config *c, struct config_problems *p);

/* --- values (value.c). set appends to a list that this origin began, else replaces; a
 * problem is written to why. The config is left as it was on failure. */
int config_value_set(struct config *c, const struct config_key *key, enum config_origin origin,
                     const char *text, char *why, size_t why_size);
/* As set, but a list's text is one item, commas included. */
int config_value_add(struct config *c, const struct config_key *key, enum config_origin origin,
                     const char *text, char *why, size_t why_size);
void config_value_done(struct config *c, const struct config_key *key);
/* The text that config_value_set() takes; for lists and maps the number of items and each item. */
bool config_value_is_list(const struct config_key *key);
char **config_value_items(const struct config *c, const struct config_key *key); /* borrowed */
int config_value_format(const struct config *c, const struct config_key *key, struct strbuf *out);

/* --- out again. print writes YAML that config_load_yaml() reads back, secrets masked. */
int config_print(const struct config *c, struct strbuf *out);
int config_print_help(struct strbuf *out);
/* Everything, secrets included, for a process that can no longer read files. */
int config_serialize(const struct config *c, struct strbuf *out);
int config_deserialize(struct config *c, const char *data, size_t len, struct error *err);
/* The keys that fill one part of a struct config, as NAME=VALUE appended to a vector: all that a
 * process is to know which does that part of the work. A list's items are one each. */
void config_list_part(const struct config *c, size_t offset, size_t size, char ***list);
int config_load_part(struct config *c, char *const *list, struct error *err);
/* The name closest to what was written, or NULL when none is close. */
const char *config_suggest(const char *written);
