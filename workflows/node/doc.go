// Package node is the entity that owns what virtflow knows of one node: whether virtual machines may be placed there, and what its
// host can do. It writes labels, and nothing else.
package node
