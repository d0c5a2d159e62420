/* SPDX-License-Identifier: Apache-2.0 */
/* The runner, linked with --wrap=builtin_pin_named: its look at files that a command finds by their
 * names answers what the file "lie" in the command's directory says. A runner that code inside a
 * sandbox has taken over can answer all of this. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMED 600
#define PINS  20001

int __real_builtin_pin_named(int argc, char **argv);
int __wrap_builtin_pin_named(int argc, char **argv);

static void print_named(void)
{
    printf("{\"pins\":[],\"named\":[");
    for (int i = 0; i < NAMED; i++)
        printf("%s{\"at\":0,\"path\":\"/lie/%d\",\"not_pinned\":\"a lie\"}", i ? "," : "", i);
    printf("]}\n");
}

static void print_pins(void)
{
    printf("{\"named\":[],\"pins\":[");
    for (int i = 0; i < PINS; i++)
        printf("%s{\"arg\":1,\"path\":\"/lie/%d\",\"not_pinned\":\"a lie\"}", i ? "," : "", i);
    printf("]}\n");
}

int __wrap_builtin_pin_named(int argc, char **argv)
{
    char how[16] = "";
    int fd = open("lie", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, how, sizeof(how) - 1) <= 0)
        return __real_builtin_pin_named(argc, argv);
    how[strcspn(how, "\n")] = 0;
    if (strcmp(how, "named") == 0)
        print_named();
    else if (strcmp(how, "pins") == 0)
        print_pins();
    else if (strcmp(how, "garbage") == 0)
        printf("{\"pins\":[");
    else
        return 1;
    return fflush(stdout) != 0;
}
