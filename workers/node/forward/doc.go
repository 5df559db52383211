// Package forward signals the entity of each VMI on this node how its domain changes. It watches the launchers that it
// is given, keeps only the newest state of each, sends it as a signal until Temporal has it, and never sends the same
// state twice in a row, unless Temporal had an outage and may have lost it. That a guest shuts down, and is off, is
// debounced: the end of its pod implies both.
package forward
