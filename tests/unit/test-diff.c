/* SPDX-License-Identifier: Apache-2.0 */
/* What a person is shown of a write, and the hash that pins what runs. */
#include <openssl/evp.h>
#include <string.h>

#include "base/sha256.h"
#include "base/strbuf.h"
#include "guard/diff.h"
#include "tap.h"

static void check_diff(const char *before, const char *after, const char *want, const char *what)
{
    struct strbuf b = STRBUF_INIT(65536);
    int r = diff_lines(before, strlen(before), after, strlen(after), &b);
    ok(r >= 0 && b.data && strcmp(b.data, want) == 0, "%s", what);
    if (!b.data || strcmp(b.data, want) != 0)
        printf("# got:\n%s", b.data ? b.data : "(nothing)\n");
    strbuf_done(&b);
}

static void test_diff(void)
{
    check_diff("", "a\nb\n", "@@ -1,0 +1,2 @@\n+a\n+b\n", "a new file");
    check_diff("a\n", "", "@@ -1,1 +1,0 @@\n-a\n", "an emptied file");
    check_diff("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n", "a changed line");
    check_diff("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n6\n7\n", "@@ -4,3 +4,4 @@\n 4\n 5\n 6\n+7\n",
               "three lines around it");
    check_diff("a\nb\nc\nd\n", "b\nc\nx\nd\n", "@@ -1,4 +1,4 @@\n-a\n b\n c\n+x\n d\n",
               "what both have stays");
    check_diff("a\nb", "a\nc", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "no newline at the end");
    struct strbuf small = STRBUF_INIT(20);
    ok(diff_lines("", 0, "many\nlines\nof\ntext\n", 20, &small) < 0, "too much for its room");
    strbuf_done(&small);
}

/* Against another implementation, at every length around the block's edges and in every split. */
static void test_sha256(void)
{
    static char data[300];
    unsigned char want[EVP_MAX_MD_SIZE], got[SHA256_SIZE];
    bool same = true;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 7 + 3);
    for (size_t len = 0; len <= sizeof(data); len++) {
        struct sha256 s;
        EVP_Digest(data, len, want, NULL, EVP_sha256(), NULL);
        sha256_init(&s);
        sha256_update(&s, data, len / 3);
        sha256_update(&s, data + len / 3, len - len / 3);
        sha256_final(&s, got);
        same = same && memcmp(got, want, sizeof(got)) == 0;
    }
    ok(same, "SHA-256 of 0 to %zu bytes", sizeof(data));
    char hex[SHA256_HEX_SIZE];
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, "abc", 3);
    sha256_final(&s, got);
    sha256_hex(got, hex);
    ok(strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0,
       "the standard's own example");
}

int main(void)
{
    test_diff();
    test_sha256();
    return tap_done();
}
