package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestEndDeadline: waiting in virtflow's own queues is not late, waiting for others is.
func TestEndDeadline(t *testing.T) {
	const limit = time.Minute
	asked := time.Unix(1000, 0)
	now, graceEnds := asked.Add(limit), asked.Add(30*time.Second)
	alive := contract.PodObservation{UID: "p", NodeName: "n", Phase: "Running"}
	ending := alive
	ending.DeletionTimestamp = &graceEnds
	over := ending
	over.Phase = "Succeeded"
	going := contract.VMIObservation{DeletionTimestamp: &asked, Finalizers: []string{contract.FinalizerVMI}}
	fails, complains, held := going, going, going
	fails.Conditions = []contract.Condition{
		{Type: "Synchronized", Status: "False", Reason: contract.ReasonFailedDelete}}
	complains.Conditions = []contract.Condition{{Type: "Synchronized", Status: "False", Reason: "DomainFailed"}}
	held.Finalizers = []string{"example.org/backup"}
	long := ending
	hours := graceEnds.Add(-9 * time.Hour)
	long.DeletionTimestamp = &hours
	for name, c := range map[string]struct {
		now  time.Time
		read contract.ReadVMIResult
		want time.Time
	}{
		"its pod was not asked to end": {now, contract.ReadVMIResult{VMI: &going,
			FindPodResult: contract.FoundPods(alive)}, now.Add(limit)},
		"and the instance complains of something else": {now, contract.ReadVMIResult{VMI: &complains,
			FindPodResult: contract.FoundPods(alive)}, now.Add(limit)},
		"and another has gone for long": {now, contract.ReadVMIResult{VMI: &going,
			FindPodResult: contract.FoundPods(long, alive)}, now.Add(limit)},
		"its end is undone": {now, contract.ReadVMIResult{VMI: &contract.VMIObservation{},
			FindPodResult: contract.FoundPods(alive)}, now},
		"a foreign finalizer": {now, contract.ReadVMIResult{VMI: &held, FindPodResult: contract.FoundPods(over)}, now},
		"not deletable":       {now, contract.ReadVMIResult{VMI: &fails, FindPodResult: contract.FoundPods(alive)}, now},
		"its pod was asked to end": {now, contract.ReadVMIResult{VMI: &fails,
			FindPodResult: contract.FoundPods(ending)}, graceEnds.Add(entity.StopSlack)},
		"both were": {now, contract.ReadVMIResult{VMI: &going,
			FindPodResult: contract.FoundPods(over, ending, long)}, graceEnds.Add(entity.StopSlack)},
		"its pod has ended": {now, contract.ReadVMIResult{VMI: &going,
			FindPodResult: contract.FoundPods(over)}, now.Add(limit)},
		"it has waited for long": {asked.Add(entity.QueueLimit + limit),
			contract.ReadVMIResult{VMI: &going}, asked.Add(entity.QueueLimit + limit)},
	} {
		require.Equal(t, c.want, endDeadline(c.now, asked, limit, c.read), name)
	}
}
