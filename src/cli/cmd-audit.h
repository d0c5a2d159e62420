/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of 'sbx audit' that have a file of their own. */
#pragma once

struct args;

int cmd_audit_verify(const struct args *a);
