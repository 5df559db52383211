// Package domainstate has the launcher's state of its domain, and lets any number of watchers follow it.
package domainstate
