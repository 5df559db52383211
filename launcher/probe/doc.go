// Package probe has the command that the kubelet runs in a launcher's container to learn whether the guest is alive or
// ready: it has the launcher ask the guest's agent. In the target pod of a migration it also asks the launcher whether
// the guest has arrived.
package probe
