/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the system call filter of sandboxes as C, for a runner that puts it on by itself
 * (toolrunner/own-filter.h): it is static and has no libseccomp. Runs while the project is built.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "filter/filter-table.h"
#include "filter/filter.h"

static int print_filter(const char *name, const struct syscall_table *table)
{
    struct sock_fprog program = {0};
    struct error err = {0};
    if (filter_compile(table, &program, &err) < 0) {
        fprintf(stderr, "write-filters: %s\n", err.message);
        return -1;
    }
    printf("static const struct sock_filter %s[] = {\n", name);
    for (unsigned i = 0; i < program.len; i++) {
        const struct sock_filter *f = &program.filter[i];
        printf("    {0x%x, %u, %u, 0x%x},\n", f->code, f->jt, f->jf, f->k);
    }
    printf("};\n");
    filter_done(&program);
    return 0;
}

int main(void)
{
    printf("#include <linux/filter.h>\n#include \"toolrunner/own-filter.h\"\n");
    if (print_filter("whole", &filter_sandbox) < 0 ||
        print_filter("nesting", &filter_sandbox_nesting) < 0)
        return EXIT_FAILURE;
    printf("const struct sock_fprog own_filter_whole = {\n"
           "    sizeof(whole) / sizeof(whole[0]), (struct sock_filter *)whole};\n"
           "const struct sock_fprog own_filter_nesting = {\n"
           "    sizeof(nesting) / sizeof(nesting[0]), (struct sock_filter *)nesting};\n");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
