package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sqlite3 "modernc.org/sqlite/lib"
)

func open(t *testing.T, path, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?"+parameters)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(1)
	return db
}

// TestPragmasAreSet: the pragmas in the database's name are set; a pragma that SQLite cannot parse is an error.
func TestPragmasAreSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	set := func(parameters string) map[string]string {
		all := map[string]string{}
		for _, pragma := range []string{"busy_timeout", "journal_mode", "synchronous"} {
			var got string
			require.NoError(t, open(t, path, parameters).QueryRow("PRAGMA "+pragma).Scan(&got))
			all[pragma] = got
		}
		return all
	}
	require.Equal(t, map[string]string{"busy_timeout": "0", "journal_mode": "delete", "synchronous": "2"},
		set("mode=rwc"), "SQLite's defaults")
	require.Equal(t, map[string]string{"busy_timeout": "10000", "journal_mode": "wal", "synchronous": "1"},
		set("mode=rwc&cache=private&_pragma=busy_timeout%3D10000&_pragma=journal_mode%3Dwal&_pragma=synchronous%3D1&"+
			"_time_format=sqlite"))
	var e *Error
	err := open(t, path, "_pragma=journal mode").Ping()
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "the pragma journal mode: ")
	require.ErrorContains(t, open(t, path, "_pragma=%zz").Ping(), "data source name")
	require.ErrorContains(t, open(t, path, "_pragma=busy_timeout%3Dlong").Ping(), "busy_timeout")
	require.ErrorContains(t, open(t, path+".none", "mode=rw").Ping(), "no such file or directory (14)")
}

// TestErrorsHaveCodesOfDuplicates: the errors have the codes by which Temporal recognises that another writer was
// faster.
func TestErrorsHaveCodesOfDuplicates(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a.db"), "mode=rwc")
	_, err := db.Exec("CREATE TABLE a (k TEXT PRIMARY KEY, u TEXT UNIQUE)")
	require.NoError(t, err)
	_, err = db.Exec("INSERT INTO a VALUES (?, ?)", "k", "u")
	require.NoError(t, err)
	for statement, code := range map[string]int{
		"INSERT INTO a VALUES ('k', 'v')":              sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
		"INSERT INTO a VALUES ('l', 'u')":              sqlite3.SQLITE_CONSTRAINT_UNIQUE,
		"INSERT INTO a VALUES ('k', 'v') RETURNING k ": sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
	} {
		_, err := db.Exec(statement)
		var e *Error
		require.ErrorAs(t, err, &e, statement)
		require.Equal(t, code, e.Code(), statement)
		rows, err := db.Query(statement)
		if err == nil {
			require.NoError(t, rows.Close())
		}
		require.ErrorAs(t, err, &e, statement)
	}
	_, err = db.Exec("CREATE TABLE a (k TEXT)")
	require.EqualError(t, err, "SQL logic error: table a already exists (1)")
}

// TestTimesAreStoredAsTranslationStoresThem: a database that it made is used as it is.
func TestTimesAreStoredAsTranslationStoresThem(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a.db"), "mode=rwc&_time_format=sqlite")
	_, err := db.Exec("CREATE TABLE a (t TIMESTAMP)")
	require.NoError(t, err)
	want := time.Date(2026, 11, 27, 13, 14, 15, 123456000, time.UTC)
	_, err = db.Exec("INSERT INTO a VALUES (?)", want)
	require.NoError(t, err)
	var text string
	require.NoError(t, db.QueryRow("SELECT CAST(t AS TEXT) FROM a").Scan(&text))
	require.Equal(t, "2026-11-27 13:14:15.123456+00:00", text)
	var got time.Time
	require.NoError(t, db.QueryRow("SELECT t FROM a").Scan(&got))
	require.Equal(t, want, got.UTC())
}

// TestCancelledStatementSaysSo: the error of a cancelled statement is the one that Temporal compares with, and its
// connection can still be used. A statement that has to wait for another process's transaction ends with SQLITE_BUSY.
func TestCancelledStatementSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db := open(t, path, "mode=rwc")
	const long = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
	for _, run := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, long)
			return err
		},
		func(ctx context.Context) error { return db.QueryRowContext(ctx, long).Scan(new(int)) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		require.Equal(t, context.Canceled, run(ctx))
		var one int
		require.NoError(t, db.QueryRow("SELECT 1").Scan(&one))
	}
	_, err := db.Exec("BEGIN IMMEDIATE")
	require.NoError(t, err)
	_, err = open(t, path, "mode=rwc").Exec("CREATE TABLE a (k TEXT)")
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 5, e.Code(), "SQLITE_BUSY")
}

// TestOpeningWaitsForAnotherProcess: opening a database waits for another process as long as the database's name says.
func TestOpeningWaitsForAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db := open(t, path, "mode=rwc")
	_, err := db.Exec("CREATE TABLE a (k TEXT)")
	require.NoError(t, err)
	_, err = db.Exec("BEGIN EXCLUSIVE")
	require.NoError(t, err)
	var e *Error
	require.ErrorAs(t, open(t, path, "mode=rw").Ping(), &e)
	require.Equal(t, 5, e.Code(), "SQLITE_BUSY")
	time.AfterFunc(200*time.Millisecond, func() { _, _ = db.Exec("ROLLBACK") })
	require.NoError(t, open(t, path, "mode=rw&_pragma=busy_timeout%3D60000").Ping())
}

// TestNoBytesAreNULL: nil bytes are stored as NULL, and empty bytes are not.
func TestNoBytesAreNULL(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a.db"), "mode=rwc")
	_, err := db.Exec("CREATE TABLE a (b MEDIUMBLOB)")
	require.NoError(t, err)
	for _, b := range [][]byte{nil, {}, {0, 1}} {
		_, err := db.Exec("INSERT INTO a VALUES (?)", b)
		require.NoError(t, err)
	}
	var nulls, size int
	require.NoError(t, db.QueryRow("SELECT sum(b IS NULL), sum(length(b)) FROM a").Scan(&nulls, &size))
	require.Equal(t, []int{1, 2}, []int{nulls, size})
}

// TestFullTextSearch: SQLite has full-text search, which the tables of visibility use.
func TestFullTextSearch(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a.db"), "mode=rwc")
	_, err := db.Exec("CREATE VIRTUAL TABLE a USING fts5 (t)")
	require.NoError(t, err)
}
