package delivery

import "time"

// Kind is the kind of an observation, as metrics name it: what is observed, and for whom, unless that is the object's
// own workflow.
type Kind string

// The kinds of observations.
const (
	KindVM                Kind = "vm"
	KindVMI               Kind = "vmi"
	KindVMIForVM          Kind = "vmi-for-vm"
	KindReplicaSet        Kind = "replicaset"
	KindReplicas          Kind = "vmi-for-replicaset"
	KindPod               Kind = "pod"
	KindPodForMigration   Kind = "pod-for-migration"
	KindNode              Kind = "node"
	KindNodeForVMI        Kind = "node-for-vmi"
	KindNodeForMigration  Kind = "node-for-migration"
	KindEvacuees          Kind = "evacuees"
	KindOutdated          Kind = "outdated"
	KindMigration         Kind = "migration"
	KindMigrationForQueue Kind = "migration-for-queue"
)

// Cause is why an observation is sent.
type Cause int

// The causes. Those from Created on make a change more precise, for the kinds whose policy differs then.
const (
	// Changed: an informer has seen the object change.
	Changed Cause = iota
	// Resynced: nothing has changed, but the workflow may have missed the object.
	Resynced
	// Requested: the change is a request to a workflow that runs.
	Requested
	// OwnWrite: the workflow has written the change itself, and knows it.
	OwnWrite
	// Created: all that the object shows is that the workflow has made it.
	Created
	// OwnStep: the workflow has made this change of an end, and others follow.
	OwnStep
	// Ending: after this change the last one is about to come.
	Ending
	// EndingWithOwner: the same, and the owner is being deleted too.
	EndingWithOwner
	// Finalized: the object is gone, after the workflow removed its last finalizer.
	Finalized
	// Gone: the object is gone.
	Gone
)

// Class is how deliveries queue.
type Class int

const (
	// Change is sent once it is due.
	Change Class = iota
	// Request is sent when its flow hands it over: where there are many requests at once, they wait here, and not in
	// Temporal.
	Request
	// Resync goes behind all changes.
	Resync
	// Record is not sent. It is recorded as if it were, for a redelivery.
	Record
)

// Policy is how a delivery is queued.
type Policy struct {
	Class Class
	// Debounce is how long the delivery may wait for others that merge with it or supersede it, if nothing else is on
	// its way to the workflow.
	Debounce time.Duration
}

// The end of an object comes in several changes. Its workflow has often requested that end itself, so that no single
// change decides anything. They are debounced, because a workflow task costs Temporal more than anything else in a
// deletion, and a signal that arrives while a workflow completes makes Temporal run that task twice.
const (
	ownStepDebounce = 2 * time.Second
	endDebounce     = time.Second
	// finalizedDebounce is for a pod that has ended and whose last finalizer its workflow has removed. Nothing waits
	// for it. The rest of that workflow's last task is mostly shorter, also under load.
	finalizedDebounce = 4 * time.Second
	// cascadeDebounce is for an instance whose VM is deleted too: the VM waits for the instance to be gone.
	cascadeDebounce = 5 * time.Second
	// createdDebounce is for a new instance, which its VM has requested; the VM's status is Starting already. Most
	// guests run within that time, also under load. Whatever else is sent to the VM's workflow, also of the instance,
	// has it sent at once, unless that is debounced too.
	createdDebounce = 30 * time.Second
	// replicasDebounce is how long an observation of one replica waits for those of others. countDebounce is for
	// numbers of instances: a drain marks all instances at once, and with a new image all launchers are outdated at
	// once.
	replicasDebounce = 300 * time.Millisecond
	countDebounce    = 500 * time.Millisecond
)

// anyKind has the policies of kinds without a row of their own.
const anyKind Kind = ""

// policies has the policies by kind and cause. Where there is none, it is that of a change that is sent at once.
var policies = map[Kind]map[Cause]Policy{
	anyKind: {
		Resynced:  {Class: Resync},
		Requested: {Class: Request},
		OwnWrite:  {Class: Record},
	},
	KindVM:  {Gone: {Debounce: endDebounce}},
	KindVMI: {Gone: {Debounce: endDebounce}},
	KindVMIForVM: {
		Created:         {Debounce: createdDebounce},
		Ending:          {Debounce: endDebounce},
		EndingWithOwner: {Debounce: cascadeDebounce},
	},
	KindPod: {
		OwnStep:   {Debounce: ownStepDebounce},
		Ending:    {Debounce: endDebounce},
		Finalized: {Debounce: finalizedDebounce},
	},
	KindReplicas: {
		Changed:  {Debounce: replicasDebounce},
		Resynced: {Class: Resync, Debounce: replicasDebounce},
	},
	KindEvacuees: {
		Changed:  {Debounce: countDebounce},
		Resynced: {Class: Resync, Debounce: countDebounce},
	},
	KindOutdated: {
		Changed:  {Debounce: countDebounce},
		Resynced: {Class: Resync, Debounce: countDebounce},
	},
}

// PolicyOf returns the policy for a kind of observation and its cause.
func PolicyOf(kind Kind, cause Cause) Policy {
	if p, ok := policies[kind][cause]; ok {
		return p
	}
	return policies[anyKind][cause]
}
