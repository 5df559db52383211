// Package lifecycle decides what a launcher does with its guest: one table from (state, input) to (next state, action).
// It has no side effects; the launcher feeds the inputs and carries out the actions.
package lifecycle
