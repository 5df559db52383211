// Package credentials has a guest's agent set the VMI's accessCredentials: SSH keys and passwords of the guest's users,
// from Secrets that are mounted in the pod, and again when these change.
package credentials
