package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Temporal's server takes: "fairness key length exceeds limit" is the answer to more.
const longestFairnessKey = 64

func TestFairnessKeys(t *testing.T) {
	owners := map[string]string{} // namespaces whose names look like another one's keys are none
	for _, namespace := range []string{"", "a", "b", "a-a", strings.Repeat("n", 63)} {
		for kind, workflow := range map[string]string{
			"entity": WorkflowVM, "transition": WorkflowStartVM, "instance": WorkflowVMI,
		} {
			key := FairnessKey(namespace, workflow)
			require.LessOrEqual(t, len(key), longestFairnessKey)
			require.Empty(t, owners[key], "key %q of the %s in %q", key, kind, namespace)
			owners[key] = kind + " in " + namespace
		}
		require.Equal(t, FairnessKey(namespace, WorkflowStartVM), FairnessKey(namespace, WorkflowStopVM))
		require.Equal(t, namespace, FairnessKey(namespace, WorkflowReplicaSet))
	}
}
