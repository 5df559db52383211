package kube

import "maps"

// Snapshot is a copy of a server's store.
type Snapshot struct {
	objects map[string]map[string]*object
	version int64
}

// Snapshot copies everything, as etcdctl snapshot save does.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Snapshot{objects: map[string]map[string]*object{}, version: s.store.version}
	for resource, all := range s.store.objects {
		out.objects[resource] = maps.Clone(all)
	}
	return out
}

// Restore replaces the store by a copy, as etcdctl snapshot restore does. Listeners are not notified, and versions run
// backwards: a watch whose version is now in the future gets no events until that version has passed. UIDs are not
// reused.
func (s *Server) Restore(from Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for resource, all := range from.objects {
		s.store.objects[resource] = maps.Clone(all)
	}
	s.store.version, s.store.dropped = from.version, from.version
	s.store.log, s.store.notified, s.store.dirty = nil, 0, true
}
