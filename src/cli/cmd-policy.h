/* Between the files of sbx policy. */
#pragma once

/* Prints a policy made of a Claude Code settings file; says on stderr what it could not translate.
 * Returns the exit code. */
int policy_import(const char *path);
