/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration from hostile text: as YAML, as flags, as variables, as the hand-over. What was
 * accepted must survive both ways out and back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BUFFER_MAX (4 * 1024 * 1024)
#define LINES_MAX  64

static void expect(bool good)
{
    if (!good)
        abort();
}

static void check_wire(const struct config *c)
{
    _cleanup_strbuf_ struct strbuf wire = STRBUF_INIT(BUFFER_MAX), again = STRBUF_INIT(BUFFER_MAX);
    struct config copy;
    config_init(&copy);
    expect(config_serialize(c, &wire) == 0);
    expect(config_deserialize(&copy, wire.data, wire.len, NULL) == 0);
    expect(config_serialize(&copy, &again) == 0);
    expect(again.len == wire.len && memcmp(again.data, wire.data, wire.len) == 0);
    config_done(&copy);
}

static void check_print(const struct config *c)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BUFFER_MAX), again = STRBUF_INIT(BUFFER_MAX);
    struct config copy;
    struct config_problems p;
    config_init(&copy);
    config_problems_init(&p);
    expect(config_print(c, &text) == 0);
    if (text.len <= CONFIG_FILE_MAX) {
        config_load_yaml(&copy, "printed", text.data, text.len, &p);
        expect(p.n_errors == 0);
        expect(config_print(&copy, &again) == 0);
        expect(strcmp(text.data, again.data) == 0);
    }
    config_problems_done(&p);
    config_done(&copy);
}

static void fuzz_yaml(const char *text, size_t len)
{
    struct config c;
    struct config_problems p;
    config_init(&c);
    config_problems_init(&p);
    config_load_yaml(&c, "fuzz", text, len, &p);
    check_wire(&c);
    check_print(&c);
    config_check(&c, &p);
    config_done(&c);
    config_problems_done(&p);
}

static void fuzz_lines(const char *text)
{
    struct config c;
    struct config_problems p;
    struct config_args args;
    char name[] = "mas-sandboxd", *argv[LINES_MAX + 2] = {name};
    _cleanup_free_ char *copy = xstrdup(text);
    int argc = 1;
    for (char *rest = copy, *line; argc <= LINES_MAX && (line = strsep(&rest, "\n"));)
        argv[argc++] = line;
    config_init(&c);
    config_problems_init(&p);
    config_load_env(&c, argv, &p);
    config_args_scan(argc, argv, &args, &p);
    config_load_args(&c, argc, argv, &p);
    check_wire(&c);
    config_args_hide(argc, argv);
    config_done(&c);
    config_problems_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c;
    _cleanup_free_ char *text = xstrndup((const char *)data, size);
    fuzz_yaml((const char *)data, size);
    fuzz_lines(text);
    config_init(&c);
    config_deserialize(&c, (const char *)data, size, NULL);
    config_done(&c);
    return 0;
}
