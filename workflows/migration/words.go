package migration

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Why a migration has failed, in KubeVirt's words where it has some: the message of the event FailedMigration.
const (
	wordVMIEnded      = "Migration failed vmi shutdown during migration."
	wordCanceled      = "Migration failed due to being canceled"
	wordTargetEnded   = "Migration failed because target pod shutdown during migration"
	wordTargetRemoved = "Migration target pod was removed during active migration."
	wordCleared       = "VMI's migration state was cleared during the active migration."
	wordFailed        = "source node reported migration failed"
	wordInProgress    = "VMI is not eligible for migration because another migration job is in progress."
	wordUnschedulable = "Migration target pod was unschedulable for too long: unschedulable pod timeout period exceeded"
	wordPending       = "Migration target pod was pending for too long: pending pod timeout period exceeded"
	// KubeVirt has no message for the cases below.
	wordNoAnswer   = "Migration failed because the instance did not answer in time"
	wordNoPod      = "Migration failed because the target's pod could not be created: "
	wordNoSettings = "Migration failed because its settings could not be read: "
	wordNoOffer    = "Migration failed because the source could not offer its guest: "
	wordNotReady   = "Migration failed because the target could not be prepared: "
	wordTooLong    = "Migration failed because it took longer than completionTimeoutPerGiB allows"
	wordGuestLost  = "Migration failed because the guest was lost: it had left the source, and the target ended first"
	wordNotBegun   = "Migration failed because the source was never asked to move its guest"
	wordEnded      = "Migration failed because the guest has ended"
)

// Reason of an aborted migration in the instance's status.
const (
	wordAborted = "Live migration has been aborted"
)

// Conditions of a migration.
const (
	ConditionAbortRequested = "migrationAbortRequested"
	ConditionQuota          = "migrationRejectedByResourceQuota"
	ConditionQueued         = "virtflow.io/Queued"
	ConditionPodScheduled   = "PodScheduled" // of the target's pod, while it is False
	ConditionPostCopy       = "virtflow.io/PostCopy"
	ConditionOutcomeUnknown = "virtflow.io/OutcomeUnknown"
	ConditionSynchronized   = "Synchronized"
)

// postCopyUnsupported returns why a migration that is allowed post-copy proceeds without it, and what is done instead.
func postCopyUnsupported(c contract.MigrationConfiguration) string {
	instead := "it is aborted"
	if c.Disruption {
		instead = "the guest is paused until the rest is copied"
	}
	return "post-copy is allowed, but not supported: libvirt itself resumes the target of a migration that may use it, " +
		"so the guest could run at both ends. When the migration's time is over, " + instead + " instead"
}

// ahead returns how far ahead in the queue a migration is. The position itself changes for all that wait whenever one
// of them is admitted, which would be a write for each. So the status has it by powers of ten: a migration behind a
// thousand others costs four writes until it is admitted.
func ahead(position int) string {
	if position <= 1 {
		return "it is next"
	}
	among := 10
	for among < position {
		among *= 10
	}
	return fmt.Sprintf("it is among the next %d", among)
}

func event(kind, reason, message string) contract.Event {
	return contract.Event{Type: kind, Reason: reason, Message: message}
}

// events returns the migration's events that its state calls for and that were not recorded yet.
func (s *State) events() []contract.Event {
	var events []contract.Event
	add := func(kind, reason, message string) { events = append(events, event(kind, reason, message)) }
	if p := s.Target.Pod; p != nil && p.Unschedulable != nil && s.Result == ResultNone {
		add("Warning", "migrationTargetPodUnschedulable", fmt.Sprintf(
			"Migration target pod for VMI [%s/%s] is currently unschedulable.", s.VMI.Namespace, s.VMI.Name))
	}
	if !s.phaseTime(PhasePreparingTarget).IsZero() {
		add("Normal", "SuccessfulHandOver", "Migration target pod is ready for preparation by virt-handler.")
	}
	if s.AbortSent {
		add("Normal", "SuccessfulAbortMigration", "Migration is ready to be canceled by virt-handler.")
	}
	switch s.Phase {
	case PhaseSucceeded:
		add("Normal", "SuccessfulMigration", "Source node reported migration succeeded")
	case PhaseFailed:
		add("Warning", "FailedMigration", s.failure())
	default:
	}
	return s.Announced.Missing(events...)
}

// failure returns why it has failed, for the migration's event: KubeVirt's words, and the source's reason after them.
func (s *State) failure() string {
	switch {
	case s.Cause != "":
		return s.Cause
	case s.Reason != "":
		return wordFailed + ": " + s.Reason
	default:
		return wordFailed
	}
}

// instanceEvents returns the instance's events that go with the requested stage.
func (s *State) instanceEvents(now time.Time) []contract.Event {
	var events []contract.Event
	add := func(kind, reason, message string) { events = append(events, event(kind, reason, message)) }
	switch s.stageToRequest() {
	case contract.StageClaim:
		if now.Before(s.NotBefore) {
			add("Warning", "MigrationBackoff", fmt.Sprintf("backoff migrating vmi %s/%s", s.VMI.Namespace, s.VMI.Name))
		}
	case contract.StageCopying:
		if t := s.Prepared; t != nil {
			address, port := s.address()
			add("Normal", "PreparingTarget", "VirtualMachineInstance Migration Target Prepared.")
			add("Normal", "PreparingTarget", fmt.Sprintf("Migration Target is listening at %s, on ports: %d", address,
				port))
		}
		add("Normal", "Migrating", "VirtualMachineInstance is migrating.")
	case contract.StageMoved:
		add("Normal", "Migrated",
			fmt.Sprintf("The VirtualMachineInstance migrated to node %s.", s.Target.nodeName()))
	case contract.StageStayed:
		if !s.isHandedOff() {
			break
		}
		if s.AbortSent {
			add("Normal", "Migrating", "VirtualMachineInstance is aborting migration.")
		}
		add("Warning", "Migrated", fmt.Sprintf("VirtualMachineInstance migration uid %s failed. reason:%s",
			s.Object.UID, s.reason()))
	default:
	}
	return events
}

// reason returns why it has failed, for the instance's status.
func (s *State) reason() string {
	switch {
	case s.Outcome != nil && s.Outcome.Aborted && s.Cause != "" && s.AbortSent:
		return wordAborted
	case s.Reason != "":
		return s.Reason
	default:
		return s.failure()
	}
}
