// Package schema makes the tables in the SQLite files of the server, all of them or none, and tells a file made by
// another version of the server from its own.
package schema
