/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive descent over  sum = product {(+|-) product},  product = unary {(*|/|%) unary},
 * unary = {+|-} (number | '(' sum ')'). */
#include "toolrunner/calculator.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_LENGTH_MAX 400 /* longer literals say nothing a double could hold */

struct parser {
    const char *start, *p;
    int depth;
    char *why;
    size_t why_size;
};

static int parse_sum(struct parser *s, double *ret);

static int parser_fail(struct parser *s, const char *text)
{
    snprintf(s->why, s->why_size, "%s at position %zu", text, (size_t)(s->p - s->start) + 1);
    return -EINVAL;
}

static char peek_char(struct parser *s)
{
    while (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')
        s->p++;
    return *s->p;
}

static const char *skip_digits(const char *p)
{
    while (isdigit((unsigned char)*p))
        p++;
    return p;
}

/* The literal is delimited here, because strtod() would also take hex, "inf" and "nan". */
static int parse_number(struct parser *s, double *ret)
{
    const char *end = skip_digits(s->p);
    size_t digits = (size_t)(end - s->p);
    if (*end == '.') {
        const char *after = skip_digits(end + 1);
        digits += (size_t)(after - end - 1);
        end = after;
    }
    if (!digits)
        return parser_fail(s, *s->p ? "unexpected character" : "unexpected end of expression");
    if (*end == 'e' || *end == 'E') {
        const char *sign = end + 1 + (end[1] == '+' || end[1] == '-');
        if (isdigit((unsigned char)*sign))
            end = skip_digits(sign);
    }
    char text[NUMBER_LENGTH_MAX + 1];
    size_t len = (size_t)(end - s->p);
    if (len > NUMBER_LENGTH_MAX)
        return parser_fail(s, "number too long");
    memcpy(text, s->p, len);
    text[len] = 0;
    *ret = strtod(text, NULL);
    s->p = end;
    return 0;
}

static int parse_unary(struct parser *s, double *ret)
{
    char c = peek_char(s);
    if (c != '+' && c != '-' && c != '(')
        return parse_number(s, ret);
    if (++s->depth > CALCULATOR_DEPTH_MAX)
        return parser_fail(s, "expression nested too deeply");
    s->p++;
    int r = c == '(' ? parse_sum(s, ret) : parse_unary(s, ret);
    s->depth--;
    if (r < 0)
        return r;
    if (c == '-')
        *ret = -*ret;
    if (c != '(')
        return 0;
    if (peek_char(s) != ')')
        return parser_fail(s, "missing closing parenthesis");
    s->p++;
    return 0;
}

static int apply_operator(struct parser *s, char op, double *left, double right)
{
    if ((op == '/' || op == '%') && right == 0) {
        snprintf(s->why, s->why_size, "division by zero");
        return -EINVAL;
    }
    if (op == '*')
        *left *= right;
    else if (op == '/')
        *left /= right;
    else
        *left = fmod(*left, right);
    return 0;
}

static int parse_product(struct parser *s, double *ret)
{
    int r = parse_unary(s, ret);
    while (r >= 0) {
        char op = peek_char(s);
        if (op != '*' && op != '/' && op != '%')
            return 0;
        double right;
        s->p++;
        r = parse_unary(s, &right);
        if (r < 0)
            return r;
        r = apply_operator(s, op, ret, right);
    }
    return r;
}

static int parse_sum(struct parser *s, double *ret)
{
    int r = parse_product(s, ret);
    while (r >= 0) {
        char op = peek_char(s);
        if (op != '+' && op != '-')
            return 0;
        double right;
        s->p++;
        r = parse_product(s, &right);
        if (r >= 0)
            *ret = op == '+' ? *ret + right : *ret - right;
    }
    return r;
}

int calculator_evaluate(const char *expression, double *ret, char *why, size_t why_size)
{
    struct parser s = {expression, expression, 0, why, why_size};
    double value;
    if (strlen(expression) > CALCULATOR_LENGTH_MAX) {
        snprintf(why, why_size, "expression too long");
        return -EINVAL;
    }
    int r = parse_sum(&s, &value);
    if (r < 0)
        return r;
    if (peek_char(&s))
        return parser_fail(&s, "unexpected character");
    if (!isfinite(value)) {
        snprintf(why, why_size, "result out of range");
        return -EINVAL;
    }
    *ret = value == 0 ? 0 : value; /* no negative zero */
    return 0;
}

void calculator_format(double value, char out[CALCULATOR_NUMBER_SIZE])
{
    if (value == trunc(value) && fabs(value) < 1e15) {
        snprintf(out, CALCULATOR_NUMBER_SIZE, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, CALCULATOR_NUMBER_SIZE, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            return;
    }
}
