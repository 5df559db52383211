// Package node has the activities on a node's task queue: what is done beside a launcher, on its own node.
package node
