// Package hardware is what the cluster's configuration says of every guest's hardware: the control workers write it
// into the launcher's pod, and the launcher builds it into the domain.
package hardware
