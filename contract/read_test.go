package contract

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPodsAcrossReleases: one that knows of a single pod reads and writes it as "pod".
func TestPodsAcrossReleases(t *testing.T) {
	var r ReadVMIResult
	require.Empty(t, r.Pods())
	require.NoError(t, json.Unmarshal([]byte(`{"vmi":{"uid":"i"},"pod":{"uid":"p"}}`), &r))
	require.Equal(t, "i", r.VMI.UID)
	require.Equal(t, []PodObservation{{UID: "p"}}, r.Pods())
	r.FindPodResult = FoundPods(PodObservation{UID: "p"}, PodObservation{UID: "q"})
	b, err := json.Marshal(r)
	require.NoError(t, err)
	var old struct{ Pod PodObservation }
	require.NoError(t, json.Unmarshal(b, &old))
	require.Equal(t, "p", old.Pod.UID)
	var again ReadVMIResult
	require.NoError(t, json.Unmarshal(b, &again))
	require.Equal(t, r, again)
	require.Len(t, again.Pods(), 2)
}
