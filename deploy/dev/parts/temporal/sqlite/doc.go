// Package sqlite puts SQLite itself, compiled from C, where Temporal's plugin for SQLite imports its translation to Go:
// go.mod gives it that name. It has what the plugin asks for, and no more: the driver "sqlite", whose data source names
// carry pragmas, and errors that have SQLite's result codes. All else is done by github.com/mattn/go-sqlite3.
package sqlite
