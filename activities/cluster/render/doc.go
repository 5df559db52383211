// Package render makes the launcher pod of a VirtualMachineInstance, and the Secret with its inline cloud-init data.
// Pure functions: what a pod looks like depends on the instance, the settings and nothing else, so making it again
// makes the same.
//
// The pod conforms to PodSecurity "restricted". The instance travels in an annotation that the launcher reads as a
// file; nothing secret is in it.
package render
