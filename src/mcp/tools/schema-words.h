/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of JSON Schema for the tables of catalog.c. Every piece is a string literal. */
#pragma once

#define OBJECT(properties, required)                                                               \
    "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required                 \
    "],\"additionalProperties\":false}"
#define TYPED(name, type, more, text)                                                              \
    "\"" name "\":{\"type\":\"" type "\"," more "\"description\":\"" text "\"}"
#define STRING(name, text)  TYPED(name, "string", "", text)
#define BOOLEAN(name, text) TYPED(name, "boolean", "", text)
#define INTEGER(name, min, max, text)                                                              \
    TYPED(name, "integer", "\"minimum\":" min ",\"maximum\":" max ",", text)
#define NUMBER(name, min, max, text)                                                               \
    TYPED(name, "number", "\"minimum\":" min ",\"maximum\":" max ",", text)
#define COUNT(name, text) TYPED(name, "integer", "\"minimum\":0,", text)
#define STRINGS(name, text)                                                                        \
    "\"" name "\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"            \
    "\"description\":\"" text "\"}"
#define LIST(name, item, text)                                                                     \
    "\"" name "\":{\"type\":\"array\",\"items\":" item ",\"description\":\"" text "\"}"
#define CHOICE(name, values, text)                                                                 \
    "\"" name "\":{\"type\":\"string\",\"enum\":[" values "],\"description\":\"" text "\"}"

#define SANDBOX                                                                                    \
    TYPED("sandbox", "string", "\"minLength\":1,\"maxLength\":128,",                               \
          "Id of a sandbox other than the session's own. Leave it out unless create_sandbox "      \
          "gave you one.")
#define PATH(text) TYPED("path", "string", "\"minLength\":1,\"maxLength\":4096,", text)
#define EXEC_ID                                                                                    \
    TYPED("exec_id", "string", "\"minLength\":1,\"maxLength\":128,",                               \
          "Id of a command, from start_command, run_command or run_code.")
#define APPROVAL                                                                                   \
    TYPED("approval_id", "string", "\"minLength\":1,\"maxLength\":64,",                            \
          "Only to repeat a call that had to wait for a person: the id it was answered with.")
/* What every call that runs something takes. */
#define PLACE SANDBOX "," APPROVAL
