/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema, the part that tools need: type (one or several), properties, required,
 * additionalProperties (true, false or a schema), enum, const, minimum, maximum, minLength,
 * maxLength, items, minItems, maxItems. title, description, default, examples, $schema and format
 * are notes. A schema with any other word is refused when it is compiled, so that no table promises
 * what is not checked. */
#pragma once

#include <jansson.h>

struct error;
struct schema;

#define SCHEMA_DEPTH_MAX 16

/* NULL with err set; takes nothing. */
struct schema *schema_compile(const json_t *json, struct error *err);
void schema_free(struct schema *s);
/* 0, or negative with err naming the member ("arguments.items[2]") and what it should be. Whole
 * numbers written as 3.0 are integers; a string with a NUL in it is refused whatever the schema
 * says.
 */
int schema_check(const struct schema *s, const json_t *value, const char *name, struct error *err);
