package support

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachUnsupportedFieldHasReason: each unsupported field has a reason, and no reason is about a supported field.
func TestEachUnsupportedFieldHasReason(t *testing.T) {
	for _, s := range AllUnsupported() {
		require.NotEmpty(t, s.Rows, s.Title)
		for _, r := range s.Rows {
			require.NotEmpty(t, r.Why, "%s: reasons.go says nothing of %s", s.Title, r.Path)
		}
	}
	used := map[reason]bool{}
	for _, o := range objects() {
		for _, u := range unlisted(o.of, o.supported) {
			r, _ := reasonOf(o.name, u.Path)
			used[r] = true
		}
	}
	for _, r := range reasons() {
		require.True(t, used[r], "reasons.go: nothing of %s needs a reason: %s", r.section, r.path)
	}
}

func TestOmitsSupportedFields(t *testing.T) {
	paths := map[string][]string{}
	for _, s := range AllUnsupported() {
		for _, r := range s.Rows {
			paths[r.Path] = r.Only
		}
	}
	require.Contains(t, paths, "volumes[].hostDisk")
	require.NotContains(t, paths, "volumes[].hostDisk.path", "it is listed as a whole")
	require.NotContains(t, paths, "volumes[].containerDisk")
	require.NotContains(t, paths, "domain.machine.type", "there are no others on amd64")
	require.NotContains(t, paths, "domain.ioThreadsPolicy", "all of KubeVirt's run")
	require.Equal(t, []string{"amd64"}, paths["architecture"])
}
