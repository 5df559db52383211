// Package backup is what a backup of a whole namespace, as Velero's, runs in a launcher's container before and after:
// small commands that have the launcher freeze the guest's file systems, and thaw them.
package backup
