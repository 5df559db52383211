// Package domains compares what guests and pods get from virtflow with what they get from KubeVirt v1.9.0: the libvirt
// domain, and the launcher pod, of many VirtualMachineInstances. Each one goes through the real webhooks, the real
// rendering of its pod and the real preparation of its disks (only qemu-img is none), to the domain that its launcher
// would give to libvirt.
//
//	record.go      a recorded case, and the files of them (testdata/README.md)
//	admit.go       a case in the webhooks: refused, or admitted with defaults
//	made.go        virtflow's domain and pod for it
//	machine.go     what a guest sees of a domain, as facts by subject
//	pod.go         what a user sees of a pod, likewise
//	known.go       the known differences, each with its reason: one line a reason
//	agreement.go   the figures
//
// A difference that known.go does not explain fails, and so does an entry of known.go that explains nothing. What is
// refused since virtflow does not run it yet is listed by field. VIRTFLOW_DOMAIN_CASE=<id> prints all that is compared
// of one case.
//
// Never compared are the cases that are refused, or whose cluster cannot be configured; what only the host sees of
// a domain (ofTheHost, and the paths, sockets and threads that machine leaves out); how a pod is built and confined
// (its containers beside their resources and probes, security contexts, environment, owners); and what a guest does in
// its machine.
package domains
