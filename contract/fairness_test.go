package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// longestFairnessKey is in bytes: Temporal's server refuses more.
const longestFairnessKey = 64

func TestFairnessKeys(t *testing.T) {
	marks := map[string]string{
		WorkflowVM: "", WorkflowReplicaSet: "", WorkflowNode: "", WorkflowAdmission: "", WorkflowWorkloadUpdate: "",
		WorkflowFencingToken: "",
		WorkflowStartVM:      ":", WorkflowStopVM: ":", WorkflowRestartVM: ":", WorkflowReplicate: ":",
		WorkflowDrain: ":", WorkflowMigration: ":",
		WorkflowVMI: "/",
	}
	for _, workflow := range WorkflowTypes() {
		mark, decided := marks[workflow]
		require.True(t, decided, "with what %s takes turns", workflow)
		// No namespace's name begins with a mark.
		for _, namespace := range []string{"", "a", strings.Repeat("n", 63)} {
			key := FairnessKey(namespace, workflow)
			require.Equal(t, mark+namespace, key)
			require.LessOrEqual(t, len(key), longestFairnessKey)
		}
	}
}

func TestWhatBelongsToNoNamespaceGoesFirst(t *testing.T) {
	const byDefault = 3 // Temporal's, of 1 to 5, where 1 goes first
	require.Positive(t, PriorityKey(""))
	require.Less(t, PriorityKey(""), byDefault)
	require.Zero(t, PriorityKey("a"))
}
