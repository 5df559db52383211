// Package lifecycle decides what a launcher does with its guest: one table from (state, input) to (next state,
// actions). Nothing here has side effects; the launcher feeds it what happened and does what it says.
package lifecycle
