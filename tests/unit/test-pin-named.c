/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of the runner's look at files that a command finds by their names: how many entries,
 * how many directories above, how many bytes. What is over a bound is said, never left out. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "tests/unit/tap.h"
#include "toolrunner/builtin.h"
#include "toolrunner/pin.h"
#include "toolrunner/tree.h"

#define ENTRIES 256 /* as docs/architecture/limits.md says */
#define LEVELS  32
#define FILES   300
#define MIB     (1 << 20)

static char root[] = "/tmp/mas-pins-XXXXXX";

static void require(bool good, const char *what)
{
    if (good)
        return;
    ok(false, "%s", what);
    exit(tap_done());
}

static void make_file(const char *name, off_t size)
{
    _cleanup_close_ int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    require(fd >= 0 && ftruncate(fd, size) == 0, "make a file");
}

/* What the builtin prints for looks of (start, form), in the directory of the test. */
static json_t *look(char *const *starts, char *const *forms, size_t n)
{
    char number[24];
    char **argv = xcalloc(2 * n + 5, sizeof(*argv));
    size_t at = 0;
    snprintf(number, sizeof(number), "%zu", n);
    argv[at++] = (char *)"pin-named";
    argv[at++] = (char *)"/bin";
    argv[at++] = number;
    for (size_t i = 0; i < n; i++) {
        argv[at++] = starts[i];
        argv[at++] = forms[i];
    }
    argv[at++] = (char *)"true";
    fflush(stdout);
    int kept = dup(1), fd = open("answer", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(fd, 1);
    int code = builtin_pin_named((int)at, argv);
    dup2(kept, 1);
    close(kept);
    close(fd);
    free(argv);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64 * MIB);
    fd_read_file_at(AT_FDCWD, "answer", &text);
    json_t *answer = code == 0 ? json_loadb(text.data, text.len, 0, NULL) : NULL;
    ok(answer && json_is_array(json_object_get(answer, "pins")),
       "%zu looks: the program is pinned with them", n);
    return answer;
}

static size_t n_named(const json_t *answer)
{
    return json_array_size(json_object_get(answer, "named"));
}

static bool says_more(const json_t *answer)
{
    return json_is_true(json_object_get(answer, "more"));
}

static void test_entries(void)
{
    char *starts[FILES], *forms[FILES];
    for (int i = 0; i < FILES; i++) {
        starts[i] = (char *)"";
        forms[i] = xasprintf("-file%d", i);
        make_file(forms[i] + 1, 1);
    }
    _cleanup_json_ json_t *few = look(starts, forms, ENTRIES), *all = look(starts, forms, FILES);
    ok(n_named(few) == ENTRIES && !says_more(few), "%d files are all listed", ENTRIES);
    ok(n_named(all) == ENTRIES && says_more(all), "of %d files %zu are listed, and it says so",
       FILES, n_named(all));
    for (int i = 0; i < FILES; i++) {
        unlink(forms[i] + 1);
        free(forms[i]);
    }
}

static void test_levels(void)
{
    char deep[PATH_MAX] = ".";
    make_file("above", 1);
    for (int i = 0; i < LEVELS + 8; i++) {
        snprintf(deep + strlen(deep), 3, "/d");
        require(mkdir(deep, 0755) == 0, "make a directory");
    }
    deep[1 + 2 * (LEVELS - 1)] = 0;
    char *form = (char *)"^above", *near = xstrdup(deep);
    snprintf(deep + strlen(deep), 3, "/d");
    char *far = deep;
    _cleanup_json_ json_t *found = look(&near, &form, 1), *missed = look(&far, &form, 1);
    ok(n_named(found) == 1, "a file %d directories above is found", LEVELS - 1);
    ok(n_named(missed) == 0 && says_more(missed), "one that is %d above is not, and it says so",
       LEVELS);
    free(near);
}

static const char *reason_of(const json_t *answer, size_t i)
{
    const json_t *entry = json_array_get(json_object_get(answer, "named"), i);
    return json_member_text(entry, "not_pinned");
}

static void test_bytes(void)
{
    char *starts[6], *forms[6];
    for (int i = 0; i < 6; i++) {
        starts[i] = (char *)"";
        forms[i] = xasprintf("-big%d", i);
        make_file(forms[i] + 1, i == 5 ? PIN_BYTES_MAX + 1 : 15 * MIB);
    }
    _cleanup_json_ json_t *four = look(starts, forms, 4), *five = look(starts, forms, 5),
                          *one = look(starts, forms + 5, 1);
    ok(n_named(four) == 4 && !*reason_of(four, 3), "60 MiB are hashed");
    ok(n_named(five) == 5 && strcmp(reason_of(five, 4), "too large") == 0,
       "of 75 MiB the last file is listed without a hash: '%s'", reason_of(five, 4));
    ok(n_named(one) == 1 && strcmp(reason_of(one, 0), "too large") == 0,
       "a file of more than 16 MiB is listed without a hash: '%s'", reason_of(one, 0));
    for (int i = 0; i < 6; i++)
        free(forms[i]);
}

int main(void)
{
    require(mkdtemp(root) && chdir(root) == 0, "make the directory of the test");
    test_entries();
    test_levels();
    test_bytes();
    require(chdir("/") == 0, "leave it");
    tree_remove(root);
    return tap_done();
}
