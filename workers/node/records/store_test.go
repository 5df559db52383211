package records

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

const pod = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := Open(dir)
	require.NoError(t, err)
	r := Record{Pod: contract.Object{Namespace: "n", Name: "p", UID: pod},
		VMI: contract.Object{Namespace: "n", Name: "v", UID: "u"}}
	require.NoError(t, s.Save(r))
	r.Delivered = &contract.DomainObservation{PodUID: pod, Sequence: 2, State: contract.DomainRunning}
	require.NoError(t, s.Save(r))

	// What a kill in the middle of a write leaves, and what is no record, harms no other.
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".new-1"), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "0123456789abcdef0123456789abcdef.json"), []byte("{"), 0o600))
	got, err := s.Load()
	require.ErrorContains(t, err, "0123456789abcdef")
	require.Equal(t, []Record{r}, got)
	require.NoFileExists(t, filepath.Join(dir, ".new-1"))

	require.NoError(t, s.Remove(pod))
	require.NoError(t, s.Remove(pod))
	got, _ = s.Load()
	require.Empty(t, got)
	require.Error(t, s.Save(Record{Pod: contract.Object{UID: "../x"}}))
}
