// Package signals has the local activity by which a workflow signals another one within a workflow task of its own: as
// a command, a signal to another workflow makes Temporal run one more task of its sender.
package signals
