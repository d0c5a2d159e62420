/* SPDX-License-Identifier: Apache-2.0 */
/* What SQLite's last failure means to the caller. */
#pragma once

#include "base/error.h"

struct sqlite3;

/* ERROR_NO_SPACE for a full disk, which passes; else ERROR_INTERNAL. */
enum error_code db_error_code(struct sqlite3 *db);
