/* SPDX-License-Identifier: Apache-2.0 */
/* Skills of the actions API: what an agent may have the daemon do by name, one by one enabled or
 * not.
 *
 * `filesystem` is our own: read, list, write, delete and create_dir below one root. Each operation
 * is code of the runner's (toolrunner/builtin-skill.c) in a sandbox, started by run_start() like
 * anything else, so it passes the gate and is audited. The root is the workspace of a lasting
 * sandbox that each key has of its own; or, where the operator sets skill_root, that directory of
 * the host's, mounted into a sandbox made for the one operation. `system` is the tool shell by
 * another name; the other skills are the tools of the same name. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct error;
struct gate_terms;
struct identity;
struct manager;
struct sandbox;
struct skill_run;
struct skills;
struct spec;
struct store;

#define SKILL_FILESYSTEM "filesystem"
#define SKILL_SYSTEM     "system"

/* --- which there are */

/* store (may be NULL) keeps what was disabled. */
struct skills *skills_new(struct store *store, struct error *err);
void skills_free(struct skills *s);
bool skill_exists(const char *id);
/* ERROR_NOT_FOUND for an unknown one, ERROR_FORBIDDEN for one that is disabled. NULL skills: all
 * are enabled. */
int skill_check(const struct skills *s, const char *id, struct error *err);
/* The tool that a skill is; NULL for filesystem. */
const char *skill_tool(const char *id);
/* on_done (may be NULL) comes once, later, when it is on record. */
int skill_set_enabled(struct skills *s, const char *id, bool enabled,
                      void (*on_done)(void *data, const struct error *err), void *data,
                      struct error *err);
/* the actions API's list: [{"id","name","enabled"}]. */
json_t *skills_to_json(const struct skills *s);

/* --- the filesystem skill */

enum skill_operation {
    SKILL_READ,
    SKILL_LIST,
    SKILL_WRITE,
    SKILL_DELETE,
    SKILL_CREATE_DIR,
    _SKILL_OPERATION_MAX,
};

#define SKILL_WRITE_MAX (10 * 1024 * 1024)
#define SKILL_READ_MAX  (1024 * 1024)

/* What the parameters of an action mean; strings are borrowed from them, path is relative to the
 * root and without "..", "" for the root itself. */
struct skill_file {
    enum skill_operation operation;
    char *path; /* to be freed */
    const char *content;
    size_t content_len;
};
/* {"operation","path","content"?}; an absolute path must be below root. Says what is wrong; the
 * runner checks all of it again where it happens. */
int skill_file_parse(const json_t *parameters, const char *root, struct skill_file *ret,
                     struct error *err);
void skill_file_done(struct skill_file *f);

struct skill_options {
    struct manager *manager;
    struct gate *gate;
    const struct spec *default_spec;
    const char *root; /* of the host's, below mounts.allow; NULL: a sandbox's workspace */
};

struct skill_request {
    const struct identity *who;
    const struct gate_terms *terms; /* NULL means the usual ones */
    const json_t *parameters;
    struct sandbox *sandbox; /* to work in instead; or NULL */
};

/* Starts one operation. NULL with err set when refused; otherwise on_done comes once, later: result
 * (borrowed) or err, where ERROR_PENDING is a person who has to decide first. */
struct skill_run *skill_start(const struct skill_options *o, const struct skill_request *req,
                              void (*on_done)(void *data, const json_t *result,
                                              const struct error *err),
                              void *data, struct error *err);
/* Whether a person has to decide before it goes on. */
bool skill_is_waiting(const struct skill_run *run);
/* The sandbox that keeps a key's files where root is NULL; with make, it is made when it is not
 * there. NULL with err set. */
struct sandbox *skill_sandbox(const struct skill_options *o, const struct identity *who, bool make,
                              struct error *err);
