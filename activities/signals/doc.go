// Package signals has what a workflow says to another one within a workflow task of its own: as a command, a signal to
// another workflow has Temporal wake its sender once more.
package signals
