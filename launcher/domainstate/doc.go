// Package domainstate holds what the launcher knows of its domain, and lets any number of watchers follow it.
package domainstate
