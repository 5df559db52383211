// Package schema makes the tables in the SQLite files of the server, all of them or none, and recognises a file of
// another version of the server.
package schema
