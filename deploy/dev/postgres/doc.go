// Package postgres runs Debian's PostgreSQL as the database of the development cluster's Temporal: as a user of its
// own, with its data in the state folder, reachable by a Unix socket only.
package postgres
