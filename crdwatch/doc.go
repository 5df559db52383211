// Package crdwatch watches Kubernetes and tells the workflows. Informers keep stripped copies of VirtualMachines,
// VirtualMachineInstances, VirtualMachineInstanceReplicaSets, launcher pods, nodes and node workers' pods; each change becomes a small observation (package
// observe) that is delivered to the workflow that owns the object. It decides nothing and writes nothing to Kubernetes but its
// lease.
//
//	store.go     informers and their stripped objects
//	evaluate.go  from a changed object to the observations that are worth sending
//	replicasets.go  the same for replica sets, which hear of many instances
//	outbox.go    one serial queue per workflow; the newest observation of an object wins, retried until Temporal takes it
//	temporal.go  signals
//	repair.go    what was missed while nobody watched: objects without a workflow, workflows without an object
//	watcher.go   one leader at a time; a new one sends everything once
//
// Permissions used:
//
//	kubevirt.io          virtualmachines, virtualmachineinstances,
//	                     virtualmachineinstancereplicasets          get, list, watch   (cluster)
//	""                   pods                                       list, watch        (cluster)
//	""                   nodes                                      get, list, watch   (cluster)
//	coordination.k8s.io  leases                                     get, create, update (own namespace)
package crdwatch
