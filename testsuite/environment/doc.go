// Package environment makes Temporal's environment for tests of workflows, whose clock is played, with a limit in real
// time that no busy machine meets.
package environment
