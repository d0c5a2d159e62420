/* SPDX-License-Identifier: Apache-2.0 */
/* One thing that 'sbx setup' changes on a host, and how it is taken back. A change is a JSON
 * object, as it stands in the record of what was changed:
 *
 *   kind     "packages", "file" (a new one), "line" (at the end of a file) or "member" (of a JSON
 *            file)
 *   why      a sentence for the person who is asked
 *   names    of packages
 *   path     of the file; what else the kind needs is in "text", and for a member in "at", the
 *            names of the objects it is in
 *   before   the file's text, or null where there was none
 *   after    the file's text with the change
 *   dirs     directories that had to be made for it
 *   then     a command that makes a running program notice the change, and also its undoing */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct sbx_error;
struct setup_root;

/* New references. NULL with an error where the file cannot be read or understood, and without one
 * where nothing has to be changed. then may be NULL, else words up to a NULL. */
json_t *change_packages(const char *const *names, const char *why);
json_t *change_file(const struct setup_root *root, const char *path, const char *text,
                    const char *why, const char *const *then);
json_t *change_line(const struct setup_root *root, const char *path, const char *line,
                    const char *why, struct sbx_error *err);
/* Sets the member `name` of the object `in` of the file's object; takes value. */
json_t *change_member(const struct setup_root *root, const char *path, const char *in,
                      const char *name, json_t *value, const char *why, const char *const *then,
                      struct sbx_error *err);

void change_print(const json_t *change, bool undo);
/* Whether it can be made in this root: packages only come to the host. */
bool change_is_possible(const struct setup_root *root, const json_t *change);
int change_apply(const struct setup_root *root, const json_t *change, struct sbx_error *err);
/* Takes back what is still there. What was changed by others since is kept, with a warning where
 * that means that something of ours stays. */
int change_undo(const struct setup_root *root, const json_t *change, struct sbx_error *err);
