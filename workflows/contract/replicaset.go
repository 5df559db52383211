package contract

import (
	"time"
)

// Workflow types of replica sets, as Temporal's UI shows them.
const (
	WorkflowReplicaSet = "ReplicaSet"
	WorkflowReplicate  = "Replicate"
)

// OperationReplicate is the transition of a replica set: replicas are made, or removed, until there are as many as
// wanted.
const OperationReplicate Operation = "replicate"

// Signals to a replica set's entity.
const (
	SignalObserveReplicaSet = "observe-replicaset"
	SignalObserveReplicas   = "observe-replicas"
)

// Activities for replica sets (package activities/cluster).
const (
	ActivityFindReplicas    = "FindReplicas"
	ActivityClaimReplicas   = "ClaimReplicas"
	ActivityCreateReplicas  = "CreateReplicas"
	ActivityDeleteReplicas  = "DeleteReplicas"
	ActivityPatchReplicaSet = "PatchReplicaSet"
)

const (
	// AnnotationReplica on a VirtualMachineInstance is its ordinal in the replica set that made it: a decimal number
	// from 1.
	AnnotationReplica = "virtflow.io/replica"
	// AnnotationRequestedGeneration is the generation of the object that AnnotationRequestedBy speaks of. A replica set
	// can be scaled past the webhook that writes these (by its scale subresource); then who did it is not known.
	AnnotationRequestedGeneration = "virtflow.io/requested-generation"
)

// MaxReplicas is how many replicas a set may have. What a set's entity knows of them is carried from run to run, and
// must stay small enough for that. MaxReplicasSeen is how many instances it looks at, at once: those that end while
// others replace them are among them.
const (
	MaxReplicas     = 1000
	MaxReplicasSeen = 2 * MaxReplicas
	// MaxSelector is how many bytes its selector may have, as text.
	MaxSelector = 4096
)

// MaxOrdinal is the highest number that an instance is believed to have in its set. A user may have written it.
const MaxOrdinal = 1 << 30

// ReplicaSetID is the workflow ID of the entity that owns a VirtualMachineInstanceReplicaSet object.
func ReplicaSetID(namespace, name string) string {
	return id("replicaset/" + namespace + "/" + name)
}

// ReplicaSetObservation is what crdwatch tells a replica set's entity about its object.
type ReplicaSetObservation struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch             int64      `json:"epoch,omitempty"`
	Generation        int64      `json:"generation,omitempty"`
	Gone              bool       `json:"gone,omitempty"`
	DeletionTimestamp *time.Time `json:"deletionTimestamp,omitempty"`
	// Replicas is how many there shall be; 1 where the object does not say.
	Replicas int  `json:"replicas"`
	Paused   bool `json:"paused,omitempty"`
	// Selector is the label selector in the form that label queries have.
	Selector string `json:"selector,omitempty"`
	// Unusable says why nothing can be done for this object; "" when something can.
	Unusable string `json:"unusable,omitempty"`
	// GracePeriodSeconds is what a guest may take to shut down; nil: KubeVirt's 30 s.
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	// Conditions are those in status, read back so that losing Temporal's history keeps their times.
	Conditions []Condition `json:"conditions,omitempty"`
	// Actor is the user behind the present specification ("" when not known).
	Actor string `json:"actor,omitempty"`
}

