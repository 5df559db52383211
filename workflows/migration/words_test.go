package migration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestEventsAndReasons: users may read these texts, and clients look for KubeVirt's words in them.
func TestEventsAndReasons(t *testing.T) {
	s := seen()
	for _, change := range stages()[:15] {
		change(&s)
		s.refresh(noon)
	}
	var b strings.Builder
	write := func(of string, events ...contract.Event) {
		for _, e := range events {
			fmt.Fprintf(&b, "%s: %s %s: %s\n", of, e.Type, e.Reason, e.Message)
		}
	}
	early := seen()
	early.NotBefore = noon.Add(1)
	write("instance", early.instanceEvents(noon)...)
	write("instance", s.instanceEvents(noon)...)
	moved := s
	moved.recordOutcome(noon, contract.MigrationOutcome{Result: contract.ResultMoved})
	write("instance", moved.instanceEvents(noon)...)
	setStage(&moved, contract.StageMoved)
	moved.Claim.State = contract.ClaimReleased
	moved.refresh(noon)
	stayed := s
	stayed.Target.Pod = nil
	stayed.recordOutcome(noon, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "stream cut"})
	stayed.refresh(noon)
	write("instance", stayed.instanceEvents(noon)...)
	aborted := s
	aborted.Target.Pod = nil
	aborted.Cause, aborted.AbortSent = wordCanceled, true
	aborted.recordOutcome(noon, contract.MigrationOutcome{Result: contract.ResultStayed, Aborted: true})
	aborted.refresh(noon)
	write("instance", aborted.instanceEvents(noon)...)
	write("migration", moved.events()...)
	write("migration", stayed.events()...)
	write("migration", aborted.events()...)
	unplaced := seen()
	unplaced.Target.Pod = &contract.PodObservation{Unschedulable: &contract.Condition{}}
	write("migration", unplaced.events()...)
	for _, word := range []string{wordVMIEnded, wordTargetEnded, wordTargetRemoved, wordCleared, wordInProgress,
		wordUnschedulable, wordPending, wordNoAnswer, wordNoOffer, wordNotReady, wordTooLong, wordGuestLost,
		wordNotBegun, wordEnded} {
		fmt.Fprintf(&b, "failed: %s\n", word)
	}
	for _, c := range []string{ConditionAbortRequested, ConditionQuota, ConditionQueued, ConditionOutcomeUnknown,
		ConditionPostCopy} {
		fmt.Fprintf(&b, "condition: %s\n", c)
	}
	require.Equal(t, `instance: Warning MigrationBackoff: backoff migrating vmi d/v
instance: Normal PreparingTarget: VirtualMachineInstance Migration Target Prepared.
instance: Normal PreparingTarget: Migration Target is listening at 10.0.0.2, on ports: 8188
instance: Normal Migrating: VirtualMachineInstance is migrating.
instance: Normal Migrated: The VirtualMachineInstance migrated to node n2.
instance: Warning Migrated: VirtualMachineInstance migration uid m failed. reason:stream cut
instance: Normal Migrating: VirtualMachineInstance is aborting migration.
instance: Warning Migrated: VirtualMachineInstance migration uid m failed. reason:Live migration has been aborted
migration: Normal SuccessfulHandOver: Migration target pod is ready for preparation by virt-handler.
migration: Normal SuccessfulMigration: Source node reported migration succeeded
migration: Normal SuccessfulHandOver: Migration target pod is ready for preparation by virt-handler.
migration: Warning FailedMigration: source node reported migration failed: stream cut
migration: Normal SuccessfulHandOver: Migration target pod is ready for preparation by virt-handler.
migration: Normal SuccessfulAbortMigration: Migration is ready to be canceled by virt-handler.
migration: Warning FailedMigration: Migration failed due to being canceled
migration: Warning migrationTargetPodUnschedulable: Migration target pod for VMI [d/v] is currently unschedulable.
failed: Migration failed vmi shutdown during migration.
failed: Migration failed because target pod shutdown during migration
failed: Migration target pod was removed during active migration.
failed: VMI's migration state was cleared during the active migration.
failed: VMI is not eligible for migration because another migration job is in progress.
failed: Migration target pod was unschedulable for too long: unschedulable pod timeout period exceeded
failed: Migration target pod was pending for too long: pending pod timeout period exceeded
failed: Migration failed because the instance did not answer in time
failed: Migration failed because the source could not offer its guest: 
failed: Migration failed because the target could not be prepared: 
failed: Migration failed because it took longer than completionTimeoutPerGiB allows
failed: Migration failed because the guest was lost: it had left the source, and the target ended first
failed: Migration failed because the source was never asked to move its guest
failed: Migration failed because the guest has ended
condition: migrationAbortRequested
condition: migrationRejectedByResourceQuota
condition: virtflow.io/Queued
condition: virtflow.io/OutcomeUnknown
condition: virtflow.io/PostCopy
`, b.String())
}

func TestAhead(t *testing.T) {
	for position, want := range map[int]string{
		1: "it is next", 2: "it is among the next 10", 10: "it is among the next 10", 11: "it is among the next 100",
		100: "it is among the next 100", 101: "it is among the next 1000",
	} {
		require.Equal(t, want, ahead(position), "%d", position)
	}
}
