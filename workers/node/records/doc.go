// Package records keeps, across restarts of the node worker, which VMI each pod's launcher on this node belongs to and
// what its entity was last sent: one small file for each pod.
package records
