package world_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/testsuite/world"
)

// TestStories plays every story without faults, each also with entities that continue as new as often as possible.
func TestStories(t *testing.T) {
	for _, s := range slices.Concat(world.Scenarios(), world.Handovers(), world.Failures()) {
		for name, always := range map[string]bool{"": false, "/continue-as-new": true} {
			t.Run(s.Name+name, func(t *testing.T) {
				o := s.Options
				o.AlwaysContinueAsNew = always
				w, err := world.New(o)
				require.NoError(t, err)
				s.Play(w)
				if os.Getenv("VIRTFLOW_TRACE") != "" {
					t.Log("\n" + w.Trace())
				}
				require.Empty(t, w.Broken)
			})
		}
	}
}

// TestMigrations plays the stories of everything that may happen at each moment of a migration, every second one with
// entities that continue as new as often as possible.
func TestMigrations(t *testing.T) {
	all := world.Migrations()
	t.Cleanup(func() { suite.PrintFigures(t, "migrations: stories %d", len(all)) })
	for i, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.Options.AlwaysContinueAsNew = i%2 == 1
			w, err := world.New(s.Options)
			require.NoError(t, err)
			s.Play(w)
			reportBroken(t, w)
		})
	}
}
