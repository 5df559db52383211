package world_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/world"
)

// TestStories tells every story without faults, each also with entities that continue as new whenever they can.
func TestStories(t *testing.T) {
	for _, s := range slices.Concat(world.Scenarios(), world.Handovers(), world.Migrations()) {
		for name, anew := range map[string]bool{"": false, "/anew": true} {
			t.Run(s.Name+name, func(t *testing.T) {
				o := s.Options
				o.AlwaysAnew = anew
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
