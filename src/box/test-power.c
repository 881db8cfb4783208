/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "box/db.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * The database and a loss of power
 *
 * SQLite's files are written by way of a layer that knows what has reached the disk: what was
 * there at the last sync, and each piece that was written since. A loss of power is then a copy
 * with any of those pieces, in any order and torn at sectors, or with none. From each such copy the
 * database has to open whole, with all that was told to be firm.
 */

#define SECTOR 512

struct piece {
	sqlite3_int64 at;
	int size; /* -1: the file was cut at `at` */
	unsigned char *data;
	struct piece *next;
};

/* One file, whoever has it open. */
struct disk {
	char path[PATH_MAX];
	unsigned char *data; /* at the last sync */
	size_t size;
	struct piece *pieces, **last;
	struct disk *next;
};

struct file {
	sqlite3_file base;
	struct disk *disk; /* NULL: nothing that has to survive */
	sqlite3_file *real;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct disk *disks;
static sqlite3_vfs *usual, layer;
static unsigned n_syncs;
static char path[PATH_MAX], copy[PATH_MAX]; /* the database; what a loss of power leaves of it */

/* ---- what is on the disk ---- */

static void put(unsigned char **data, size_t *size, sqlite3_int64 at, const void *bytes, size_t n)
{
	if (*size < (size_t)at + n) {
		*data = realloc(*data, (size_t)at + n);
		memset(*data + *size, 0, (size_t)at + n - *size);
		*size = (size_t)at + n;
	}
	memcpy(*data + at, bytes, n);
}

static void add(struct disk *disk, sqlite3_int64 at, int size, const void *data)
{
	struct piece *piece = calloc(1, sizeof *piece);

	*piece = (struct piece){
		.at = at, .size = size, .data = size > 0 ? malloc((size_t)size) : NULL};
	if (size > 0)
		memcpy(piece->data, data, (size_t)size);
	*disk->last = piece;
	disk->last = &piece->next;
}

static void settle(struct disk *disk)
{
	for (struct piece *at = disk->pieces, *next; at; at = next) {
		next = at->next;
		if (at->size < 0)
			disk->size = (size_t)at->at < disk->size ? (size_t)at->at : disk->size;
		else
			put(&disk->data, &disk->size, at->at, at->data, (size_t)at->size);
		free(at->data);
		free(at);
	}
	disk->pieces = NULL;
	disk->last = &disk->pieces;
}

static void forget_disks(void)
{
	while (disks) {
		struct disk *next = disks->next;

		settle(disks);
		free(disks->data);
		free(disks);
		disks = next;
	}
}

static struct disk *disk_of(const char *name)
{
	struct disk *disk = disks;

	while (disk && strcmp(disk->path, name) != 0)
		disk = disk->next;
	if (disk)
		return disk;
	disk = calloc(1, sizeof *disk);
	snprintf(disk->path, sizeof disk->path, "%s", name);
	disk->last = &disk->pieces;
	disk->next = disks;
	disks = disk;
	return disk;
}

/* ---- the layer ---- */

#define REAL(file_) (((struct file *)(file_))->real)
#define PASS(name_, call_, ...)                                                                    \
	static int name_(__VA_ARGS__)                                                              \
	{                                                                                          \
		return REAL(file)->pMethods->call_;                                                \
	}

PASS(file_read, xRead(REAL(file), data, size, at), sqlite3_file *file, void *data, int size,
     sqlite3_int64 at)
PASS(file_size, xFileSize(REAL(file), ret), sqlite3_file *file, sqlite3_int64 *ret)
PASS(file_lock, xLock(REAL(file), how), sqlite3_file *file, int how)
PASS(file_unlock, xUnlock(REAL(file), how), sqlite3_file *file, int how)
PASS(file_is_reserved, xCheckReservedLock(REAL(file), ret), sqlite3_file *file, int *ret)
PASS(file_control, xFileControl(REAL(file), what, data), sqlite3_file *file, int what, void *data)
PASS(file_sector, xSectorSize(REAL(file)), sqlite3_file *file)
PASS(file_traits, xDeviceCharacteristics(REAL(file)), sqlite3_file *file)
PASS(file_shm_map, xShmMap(REAL(file), page, size, extends, ret), sqlite3_file *file, int page,
     int size, int extends, void volatile **ret)
PASS(file_shm_lock, xShmLock(REAL(file), at, n, flags), sqlite3_file *file, int at, int n,
     int flags)
PASS(file_shm_unmap, xShmUnmap(REAL(file), removes), sqlite3_file *file, int removes)

static void file_shm_barrier(sqlite3_file *file)
{
	REAL(file)->pMethods->xShmBarrier(REAL(file));
}

static int file_close(sqlite3_file *file)
{
	return REAL(file)->pMethods ? REAL(file)->pMethods->xClose(REAL(file)) : SQLITE_OK;
}

static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
	struct disk *disk = ((struct file *)file)->disk;
	int r;

