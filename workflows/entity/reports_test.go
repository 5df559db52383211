package entity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/entity"
)

// TestRequestedBy: the user is the one who was reported to have requested the deletion not long before, or else the
// last who changed the object.
func TestRequestedBy(t *testing.T) {
	deleted := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	reported := func(after time.Duration) entity.Manual {
		return entity.Manual{Deleter: "bob", DeletionAsked: deleted.Add(after)}
	}
	for name, c := range map[string]struct {
		deleting bool
		since    *time.Time
		reported entity.Manual
		want     string
	}{
		"it stays":              {false, nil, reported(0), "alice"},
		"no actor was reported": {true, &deleted, entity.Manual{}, "alice"},
		"reported":              {true, &deleted, reported(0), "bob"},
		"reported later":        {true, &deleted, reported(time.Hour), "bob"},
		"a minute before":       {true, &deleted, reported(-time.Minute), "bob"},
		"more than that before": {true, &deleted, reported(-61 * time.Second), "alice"},
		"the time is unknown":   {true, &deleted, entity.Manual{Deleter: "bob"}, "bob"},
		"it is gone, and its deletion was not observed": {true, nil, reported(0), "bob"},
	} {
		require.Equal(t, c.want, c.reported.RequestedBy(c.deleting, c.since, "alice"), name)
	}
}
