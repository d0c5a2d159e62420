/* SPDX-License-Identifier: Apache-2.0 */
/* The calculator: values, number text, and what is refused with which words. */
#include <string.h>

#include "tests/unit/tap.h"
#include "toolrunner/calculator.h"

static const struct {
    const char *expression, *want; /* a number, or ! and a part of the message */
} cases[] = {
    {"15*8+7", "127"},
    {" 1 + 2 * 3 ", "7"},
    {"(1+2)*3", "9"},
    {"2*-3", "-6"},
    {"--5", "5"},
    {"-(2+3)", "-5"},
    {"+4", "4"},
    {"7/2", "3.5"},
    {"6/2", "3"},
    {"7%4", "3"},
    {"-7%4", "-3"},
    {"10-4-3", "3"},
    {"100/10/5", "2"},
    {".5+1.", "1.5"},
    {"0.1", "0.1"},
    {"1e3", "1000"},
    {"1.5e-3", "0.0015"},
    {"2e", "!unexpected character"},
    {"1000000*1000000", "1000000000000"},
    {"0*-1", "0"},
    {"1/3", "0.3333333333333333"},
    {"1/0", "!division by zero"},
    {"1%0", "!division by zero"},
    {"1/(2-2)", "!division by zero"},
    {"", "!unexpected end"},
    {"   ", "!unexpected end"},
    {"1+", "!unexpected end"},
    {"(1", "!missing closing"},
    {"1)", "!unexpected character"},
    {"1 2", "!unexpected character"},
    {"a", "!unexpected character"},
    {"1+*2", "!unexpected character"},
    {"0x10", "!unexpected character"},
    {"inf", "!unexpected character"},
    {"nan", "!unexpected character"},
    {".", "!unexpected character"},
    {"()", "!unexpected character"},
    {"2**3", "!unexpected character"},
    {"1e308*10", "!out of range"},
    {"system(1)", "!unexpected character"},
};

static void check(const char *expression, const char *want)
{
    double value;
    char why[128] = "", text[CALCULATOR_NUMBER_SIZE] = "";
    int r = calculator_evaluate(expression, &value, why, sizeof(why));
    if (*want == '!') {
        ok(r < 0 && strstr(why, want + 1), "'%.40s' is refused: %s", expression, why);
        return;
    }
    if (r == 0)
        calculator_format(value, text);
    ok(r == 0 && !strcmp(text, want), "'%.40s' is %s: %s%s", expression, want, text, why);
}

static void check_repeated(char c, size_t n, const char *want)
{
    static char text[20002];
    memset(text, c, n);
    text[n] = '1';
    text[n + 1] = 0;
    check(text, want);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check(cases[i].expression, cases[i].want);
    check_repeated('-', 100, "1");
    check_repeated('-', 5000, "!too deeply");
    check_repeated('(', 5000, "!too deeply");
    check_repeated('1', 20000, "!too long");
    check_repeated('1', 5000, "!too long");
    return tap_done();
}