	pthread_mutex_lock(&mutex);
	r = REAL(file)->pMethods->xWrite(REAL(file), data, size, at);
	if (disk)
		add(disk, at, size, data);
	pthread_mutex_unlock(&mutex);
	return r;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	struct disk *disk = ((struct file *)file)->disk;
	int r;

	pthread_mutex_lock(&mutex);
	r = REAL(file)->pMethods->xTruncate(REAL(file), size);
	if (disk)
		add(disk, size, -1, NULL);
	pthread_mutex_unlock(&mutex);
	return r;
}

/* The real one need not wait for a disk. */
static int file_sync(sqlite3_file *file, int flags)
{
	struct disk *disk = ((struct file *)file)->disk;

	(void)flags;
	pthread_mutex_lock(&mutex);
	if (disk)
		settle(disk);
	n_syncs += disk != NULL;
	pthread_mutex_unlock(&mutex);
	return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_is_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_traits,
	.xShmMap = file_shm_map,
	.xShmLock = file_shm_lock,
	.xShmBarrier = file_shm_barrier,
	.xShmUnmap = file_shm_unmap,
};

static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *ret)
{
	struct file *file = (struct file *)base;
	int r;

	(void)vfs;
	file->base.pMethods = NULL;
	file->real = (sqlite3_file *)(file + 1);
	file->disk = NULL;
	r = usual->xOpen(usual, name, file->real, flags, ret);
	if (r != SQLITE_OK)
		return r;
	pthread_mutex_lock(&mutex);
	if (name && strncmp(name, path, strlen(path)) == 0 &&
	    flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL))
		file->disk = disk_of(name);
	pthread_mutex_unlock(&mutex);
	file->base.pMethods = &methods;
	return SQLITE_OK;
}

static void begin_layer(void)
{
	usual = sqlite3_vfs_find(NULL);
	layer = *usual;
	layer.zName = "power";
	layer.szOsFile = (int)sizeof(struct file) + usual->szOsFile;
	layer.xOpen = layer_open;
	layer.pNext = NULL;
	CHECK(sqlite3_vfs_register(&layer, 1) == SQLITE_OK);
}

static void end_layer(void)
{
	sqlite3_vfs_unregister(&layer);
	sqlite3_vfs_register(usual, 1);
	forget_disks();
}

/* ---- a loss of power ---- */

enum luck {
	LUCK_NONE,    /* nothing but what was synced */
	LUCK_ORDERED, /* and some of what came first */
	LUCK_ANY,     /* and anything, torn */
	LUCKS,
};

static unsigned seed = 1;

