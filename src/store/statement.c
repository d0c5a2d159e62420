/* SPDX-License-Identifier: Apache-2.0 */
#include "store/statement.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>

/* The connection's own list is the place where they are kept. It has some thirty, the newest
 * first. */
sqlite3_stmt *statement_get(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    while ((stmt = sqlite3_next_stmt(db, stmt)))
        if (strcmp(sqlite3_sql(stmt), sql) == 0)
            return stmt;
    sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    return stmt;
}

int statement_run(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = statement_get(db, sql);
    if (!stmt)
        return -EIO;
    int step = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    return step == SQLITE_DONE ? 0 : -EIO;
}

void statements_free(sqlite3 *db)
{
    sqlite3_stmt *stmt;
    while ((stmt = sqlite3_next_stmt(db, NULL)))
        sqlite3_finalize(stmt);
}
