/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on doubles: + - * / % ( ) unary + and -, decimals with exponents. */
#pragma once

#include <stddef.h>

#define CALCULATOR_DEPTH_MAX  200   /* nested parentheses and signs */
#define CALCULATOR_LENGTH_MAX 10000 /* bytes of an expression */

/* 0, or -EINVAL with a message in why. */
int calculator_evaluate(const char *expression, double *ret, char *why, size_t why_size);

#define CALCULATOR_NUMBER_SIZE 40
/* The shortest text that reads back as the same number; whole numbers have no point. */
void calculator_format(double value, char out[CALCULATOR_NUMBER_SIZE]);
