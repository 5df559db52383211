package entity

// Memory says whether what an entity remembers may be older than what is true, or less.
type Memory struct {
	// Epoch is the newest in which something was observed: see contract.FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// ObjectEpoch is the newest in which the entity's own object was observed: of others it may hear first.
	ObjectEpoch int64 `json:"objectEpoch,omitempty"`
	// Stale says that what is true has to be read before anything is decided.
	Stale bool `json:"stale,omitempty"`
}

// Heard notes the epoch of an observation, and says whether it begins a new one: then the memory may be that of an
// older copy of Temporal's database, or an older copy of Kubernetes' has let versions run backwards. What is observed
// counts, whatever its version, and all is read.
func (m *Memory) Heard(epoch int64) bool {
	if epoch <= m.Epoch {
		return false
	}
	again := m.Epoch != 0
	m.Epoch = epoch
	m.Stale = m.Stale || again
	return again
}

// HeardObject is Heard for an observation of the entity's own object, and says whether that is the first of it in a new
// epoch. What is true is read after it, also where it was read before: it may be older than that.
func (m *Memory) HeardObject(epoch int64) bool {
	again := m.Heard(epoch) || m.ObjectEpoch != 0 && epoch > m.ObjectEpoch
	m.ObjectEpoch = max(m.ObjectEpoch, epoch)
	m.Stale = m.Stale || again
	return again
}

// Next is the memory of the entity that goes on with the next object of its name.
func (m *Memory) Next() Memory { return Memory{Epoch: m.Epoch, ObjectEpoch: m.ObjectEpoch} }