static unsigned chance(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static void put_torn(unsigned char **data, size_t *size, const struct piece *piece)
{
	for (int at = 0; at < piece->size; at += SECTOR) {
		int n = piece->size - at < SECTOR ? piece->size - at : SECTOR;

		if (chance(2))
			put(data, size, piece->at + at, piece->data + at, (size_t)n);
	}
}

static void write_disk(const struct disk *disk, enum luck luck, const char *to)
{
	unsigned char *data = malloc(disk->size + 1);
	size_t size = disk->size, n = 0, most;
	FILE *file;

	memcpy(data, disk->data ? disk->data : (unsigned char *)"", disk->size);
	for (const struct piece *at = disk->pieces; at; at = at->next)
		n++;
	most = luck == LUCK_NONE ? 0 : luck == LUCK_ORDERED ? chance((unsigned)n + 1) : n;
	for (const struct piece *at = disk->pieces; at && most-- > 0; at = at->next) {
		if (luck == LUCK_ANY && chance(2) && at->size > 0)
			put_torn(&data, &size, at);
		else if (at->size < 0)
			size = (size_t)at->at < size ? (size_t)at->at : size;
		else
			put(&data, &size, at->at, at->data, (size_t)at->size);
	}
	file = fopen(to, "w");
	CHECK(file && fwrite(data, 1, size, file) == size);
	fclose(file);
	free(data);
}

static void lose_power(enum luck luck)
{
	char to[PATH_MAX + 8];

	pthread_mutex_lock(&mutex);
	for (const struct disk *disk = disks; disk; disk = disk->next) {
		snprintf(to, sizeof to, "%s%s", copy, disk->path + strlen(path));
		write_disk(disk, luck, to);
	}
	pthread_mutex_unlock(&mutex);
}

/* ---- the database ---- */

#define NAME_SIZE 3000 /* so that the log is soon long enough to be moved into the database */

static struct loop loop;
static int firm[4096], n_firm, n_wanted, n_told;

static void told(int code, void *data)
{
	CHECK_INT(code, 0);
	if (data)
		firm[n_firm++] = (int)(intptr_t)data;
	if (++n_told == n_wanted)
		loop_stop(&loop);
}

static void write_row(struct db *db, int number, enum db_rank rank)
{
	char name[NAME_SIZE];

	snprintf(name, sizeof name, "%08d%0*d", number, NAME_SIZE - 16, 0);
	n_wanted++;
	db_write(db, rank, told, rank == DB_FIRM ? (void *)(intptr_t)number : NULL,
		 "INSERT INTO usage VALUES(?,1,1,1,1,?)", "si", name, (int64_t)number);
}

static const char *ask(sqlite3 *db, const char *sql)
{
	static char text[256];
	sqlite3_stmt *statement = NULL;

	CHECK(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
	CHECK(sqlite3_step(statement) == SQLITE_ROW);
	snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	return text;
}

static bool rows[4096];

static void read_rows(sqlite3 *db)
{
	sqlite3_stmt *statement = NULL;
	int r;

	memset(rows, 0, sizeof rows);
	CHECK(sqlite3_prepare_v2(db, "SELECT steps FROM usage", -1, &statement, NULL) == SQLITE_OK);
	while ((r = sqlite3_step(statement)) == SQLITE_ROW)
		rows[sqlite3_column_int(statement, 0)] = true;
	CHECK_INT(r, SQLITE_DONE);
	sqlite3_finalize(statement);
}

static void clear_copy(void)
{
	static const char *const ends[] = {"", "-wal", "-shm"};
	char name[PATH_MAX + 8];

	for (size_t i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "%s%s", copy, ends[i]);
		unlink(name);
	}
}

/* What a daemon finds that is started on the copy. */
static void read_copy(void)
{
	struct atoll_error err = {0};
	struct db *db = NULL;
	sqlite3 *plain;

	if (db_open(copy, NULL, &db, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	db_close(db);
	CHECK(sqlite3_open_v2(copy, &plain, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK);
	CHECK_STR(ask(plain, "PRAGMA integrity_check"), "ok");
	read_rows(plain);
	sqlite3_close(plain);
	clear_copy();
}

static struct db *begin(void)
{
	struct atoll_error err = {0};
	struct db *db = NULL;

	close(test_tempdir());
	snprintf(path, sizeof path, "%s/state.db", test_tempdir_path());
	snprintf(copy, sizeof copy, "%s/copy.db", test_tempdir_path());
	n_firm = n_wanted = n_told = 0;
	begin_layer();
	CHECK(loop_init(&loop) == 0);
	if (db_open(path, &loop, &db, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return db;
}

static void finish(struct db *db)
{
	db_close(db);
	loop_done(&loop);
	end_layer();
}

TEST(a_loss_of_power_takes_nothing_that_was_told_to_be_firm)
{
	struct db *db = begin();
	int number = 0;

	for (int round = 0; round < 60; round++) {
		int n_before;

		for (int i = 0; i < 20; i++)
			write_row(db, ++number, chance(4) ? DB_SOON : DB_FIRM);
		/* In the middle of it, as likely as at its end. */
		if (chance(2))
			loop_run(&loop);
		n_before = n_firm;
		lose_power((enum luck)(round % LUCKS));
		read_copy();
		for (int i = 0; i < n_before; i++) {
			if (!rows[firm[i]])
				test_fail(__FILE__, __LINE__, "row %d of %d is lost", firm[i],
					  number);
		}
		if (n_told < n_wanted)
			loop_run(&loop);
	}
	CHECK(n_firm > 100);
	finish(db);
}

static unsigned count_syncs(void)
{
	unsigned n;

	pthread_mutex_lock(&mutex);
	n = n_syncs;
	pthread_mutex_unlock(&mutex);
	return n;
}

TEST(what_is_to_be_there_soon_is_on_the_disk_a_little_later)
{
	struct db *db = begin();
	unsigned before;
	bool was_synced;

	write_row(db, 1, DB_FIRM);
	loop_run(&loop);
	before = count_syncs();
	write_row(db, 2, DB_SOON);
	loop_run(&loop);
	lose_power(LUCK_NONE);
	was_synced = count_syncs() != before;
	read_copy();
	CHECK(rows[1]);
	/* Unless this machine has slept: without a sync it is not there, which is what these tests
	 * rest on. */
	CHECK(was_synced || !rows[2]);
	for (int i = 0; i < 6000 && count_syncs() == before; i++)
		usleep(10000);
	lose_power(LUCK_NONE);
	read_copy();
	CHECK(rows[2]);
	finish(db);
}
