// Package checkout finds the repository of the running program or test.
package checkout
