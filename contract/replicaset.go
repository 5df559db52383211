package contract

import (
	"time"
)

// Workflow types of replica sets, as Temporal's UI shows them.
const (
	WorkflowReplicaSet = "ReplicaSet"
	WorkflowReplicate  = "Replicate"
)

// OperationReplicate is the transition of a replica set: it creates or deletes replicas until there are as many as
// desired.
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
	// AnnotationRequestedGeneration is the generation of the object that AnnotationRequestedBy is about. A replica set
	// can be scaled past the webhook that writes these (by its scale subresource); then the actor is not known.
	AnnotationRequestedGeneration = "virtflow.io/requested-generation"
)

// MaxReplicas is how many replicas a set may have. The entity's record of them is carried from run to run, and must
// stay small enough for that. MaxReplicasSeen is how many instances it looks at, at once: more than MaxReplicas, since
// some end while others replace them.
const (
	MaxReplicas     = 1000
	MaxReplicasSeen = 2 * MaxReplicas
	// MaxSelector is how many bytes its selector may have, as text.
	MaxSelector = 4096
)

// MaxOrdinal is the highest ordinal of an instance that is believed: users can write the annotation.
const MaxOrdinal = 1 << 30

// ReplicaSetID returns the workflow ID of the entity that owns a VirtualMachineInstanceReplicaSet object.
func ReplicaSetID(namespace, name string) string {
	return id("replicaset/" + namespace + "/" + name)
}

// ReplicaSetObservation is crdwatch's observation of a replica set's object, for its entity.
type ReplicaSetObservation struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch             int64      `json:"epoch,omitempty"`
	Generation        int64      `json:"generation,omitempty"`
	Gone              bool       `json:"gone,omitempty"`
	DeletionTimestamp *time.Time `json:"deletionTimestamp,omitempty"`
	// Replicas is the desired number; 1 where the object has none.
	Replicas int  `json:"replicas"`
	Paused   bool `json:"paused,omitempty"`
	// Selector is the label selector in the form that label queries have.
	Selector string `json:"selector,omitempty"`
	// Unusable is why the entity cannot act for this object; "": it can.
	Unusable string `json:"unusable,omitempty"`
	// GracePeriodSeconds is how long a guest may take to shut down; nil: KubeVirt's 30 s.
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	// Conditions are those in status, read back so that losing Temporal's history keeps their times.
	Conditions []Condition `json:"conditions,omitempty"`
	// Actor is the user behind the present specification ("" when not known).
	Actor string `json:"actor,omitempty"`
}

