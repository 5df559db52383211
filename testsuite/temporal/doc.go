// Package temporal tests the development cluster's Temporal server as a process of its own, on each database that it
// supports: authentication, what survives a crash, how it ends. It is a module of its own, as the server is. bench
// measures the effect of its settings.
package temporal
