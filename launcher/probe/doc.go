// Package probe is what the kubelet runs in a launcher's container to learn whether the guest is alive or ready: a
// small command that has the launcher ask the guest's agent.
package probe
