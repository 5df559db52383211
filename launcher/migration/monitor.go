package migration

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/launcher/guest"
)

// stallLimit is how long a migration may copy nothing at all. libvirt does not detect a stream that hangs.
const stallLimit = 30 * time.Second

// beginLimit is the time that the target has to accept the first byte.
const beginLimit = time.Minute

// Limits has the limits of one migration; 0 means none.
type Limits struct {
	// Completion is the time within which it must end.
	Completion time.Duration
	// Progress is the longest time without progress.
	Progress time.Duration
	// Disruption permits a pause of the guest where the migration would not end otherwise. Completion then counts once
	// more.
	Disruption bool
}

// Decision has what to do about a migration.
type Decision struct {
	Abort string // why; "": continue
	Pause bool   // the guest
}

// Monitor decides about a migration from samples. A zero Monitor with Limits is ready for use.
type Monitor struct {
	Limits Limits

	paused    bool
	processed int64
	copiedAt  time.Duration // when data was last copied
	remaining int64
	nearerAt  time.Duration // when it last made progress
	begun     bool
}

// Look decides from a sample that was taken at that time since the beginning. Without a sample (ok is false) the
// migration is being prepared, or libvirt does not answer.
func (m *Monitor) Look(at time.Duration, c guest.Copying, ok bool) Decision {
	if ok {
		m.record(at, c)
	}
	limit := m.Limits.Completion
	if m.paused {
		limit *= 2
	}
	switch {
	case !m.begun && at > beginLimit:
		return Decision{Abort: fmt.Sprintf("no data was copied within %s of its beginning", beginLimit)}
	case m.begun && at-m.copiedAt > stallLimit:
		return Decision{Abort: fmt.Sprintf("stalled: nothing was copied for %s", stallLimit)}
	case m.begun && m.Limits.Progress > 0 && at-m.nearerAt > m.Limits.Progress:
		return Decision{Abort: fmt.Sprintf("no progress for %s", m.Limits.Progress)}
	case limit == 0 || at <= limit:
		return Decision{}
	case m.Limits.Disruption && !m.paused:
		m.paused = true
		return Decision{Pause: true}
	default:
		return Decision{Abort: fmt.Sprintf("not completed within %s", limit)}
	}
}

// record records one sample of the copy.
func (m *Monitor) record(at time.Duration, c guest.Copying) {
	if !m.begun || c.Processed != m.processed {
		m.processed, m.copiedAt = c.Processed, at
	}
	// Progress is what KubeVirt counts as such: less is left than at the sample before.
	if !m.begun || c.Remaining < m.remaining {
		m.nearerAt = at
	}
	m.remaining, m.begun = c.Remaining, true
}
