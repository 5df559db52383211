package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestLimitsConcurrentTasks: by what the machine can do, for every kind of work.
func TestLimitsConcurrentTasks(t *testing.T) {
	for cpus, want := range map[int]int{1: 16, 2: 16, 4: 32, 64: 128} {
		require.Equal(t, want, DefaultMaxConcurrent(cpus))
	}
	o := Options{MaxConcurrent: 7}
	for queue, workflowsOnly := range map[string]bool{
		contract.ControlTaskQueue: false, contract.TransitionTaskQueue: true,
	} {
		w := o.worker(queue, nil)
		require.Equal(t, []int{7, 7, 7}, []int{
			w.MaxConcurrentActivityExecutionSize, w.MaxConcurrentLocalActivityExecutionSize,
			w.MaxConcurrentWorkflowTaskExecutionSize,
		})
		require.Equal(t, workflowsOnly, w.LocalActivityWorkerOnly, queue)
	}
}