// ReplicaObservation is what a replica set needs to know of a VirtualMachineInstance that it controls, or might adopt.
type ReplicaObservation struct {
	UID             string `json:"uid"`
	Name            string `json:"name,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Gone            bool   `json:"gone,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	// OwnerUID is the UID of whatever controls it, "" when nothing does.
	OwnerUID string `json:"ownerUID,omitempty"`
	// Matches says that its labels match the set's selector.
	Matches bool   `json:"matches,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Ready   bool   `json:"ready,omitempty"`
	// Terminating says that its pod is being taken away although nobody deleted it (Ready is False with reason
	// PodTerminating).
	Terminating bool `json:"terminating,omitempty"`
	// EverRan says that status.phaseTransitionTimestamps has Running.
	EverRan bool `json:"everRan,omitempty"`
	// Ordinal is its number in the set that made it; 0: it was made by somebody else.
	Ordinal int       `json:"ordinal,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

// Ended says that its guest is not going to run any more.
func (o ReplicaObservation) Ended() bool { return o.Phase == "Succeeded" || o.Phase == "Failed" }

// CountsFor says that it is one of those that a set wants: it is the set's, has not ended, and is not about to.
func (o ReplicaObservation) CountsFor(set string) bool {
	return o.OwnerUID == set && o.Matches && !o.Ended() && !o.Deleting && !o.Terminating
}

// ReplicasObservation is what changed of several replicas at once. Resync asks the entity to look for itself: something
// was missed.
type ReplicasObservation struct {
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch    int64                `json:"epoch,omitempty"`
	Replicas []ReplicaObservation `json:"replicas,omitempty"`
	Resync   bool                 `json:"resync,omitempty"`
}

// FindReplicasInput asks for every VirtualMachineInstance that a set controls, or might adopt.
type FindReplicasInput struct {
	Set      Object `json:"set"`
	Selector string `json:"selector"`
}

// FindReplicasResult is complete as of ResourceVersion: what is older and not in it does not exist, or does not match.
type FindReplicasResult struct {
	ResourceVersion string               `json:"resourceVersion,omitempty"`
	Replicas        []ReplicaObservation `json:"replicas,omitempty"`
	// More is how many there are besides those in Replicas, which are at most MaxReplicasSeen: those that the set
	// controls come first.
	More int `json:"more,omitempty"`
}

// ClaimReplicasInput makes a set the controller of instances that match, and releases those that match no longer. Both
// are checked once more against the API server.
type ClaimReplicasInput struct {
	Set     Object   `json:"set"`
	Adopt   []Object `json:"adopt,omitempty"`
	Release []Object `json:"release,omitempty"`
}

// ClaimReplicasResult has each of them as it is now.
type ClaimReplicasResult struct {
	Replicas []ReplicaObservation `json:"replicas,omitempty"`
}

// CreateReplicasInput asks for the replicas of ordinals From up to From+Count-1. Events SuccessfulCreate, FailedCreate
// on the set.
type CreateReplicasInput struct {
	Set Object `json:"set"`
	// Generation is the one that they were counted for; 0: not known.
	Generation int64  `json:"generation,omitempty"`
	From       int    `json:"from"`
	Count      int    `json:"count"`
	Actor      string `json:"actor,omitempty"`
}

// CreateReplicasResult says which are there now. After a refusal (quota, admission) the rest was not tried. Where the
// set has changed since the generation that was asked for, none was, and Set is what was read of it.
type CreateReplicasResult struct {
	Made int                    `json:"made,omitempty"`
	Set  *ReplicaSetObservation `json:"set,omitempty"`
	// Taken are ordinals whose derived name somebody else's object has.
	Taken   []int    `json:"taken,omitempty"`
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal is why the API server did not do something that it understood.
type Refusal struct {
	Type    string `json:"type"` // of application errors
	Message string `json:"message"`
}

// DeleteReplicasInput deletes instances by UID, those that have ended by themselves among them in Finished. Events
// SuccessfulDelete, FailedDelete on the set.
type DeleteReplicasInput struct {
	Set      Object   `json:"set"`
	Remove   []Object `json:"remove,omitempty"`
	Finished []Object `json:"finished,omitempty"`
}

// DeleteReplicasResult says how many of them are deleted, were gone already, or were not the set's any more and stay.
// Where others stay, since they are not too many and have not ended as things are now, Set is what was read of it then.
type DeleteReplicasResult struct {
	Deleted int                    `json:"deleted,omitempty"`
	Set     *ReplicaSetObservation `json:"set,omitempty"`
	Refused *Refusal               `json:"refused,omitempty"`
}

// ReplicaSetStatus is the status of a VirtualMachineInstanceReplicaSet, whole.
type ReplicaSetStatus struct {
	Replicas      int         `json:"replicas"`
	ReadyReplicas int         `json:"readyReplicas"`
	LabelSelector string      `json:"labelSelector,omitempty"`
	Conditions    []Condition `json:"conditions,omitempty"`
}

// PatchReplicaSetInput writes a set's status. Lock: UID and ResourceVersion.
type PatchReplicaSetInput struct {
	Set             Object           `json:"set"`
	ResourceVersion string           `json:"resourceVersion"`
	Status          ReplicaSetStatus `json:"status"`
	Events          []Event          `json:"events,omitempty"`
}

// PatchReplicaSetResult says what became of the patch.
type PatchReplicaSetResult = Patched[ReplicaSetObservation]

// ReplicateInput starts a replicate transition: it makes Make replicas from ordinal From on, then deletes Remove and
// Finished, and waits until the set's entity says that all of it has taken effect.
type ReplicateInput struct {
	Set        Object `json:"set"`
	Generation int64  `json:"generation,omitempty"`
	// Replicas is how many there shall be in the end.
	Replicas int      `json:"replicas"`
	From     int      `json:"from,omitempty"`
	Make     int      `json:"make,omitempty"`
	Remove   []Object `json:"remove,omitempty"`
	Finished []Object `json:"finished,omitempty"`
	// Why and Actor are the record of who asked for what.
	Why   string `json:"why"`
	Actor string `json:"actor,omitempty"`
	// Deadline ends the transition, whatever it waits for.
	Deadline time.Time `json:"deadline"`
}

// ReplicateProgress is what a replica set's entity tells its open transition (signal SignalProgress).
type ReplicateProgress struct {
	Running int `json:"running,omitempty"` // of those made
	Gone    int `json:"gone,omitempty"`    // of those deleted
	// Done ends the wait. Note says why, where it ends before everything runs or is gone.
	Done bool   `json:"done,omitempty"`
	Note string `json:"note,omitempty"`
}

// ReplicateResult is how a replicate transition went.
type ReplicateResult struct {
	// Summary is one plain sentence.
	Summary string `json:"summary"`
	// Taken is the highest ordinal whose derived name somebody else's object has; 0: none has.
	Taken int `json:"taken,omitempty"`
	// Set is what was read of the set when replicas that were to be deleted turned out to be wanted; nil: they were
	// not.
	Set *ReplicaSetObservation `json:"set,omitempty"`
}
