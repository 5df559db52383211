// Package crdwatch watches Kubernetes and sends workflows what changes there. Informers keep stripped copies of
// VirtualMachines, VirtualMachineInstances, their replica sets and migrations, launcher pods, nodes, node workers'
// pods, PersistentVolumeClaims and DataVolumes, and of the KubeVirt object. Each change becomes a small observation
// (package observe), which is delivered to the workflow that owns the object, and to the owner of that one.
//
// It decides nothing about machines. It terminates workflows that this release cannot replay (package upgrade), and
// begins a new epoch when a database was restored (package restore). It writes nothing to Kubernetes but two Leases,
// and events on the KubeVirt object.
//
// This package has the wiring: a watcher, and what runs while it leads. In the order of imports:
//
//	watch/           informers, and what is looked up in them
//	delivery/        brings observations to workflows: one serial queue each, debouncing, flow control
//	diff/            from a changed object to deliveries; resync
//	machinemetrics/  KubeVirt's metrics of VMs, VMIs and migrations, and metrics of failures
//	restore/         restore detection: whether Temporal's database or etcd is an older copy
//	upgrade/         moves workflows to the logic of this release
//	watcher.go       informers that are read again after a restore of etcd
//	leader.go        leader election, and one leadership
//	restores.go      what a leader does when a database was restored
//	metrics.go       metrics of restores
//
// Permissions used:
//
//	kubevirt.io          virtualmachines, virtualmachineinstances,
//	                     virtualmachineinstancereplicasets,
//	                     virtualmachineinstancemigrations           get, list, watch   (cluster)
//	""                   pods, nodes                                get, list, watch   (cluster)
//	""                   persistentvolumeclaims                     list, watch        (cluster)
//	coordination.k8s.io  leases                                     get, create, update (own namespace)
//	kubevirt.io          kubevirts                                  get, list, watch   (own namespace)
//	""                   events                                     create             (own namespace)
package crdwatch
