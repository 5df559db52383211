package waits

// Kind is a kind of wait. What ends each, or shows it to users, is in testsuite/world/deadlines_test.go.
type Kind int

// The kinds of waits.
const (
	none Kind = iota
	// Of any entity.
	FirstObservation
	OwnerObservation
	NextAttempt
	Release
	Approval
	Transition
	OtherFinalizers
	StepEnd
	NextRun
	Repair
	UnsettledPlanner
	Nothing
	// Of a VirtualMachine.
	RunStrategy
	Compensation
	OrphaningTransition
	StartBackoff
	DataVolumes
	InstanceRunning
	InstanceGone
	DeletedInstanceGone
	// Of a VirtualMachineInstance.
	OperationAnswer
	GuestShutdown
	StartCancellation
	MigrationEnd
	Volumes
	LauncherNode
	LauncherImages
	LauncherRunning
	LauncherObstacle
	DomainStart
	PodReady
	DepartedGuest
	NextObservation
	// Of a VirtualMachineInstanceReplicaSet.
	GarbageCollection
	Specification
	Unpause
	TransitionEnd
	CancelledTransition
	ReplicaBackoff
	// Of a VirtualMachineInstanceMigration.
	Reservation
	RefusedReservation
	HandOff
	ConfirmedResult
	Admission
	AdmissionPosition
	Quota
	NextRead
	TargetPod
	TargetNode
	TargetImages
	TargetRunning
	Offer
	Preparation
	Move
	Abort
	Resume
	Inspection
	SilentNode
	GuestAtBothEnds
	Withdrawal
	PodEnd
	ObjectGone
	// Of the migration queue.
	MigrationObservations
	Migrations
	ClosedQueue
	RunningMigration
	// Of a drain, or a workload update.
	ResumedDrain
	SettledRelease
	LeavingGuests
	LaterGuests
	BlockedGuests
	BlockedUpdate
	// Of a node.
	Drain
	HostReport
	NodeChange

	end
)

// sentences returns the sentences, with verbs of fmt for the facts of a wait.
func sentences() [end]string {
	return [...]string{
		FirstObservation:      "the first observation of %s",
		OwnerObservation:      "the first observation of the %s that owns pod %s",
		NextAttempt:           "another attempt to %s: %s",
		Release:               "a person: the %s is %s",
		Approval:              "a person: the %s needs approval (annotation %s); the control %s gives it",
		Transition:            "the %s transition",
		OtherFinalizers:       "other finalizers of the %s",
		StepEnd:               "the step in hand to end, %s (%s)",
		NextRun:               "the next run of this workflow",
		Repair:                "the repair to take effect",
		UnsettledPlanner:      "the planner did not settle; this is a bug in virtflow",
		Nothing:               "nothing: %s",
		RunStrategy:           "another run strategy: %s",
		Compensation:          "the %s transition to compensate",
		OrphaningTransition:   "the %s transition to end: its instance is orphaned",
		StartBackoff:          "the back-off after an instance that never ran, or ended too soon",
		DataVolumes:           "its DataVolumes to be populated: %s",
		InstanceRunning:       "its instance to run: it is %s",
		InstanceGone:          "its instance to be gone",
		DeletedInstanceGone:   "the instance to be gone",
		OperationAnswer:       "an operation on the guest to be answered",
		GuestShutdown:         "the guest to shut down and its pod to end",
		StartCancellation:     "the attempt to start the domain to be cancelled",
		MigrationEnd:          "migration %s to end",
		Volumes:               "its volumes: %s",
		LauncherNode:          "a node for the launcher pod: %s",
		LauncherImages:        "the launcher pod's images: %s %s",
		LauncherRunning:       "the launcher pod to run",
		LauncherObstacle:      "the launcher pod to run: %s",
		DomainStart:           "the node worker to start the domain",
		PodReady:              "the kubelet to report the pod as ready",
		DepartedGuest:         "the migration to report where the guest is",
		NextObservation:       "the next observation",
		GarbageCollection:     "the garbage collector: it deletes or orphans the instances, as requested",
		Specification:         "another specification: %s",
		Unpause:               "spec.paused to be false",
		TransitionEnd:         "the transition to end",
		CancelledTransition:   "the cancelled transition to end",
		ReplicaBackoff:        "the back-off after %d replicas that ended without having run",
		Reservation:           "the instance to agree",
		RefusedReservation:    "the instance: %s",
		HandOff:               "the instance to confirm the hand-off",
		ConfirmedResult:       "the instance to confirm where its guest is",
		Admission:             "the cluster's limits",
		AdmissionPosition:     "the cluster's limits: position %d of %d: %s",
		Quota:                 "a resource quota to have room: %s",
		NextRead:              "the next read from the API server",
		TargetPod:             "a pod for the target",
		TargetNode:            "a node for the target: %s",
		TargetImages:          "the images of the target's pod: %s %s",
		TargetRunning:         "the target's pod to run",
		Offer:                 "the source's offer",
		Preparation:           "the target to be prepared",
		Move:                  "the guest to be moved from %s to %s",
		Abort:                 "the copy to be aborted: %s",
		Resume:                "the guest to resume at %s",
		Inspection:            "the state of both ends: %s",
		SilentNode:            "node %s: %s (source: %s, target: %s)%s",
		GuestAtBothEnds:       "a person: the guest seems to run at both ends, and both are left as they are",
		Withdrawal:            "the target's node to withdraw it",
		PodEnd:                "pod %s to end",
		ObjectGone:            "the object to go",
		MigrationObservations: "observations of the migrations that exist",
		Migrations:            "migrations",
		ClosedQueue:           "a migration to be admitted: %s",
		RunningMigration:      "a running migration to end",
		ResumedDrain:          "the control %s",
		SettledRelease:        "the release to be everywhere",
		LeavingGuests:         "the guests that leave",
		LaterGuests:           "the guests whose move or eviction comes later",
		BlockedGuests:         "a person to change what blocks the guests that are left",
		BlockedUpdate:         "a person to change what blocks the guests that are left, or to restart them",
		Drain:                 "the drain",
		HostReport:            "the node's worker to report its host",
		NodeChange:            "changes of the node or of its host",
	}
}

// String returns the sentence of its waits.
func (k Kind) String() string { return sentences()[k] }

// Kinds returns all kinds.
func Kinds() []Kind {
	var all []Kind
	for k := none + 1; k < end; k++ {
		all = append(all, k)
	}
	return all
}
