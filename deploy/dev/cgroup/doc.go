// Package cgroup makes, joins, empties and removes control groups of the same
// name in every hierarchy of the machine (version 1, or version 2 alone).
package cgroup
