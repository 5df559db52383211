// Package report signals a node's entity what the node worker finds on its host.
package report
