// Package hardware is what several processes have to know alike of guests' hardware: what the cluster's configuration
// says of every guest's, which the control workers write into the launcher's pod and the launcher builds into the
// domain, and what of a guest's own a pod has to have room for.
package hardware
