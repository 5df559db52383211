// Package backup has the commands that a backup of a whole namespace, such as Velero's, runs in a launcher's container
// before and after: they have the launcher freeze the guest's file systems, and thaw them.
package backup
