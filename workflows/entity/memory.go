package entity

// Memory says whether what an entity remembers may be older than what is true, or less.
type Memory struct {
	// Epoch is the newest in which something was observed: see contract.FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
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
