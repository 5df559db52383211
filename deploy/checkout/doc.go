// Package checkout finds the repository that a program or a test runs in.
package checkout
