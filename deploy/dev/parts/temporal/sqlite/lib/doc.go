// Package sqlite3 has the result codes by which Temporal recognises a duplicate: https://www.sqlite.org/rescode.html
package sqlite3
