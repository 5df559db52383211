package migration

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/launcher/guest"
)

// stallLimit is how long a migration may copy nothing at all. libvirt does not notice a stream that hangs.
const stallLimit = 30 * time.Second

// beginLimit is how long the target may take to be ready for the first byte.
const beginLimit = time.Minute

// Limits of one migration; 0: none.
type Limits struct {
	// Completion is when it has to have ended.
	Completion time.Duration
	// Progress is how long it may go on without coming nearer to its end.
	Progress time.Duration
	// Disruption: the guest may be paused where the migration would not end otherwise. It has as long again then.
	Disruption bool
}

// Decision is what is to be done about a migration.
type Decision struct {
	Abort string // why; "": go on
	Pause bool   // the guest
}

// Monitor judges a migration by its samples. Its zero value with Limits is ready.
type Monitor struct {
	Limits Limits

	paused    bool
	processed int64
	copiedAt  time.Duration // when something was last copied
	remaining int64
	nearerAt  time.Duration // when it last came nearer to its end
	begun     bool
}

// Look judges by a sample that was taken so long after the beginning. Without a sample (ok is false) the migration is
// being prepared, or libvirt is away.
func (m *Monitor) Look(at time.Duration, c guest.Copying, ok bool) Decision {
	if ok {
		m.note(at, c)
	}
	limit := m.Limits.Completion
	if m.paused {
		limit *= 2
	}
	switch {
	case !m.begun && at > beginLimit:
		return Decision{Abort: fmt.Sprintf("it has not begun to copy within %s", beginLimit)}
	case m.begun && at-m.copiedAt > stallLimit:
		return Decision{Abort: fmt.Sprintf("stalled: nothing was copied for %s", stallLimit)}
	case m.begun && m.Limits.Progress > 0 && at-m.nearerAt > m.Limits.Progress:
		return Decision{Abort: fmt.Sprintf("it came no nearer to its end for %s", m.Limits.Progress)}
	case limit == 0 || at <= limit:
		return Decision{}
	case m.Limits.Disruption && !m.paused:
		m.paused = true
		return Decision{Pause: true}
	default:
		return Decision{Abort: fmt.Sprintf("it has not ended within %s", limit)}
	}
}

func (m *Monitor) note(at time.Duration, c guest.Copying) {
	if !m.begun || c.Processed != m.processed {
		m.processed, m.copiedAt = c.Processed, at
	}
	// As KubeVirt judges: less left than at the look before is progress.
	if !m.begun || c.Remaining < m.remaining {
		m.nearerAt = at
	}
	m.remaining, m.begun = c.Remaining, true
}
