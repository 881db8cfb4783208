/* SPDX-License-Identifier: Apache-2.0 */
#include "box/inner.h"

/* Small texts that are kept for tenants: see box.h. */

void kept_put(struct tenant *tenant, const char *name, const char *text, int64_t until_ms,
	      void (*done)(int code, void *data), void *data)
{
	db_write(tenant->house->db, DB_FIRM, done, data,
		 "INSERT OR REPLACE INTO kept(tenant, name, until_ms, text) VALUES(?,?,?,?)", "ssis",
		 tenant->id, name, until_ms, text);
}

void kept_find(struct tenant *tenant, const char *name,
	       void (*found)(int code, const char *text, size_t size, void *data), void *data)
{
	db_find(tenant->house->db, found, data,
		"SELECT text FROM kept WHERE tenant = ? AND name = ? AND until_ms > ?", "ssi",
		tenant->id, name, house_now_ms());
}

void kept_remove(struct tenant *tenant, const char *name)
{
	db_write(tenant->house->db, DB_SOON, NULL, NULL,
		 "DELETE FROM kept WHERE tenant = ? AND name = ?", "ss", tenant->id, name);
}

/* Now and then: what is over, and of each tenant what is too much. */
void kept_tick(struct house *house)
{
	db_write(house->db, DB_SOON, NULL, NULL, "DELETE FROM kept WHERE until_ms <= ?", "i",
		 house_now_ms());
	for (const struct house_tenant *tenant = house->tenants; tenant; tenant = tenant->next)
		db_write(house->db, DB_SOON, NULL, NULL,
			 "DELETE FROM kept WHERE tenant = ?1 AND until_ms < (SELECT until_ms FROM "
			 "kept WHERE tenant = ?1 ORDER BY until_ms DESC LIMIT 1 OFFSET 100000)",
			 "s", tenant->tenant.id);
}
