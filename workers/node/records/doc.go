// Package records remembers, across restarts of the node worker, which VMI each pod's launcher on this node belongs to
// and what its entity was last told: one small file for each pod.
package records
