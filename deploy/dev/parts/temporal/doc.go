// Command virtflow-temporal is Temporal's real server for development, with its UI, in one process: SQLite on disk,
// mutual TLS on every connection, tuned by temporal-dev.yaml.
package main
