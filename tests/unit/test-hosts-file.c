/* SPDX-License-Identifier: Apache-2.0 */
/* Which names of a hosts file are answered without the resolver, and with which address. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "gateway/hosts-file.h"
#include "tests/unit/tap.h"

static char hosts[64], nsswitch[64];

static void write_text(const char *path, const char *text)
{
    char other[80];
    snprintf(other, sizeof(other), "%s.new", path);
    FILE *f = fopen(other, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0 || rename(other, path) < 0)
        exit(1);
}

/* The address, or "" for what is the resolver's. */
static const char *find(struct hosts_file *h, const char *name)
{
    static char text[ADDRESS_TEXT_SIZE];
    struct address a;
    text[0] = 0;
    if (hosts_file_find(h, name, &a))
        address_format(&a, text);
    return text;
}

static void test_names(struct hosts_file *h)
{
    static const struct {
        const char *name, *address;
    } rows[] = {
        {"one.test", "192.0.2.1"},  {"alias.test", "192.0.2.1"}, {"upper.test", "192.0.2.2"},
        {"last.test", "192.0.2.9"}, {"twice.test", ""},          {"six.test", ""},
        {"both.test", ""},          {"mapped.test", ""},         {"odd.test", ""},
        {"comment.test", ""},       {"none.test", ""},           {"", ""}};
    write_text(nsswitch, "passwd: files\nhosts:\tfiles dns # first\n");
    write_text(hosts, "# 192.0.2.7 comment.test\n192.0.2.1 one.test alias.test # comment.test\n\n"
                      " 192.0.2.2\tUPPER.test\r\n192.0.2.3 twice.test\n192.0.2.4 twice.test\n"
                      "::1 six.test both.test\n192.0.2.5 both.test\n::ffff:192.0.2.6 mapped.test\n"
                      "127.1 odd.test\n192.0.2.8\n192.0.2.9 last.test");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(strcmp(find(h, rows[i].name), rows[i].address) == 0, "'%s' is '%s'", rows[i].name,
           rows[i].address);
}

static void test_changes(struct hosts_file *h)
{
    write_text(hosts, "192.0.2.77 one.test\n");
    ok(strcmp(find(h, "one.test"), "192.0.2.77") == 0 && !*find(h, "alias.test"),
       "a file that has changed is read again");
    unlink(hosts);
    ok(!*find(h, "one.test"), "one that is gone has no names");
    write_text(hosts, "192.0.2.1 one.test\n");
    ok(*find(h, "one.test"), "and one that is back has them");
}

static void test_switch(struct hosts_file *h)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {{"hosts: files\n", true},
                {"hosts:files mdns4_minimal [NOTFOUND=return] dns\n", true},
                {"hosts: dns files\n", false},
                {"hosts: files [SUCCESS=merge] dns\n", false},
                {"hosts: files[SUCCESS=continue] dns\n", false},
                {"hosts: filesystem\n", false},
                {"# hosts: files\n", false},
                {"", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_text(nsswitch, rows[i].text);
        ok(!!*find(h, "one.test") == rows[i].good, "nsswitch.conf %zu", i);
    }
}

int main(void)
{
    char dir[] = "/tmp/mas-hosts-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    snprintf(hosts, sizeof(hosts), "%s/hosts", dir);
    snprintf(nsswitch, sizeof(nsswitch), "%s/nsswitch.conf", dir);
    struct hosts_file h = {.path = hosts, .switch_path = nsswitch};
    test_names(&h);
    test_changes(&h);
    test_switch(&h);
    hosts_file_done(&h);
    unlink(hosts);
    unlink(nsswitch);
    rmdir(dir);
    return tap_done();
}
