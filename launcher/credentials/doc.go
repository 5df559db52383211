// Package credentials has a guest's agent set what the VMI's accessCredentials ask for: SSH keys and passwords of the
// guest's users, from Secrets that are mounted in the pod, and anew when these change.
package credentials
