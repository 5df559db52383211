// Package crdwatch watches Kubernetes and sends the workflows what happens there. Informers keep stripped copies of
// VirtualMachines, VirtualMachineInstances, their replica sets and migrations, launcher pods, nodes, node workers' pods
// and PersistentVolumeClaims; each change becomes a small observation (package observe) that is delivered to the
// workflow that owns the object, and to the owner of that one. It decides nothing about machines. It ends workflows
// that this release cannot replay (update.go), and begins a new epoch where a database was put back (package
// fencing). It writes nothing to Kubernetes but two Leases, and events on the KubeVirt object.
//
//	watcher.go      one leader at a time; informers that are read anew when etcd was put back
//	leader.go       what a leader does, without lease or clock
//	informers.go    the informers; strip.go what they keep of an object
//	kinds.go        the kinds of objects and observations: one descriptor each
//	differ.go       from a changed object to the observations that are worth sending
//	nodes.go        the same for nodes, of which VMIs hear too
//	claims.go       the claims of instances, which are a part of what is observed of those
//	replicasets.go  the same for replica sets, which hear of many instances
//	migrations.go   the same for migrations, which hear of launcher pods, and their queue, which hears of migrations
//	update.go       brings workflows to the logic of this release
//	outdated.go     how many launchers are outdated, for their update
//	resync.go       what was missed while nobody watched: objects without a workflow, workflows without an object
//	ends.go         whose end was sent since the last resync
//	census.go       when to resync: as many workflows run as there are objects
//	delivery.go     an observation on its way
//	throttle.go     how fast that goes out which has not changed
//	window.go       how much of that, or of a flow, goes out before control workers have taken it in
//	flows.go        flow control: what is asked of many machines waits here, not in Temporal
//	outbox.go       one serial queue per workflow; an object's newest observation wins, retried until Temporal takes it
//	turns.go        which workflow is next: changes first, resyncs behind, namespaces in turn
//	lately.go       what was sent in the last minutes
//	temporal.go     signals, and what follows from their errors
//	older.go        whether an informer was told of an older version than it had read
//	announce.go     the event on the KubeVirt object that says so
//	kubevirtmetrics.go KubeVirt's metrics of migrations
//	fencing/        whether Temporal's database or etcd is an older copy
//
// Permissions used:
//
//	kubevirt.io          virtualmachines, virtualmachineinstances,
//	                     virtualmachineinstancereplicasets,
//	                     virtualmachineinstancemigrations           get, list, watch   (cluster)
//	""                   pods, nodes                                get, list, watch   (cluster)
//	""                   persistentvolumeclaims                     list, watch        (cluster)
//	coordination.k8s.io  leases                                     get, create, update (own namespace)
//	kubevirt.io          kubevirts                                  get                (own namespace)
//	""                   events                                     create             (own namespace)
package crdwatch
