// Package figures lets a test suite say in one line what it did: how many cases, and how many invariants it found
// broken.
package figures
