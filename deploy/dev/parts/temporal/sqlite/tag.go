//go:build !sqlite_fts5

package sqlite

// The tables of visibility have full-text search, of which a program without it would hear when it makes them.
var _ = buildItWithTheTag_sqlite_fts5
