//go:build !sqlite_fts5

package sqlite

// Without full-text search a program would fail only when it makes the tables of visibility.
var _ = buildItWithTheTag_sqlite_fts5
