/* SPDX-License-Identifier: Apache-2.0 */
/* The schema words that tools may use: what each takes, what it refuses, and how it says so. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "mcp/schema.h"
#include "tests/unit/tap.h"

static json_t *parse(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!v) {
        printf("Bail out! bad JSON in the test: %s\n", text);
        exit(1);
    }
    return v;
}

/* says: a part of the message, or NULL where the value is right. */
static void check(const char *schema_text, const char *value_text, const char *says)
{
    struct error err = {0};
    _cleanup_json_ json_t *schema_json = parse(schema_text);
    _cleanup_json_ json_t *value = parse(value_text);
    struct schema *s = schema_compile(schema_json, &err);
    int r = s ? schema_check(s, value, "arguments", &err) : -1;
    bool good = s && (says ? r < 0 && strstr(err.message, says) : r == 0);
    ok(good, "%s: %s %s", schema_text, value_text, says ? "is refused" : "is taken");
    if (!good)
        printf("# '%s'\n", err.message);
    schema_free(s);
}

static void refuse(const char *schema_text)
{
    struct error err = {0};
    _cleanup_json_ json_t *schema_json = parse(schema_text);
    struct schema *s = schema_compile(schema_json, &err);
    ok(!s && error_is_set(&err), "%.60s is no schema", schema_text);
    schema_free(s);
}

static void test_types(void)
{
    check("{}", "[1,{}]", NULL);
    check("{\"type\":\"integer\"}", "3", NULL);
    check("{\"type\":\"integer\"}", "3.0", NULL);
    check("{\"type\":\"integer\"}", "3.5", "a whole number");
    check("{\"type\":\"number\"}", "3", NULL);
    check("{\"type\":\"number\"}", "true", "must be a number");
    check("{\"type\":\"boolean\"}", "false", NULL);
    check("{\"type\":\"boolean\"}", "0", "true or false");
    check("{\"type\":[\"string\",\"null\"]}", "null", NULL);
    check("{\"type\":[\"string\",\"null\"]}", "{}", "null or a string");
    check("{\"type\":\"object\"}", "[]", "an object");
    check("{\"type\":\"array\"}", "{}", "an array");
}

static void test_values(void)
{
    check("{\"enum\":[\"a\",\"b\"]}", "\"b\"", NULL);
    check("{\"enum\":[\"a\",\"b\"]}", "\"c\"", "one of \"a\", \"b\"");
    check("{\"const\":7}", "7", NULL);
    check("{\"const\":7}", "8", "one of 7");
    check("{\"minimum\":1,\"maximum\":2}", "1", NULL);
    check("{\"minimum\":1}", "0.5", "at least 1");
    check("{\"maximum\":2}", "3", "at most 2");
    check("{\"minLength\":2}", "\"\\u00e4\"", "at least 2");
    check("{\"maxLength\":2}", "\"\\u00e4\\u00e4\"", NULL);
    check("{\"maxLength\":1}", "\"ab\"", "2 characters");
    check("{\"minLength\":1}", "\"\"", "not be empty");
}

#define PERSON                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"       \
    "\"integer\"}},\"required\":[\"name\"],\"additionalProperties\":false}"

static void test_containers(void)
{
    check(PERSON, "{\"name\":\"x\",\"age\":3}", NULL);
    check(PERSON, "{\"age\":3}", "lacks 'name'");
    check(PERSON, "{\"name\":\"x\",\"agee\":3}", "no member 'agee'; it takes: name, age");
    check(PERSON, "{\"name\":\"x\",\"age\":\"3\"}", "'arguments.age' must be a whole number");
    check("{\"properties\":{\"a\":{}}}", "{\"b\":1}", NULL);
    check("{\"additionalProperties\":{\"type\":\"string\"}}", "{\"b\":1}", "arguments.b");
    check("{\"items\":{\"type\":\"string\"}}", "[\"a\",1]", "'arguments[1]' must be a string");
    check("{\"minItems\":1}", "[]", "0 items");
    check("{\"maxItems\":1}", "[1,2]", "2 items");
    check("{\"items\":" PERSON "}", "[{\"name\":\"x\"},{}]", "'arguments[1]' lacks 'name'");
}

static void test_schemas(void)
{
    refuse("[]");
    refuse("{\"type\":\"text\"}");
    refuse("{\"type\":[]}");
    refuse("{\"oneOf\":[]}");
    refuse("{\"properties\":{\"a\":{\"pattern\":\"x\"}}}");
    refuse("{\"properties\":[]}");
    refuse("{\"required\":[1]}");
    refuse("{\"enum\":[]}");
    refuse("{\"minimum\":\"1\"}");
    refuse("{\"maxLength\":-1}");
    char deep[400] = "";
    for (int i = 0; i < SCHEMA_DEPTH_MAX + 2; i++)
        strcat(deep, "{\"items\":");
    strcat(deep, "{}");
    for (int i = 0; i < SCHEMA_DEPTH_MAX + 2; i++)
        strcat(deep, "}");
    refuse(deep);
}

int main(void)
{
    test_types();
    test_values();
    test_containers();
    test_schemas();
    return tap_done();
}
