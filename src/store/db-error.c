/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db-error.h"

#include <errno.h>
#include <sqlite3.h>

enum error_code db_error_code(struct sqlite3 *db)
{
    bool full = sqlite3_errcode(db) == SQLITE_FULL || sqlite3_system_errno(db) == ENOSPC;
    return full ? ERROR_NO_SPACE : ERROR_INTERNAL;
}
