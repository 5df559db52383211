package cluster

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/dev/layout"
)

func TestChooseDatabase(t *testing.T) {
	for _, c := range []struct{ wanted, kept, chosen, refused string }{
		{"", "", "sqlite", ""},
		{"sqlite", "", "sqlite", ""},
		{"postgres", "", "postgres", ""},
		{"", "sqlite", "sqlite", ""},
		{"", "postgres", "postgres", ""},
		{"sqlite", "sqlite", "sqlite", ""},
		{"postgres", "postgres", "postgres", ""},
		{"postgres", "sqlite", "", "make down PURGE=1"},
		{"sqlite", "postgres", "", "make down PURGE=1"},
		{"mysql", "", "", "give sqlite or postgres"},
		{"mysql", "sqlite", "", "give sqlite or postgres"},
	} {
		chosen, err := chooseDatabase(c.wanted, c.kept)
		require.Equal(t, c.chosen, chosen, c)
		if c.refused == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.refused, c)
		}
	}
}

func TestKeptDatabase(t *testing.T) {
	c := Cluster{Layout: layout.Layout{State: t.TempDir()}}
	require.Empty(t, c.keptDatabase())
	require.NoError(t, os.MkdirAll(c.Layout.Path("temporal"), 0o700))
	require.Empty(t, c.keptDatabase(), "the folder alone, which both have, is no database")
	require.NoError(t, os.WriteFile(c.Layout.Path("temporal", "temporal.db"), nil, 0o600))
	require.Equal(t, "sqlite", c.keptDatabase())

	c.Layout.State = t.TempDir()
	require.NoError(t, os.MkdirAll(c.Layout.Path("postgres", "data.partial"), 0o700))
	require.Empty(t, c.keptDatabase())
	require.NoError(t, os.MkdirAll(c.Layout.Path("postgres", "data"), 0o700))
	require.Equal(t, "postgres", c.keptDatabase())
}
