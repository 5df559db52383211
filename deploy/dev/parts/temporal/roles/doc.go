// Package roles defines the permissions of virtflow's processes in Temporal, by their client certificates.
package roles
