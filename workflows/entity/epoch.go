package entity

// Memory has whether an entity's state may be older than Kubernetes' state, or incomplete.
type Memory struct {
	// Epoch is the newest one of any observation: see contract.FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// ObjectEpoch is the newest one of an observation of the entity's own object; other objects' may come first.
	ObjectEpoch int64 `json:"objectEpoch,omitempty"`
	// Stale is set when the API server has to be read before any decision.
	Stale bool `json:"stale,omitempty"`
}

// AdvanceEpoch records the epoch of an observation, and reports whether it is a new one. The state then may be that of
// an older copy of Temporal's database, or a restore of etcd has let versions run backwards. The observation counts,
// whatever its version, and the API server is read.
func (m *Memory) AdvanceEpoch(epoch int64) bool {
	if epoch <= m.Epoch {
		return false
	}
	newEpoch := m.Epoch != 0
	m.Epoch = epoch
	m.ReadAgainIf(newEpoch)
	return newEpoch
}

// AdvanceObjectEpoch is AdvanceEpoch for an observation of the entity's own object, and reports whether it is the
// object's first in a new epoch. The API server is read after it, also where it was read before: the read may be older.
func (m *Memory) AdvanceObjectEpoch(epoch int64) bool {
	newEpoch := m.AdvanceEpoch(epoch) || m.ObjectEpoch != 0 && epoch > m.ObjectEpoch
	m.ObjectEpoch = max(m.ObjectEpoch, epoch)
	m.ReadAgainIf(newEpoch)
	return newEpoch
}

// ReadAgain has the API server read before any decision.
func (m *Memory) ReadAgain() { m.Stale = true }

// ReadAgainIf is ReadAgain if the state may be old or incomplete.
func (m *Memory) ReadAgainIf(maybeOld bool) { m.Stale = m.Stale || maybeOld }

// NoteRead notes that the API server was read, or need not be.
func (m *Memory) NoteRead() { m.Stale = false }

// Next returns the memory of the entity that continues with the next object of its name.
func (m *Memory) Next() Memory { return Memory{Epoch: m.Epoch, ObjectEpoch: m.ObjectEpoch} }
