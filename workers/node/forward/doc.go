// Package forward tells the entity of each VMI on this node how its domain changes. It watches the launchers that it is
// told of, keeps of each only the newest state, sends it as a signal until Temporal has it, and never sends the same
// twice in a row, unless Temporal was away and may have forgotten it. That a guest goes down, and is off, waits a
// little: the end of its pod says all of it.
package forward
