package watch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAbsenceKeepsItsVersion: an object of version 30 that is not in the store yet is newer than its absence, although
// the informer has read up to version 35.
func TestAbsenceKeepsItsVersion(t *testing.T) {
	var a absence
	require.Empty(t, a.version(""), "nothing has been read")
	require.Equal(t, "20", a.version("20"))
	require.Equal(t, "20", a.version("35"))
	a.end()
	require.Equal(t, "40", a.version("40"))
}