// ReplicaObservation has what a replica set needs to know of a VirtualMachineInstance that it controls or might adopt.
type ReplicaObservation struct {
	UID             string `json:"uid"`
	Name            string `json:"name,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Gone            bool   `json:"gone,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	// OwnerUID is its controller's UID, "" without one.
	OwnerUID string `json:"ownerUID,omitempty"`
	// Matches reports whether its labels match the set's selector.
	Matches bool   `json:"matches,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Ready   bool   `json:"ready,omitempty"`
	// Terminating is set when its pod is being deleted although the instance is not (Ready is False with reason
	// PodTerminating).
	Terminating bool `json:"terminating,omitempty"`
	// EverRan is set when status.phaseTransitionTimestamps has Running.
	EverRan bool `json:"everRan,omitempty"`
	// Ordinal is its number in the set that made it; 0: no set made it.
	Ordinal int       `json:"ordinal,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

// Ended reports whether its guest will not run again.
func (o ReplicaObservation) Ended() bool { return o.Phase == "Succeeded" || o.Phase == "Failed" }

// CountsFor reports whether it counts towards a set's replicas: the set controls it, and it neither has ended nor is
// about to.
func (o ReplicaObservation) CountsFor(set string) bool {
	return o.OwnerUID == set && o.Matches && !o.Ended() && !o.Deleting && !o.Terminating
}

// ReplicasObservation has the changes of several replicas at once. Resync asks the entity to read them all, because an
// observation was missed.
type ReplicasObservation struct {
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch    int64                `json:"epoch,omitempty"`
	Replicas []ReplicaObservation `json:"replicas,omitempty"`
	Resync   bool                 `json:"resync,omitempty"`
}

// FindReplicasInput asks for every VirtualMachineInstance that a set controls or might adopt.
type FindReplicasInput struct {
	Set      Object `json:"set"`
	Selector string `json:"selector"`
}

// FindReplicasResult is complete as of ResourceVersion: an older one that is not in it does not exist, or does not
// match.
type FindReplicasResult struct {
	ResourceVersion string               `json:"resourceVersion,omitempty"`
	Replicas        []ReplicaObservation `json:"replicas,omitempty"`
	// More is how many there are besides those in Replicas, which are at most MaxReplicasSeen: those that the set
	// controls come first.
	More int `json:"more,omitempty"`
}

// ClaimReplicasInput has a set adopt instances that match, and release those that match no longer. The activity checks
// both against the API server.
type ClaimReplicasInput struct {
	Set     Object   `json:"set"`
	Adopt   []Object `json:"adopt,omitempty"`
	Release []Object `json:"release,omitempty"`
}

// ClaimReplicasResult has each of them as it is now.
type ClaimReplicasResult struct {
	Replicas []ReplicaObservation `json:"replicas,omitempty"`
}

// CreateReplicasInput asks for the replicas with the ordinals From to From+Count-1. Events SuccessfulCreate,
// FailedCreate on the set.
type CreateReplicasInput struct {
	Set Object `json:"set"`
	// Generation is the set's for which they were counted; 0: not known.
	Generation int64  `json:"generation,omitempty"`
	From       int    `json:"from"`
	Count      int    `json:"count"`
	Actor      string `json:"actor,omitempty"`
}

// CreateReplicasResult has the replicas that exist now. After a refusal (quota, admission) the rest was not tried.
// Where the set has a newer generation, none was tried, and Set is the set as it was read.
type CreateReplicasResult struct {
	Made int                    `json:"made,omitempty"`
	Set  *ReplicaSetObservation `json:"set,omitempty"`
	// Taken are ordinals whose derived name belongs to another owner's object.
	Taken   []int    `json:"taken,omitempty"`
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal is why the API server refused a valid request.
type Refusal struct {
	Type    string `json:"type"` // of application errors
	Message string `json:"message"`
}

// DeleteReplicasInput deletes instances by UID, in Finished those that have ended by themselves. Events
// SuccessfulDelete, FailedDelete on the set.
type DeleteReplicasInput struct {
	Set      Object   `json:"set"`
	Remove   []Object `json:"remove,omitempty"`
	Finished []Object `json:"finished,omitempty"`
}

// DeleteReplicasResult has how many of them are deleted, were gone already, or are no longer the set's and stay. Where
// others stay, since they are not too many and have not ended, Set is the set as it was read.
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

// PatchReplicaSetResult is the outcome of the patch.
type PatchReplicaSetResult = Patched[ReplicaSetObservation]

// ReplicateInput starts a replicate transition: it makes Make replicas from ordinal From on, then deletes Remove and
// Finished, and waits until the set's entity signals that all of it has taken effect.
type ReplicateInput struct {
	Set        Object `json:"set"`
	Generation int64  `json:"generation,omitempty"`
	// Replicas is the number of replicas at the end.
	Replicas int      `json:"replicas"`
	From     int      `json:"from,omitempty"`
	Make     int      `json:"make,omitempty"`
	Remove   []Object `json:"remove,omitempty"`
	Finished []Object `json:"finished,omitempty"`
	// Why and Actor are the reason and who requested it.
	Why   string `json:"why"`
	Actor string `json:"actor,omitempty"`
	// Deadline ends the transition, whatever it waits for.
	Deadline time.Time `json:"deadline"`
}

// ReplicateProgress is the progress that a replica set's entity signals to its open transition (SignalProgress).
type ReplicateProgress struct {
	Running int `json:"running,omitempty"` // of those made
	Gone    int `json:"gone,omitempty"`    // of those deleted
	// Done ends the wait. Note is why, where it ends before everything runs or is gone.
	Done bool   `json:"done,omitempty"`
	Note string `json:"note,omitempty"`
}

// ReplicateResult is the result of a replicate transition.
type ReplicateResult struct {
	// Summary is one plain sentence.
	Summary string `json:"summary"`
	// Taken is the highest ordinal whose derived name belongs to another owner's object; 0: none does.
	Taken int `json:"taken,omitempty"`
	// Set is the set as it was read when replicas that were to be deleted turned out to be desired; nil: they were not.
	Set *ReplicaSetObservation `json:"set,omitempty"`
}
