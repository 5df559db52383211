package kube

import "maps"

// Snapshot is a copy of what a server had at a moment.
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

// Restore puts a copy in the place of everything, as etcdctl snapshot restore does. Nobody is told, and versions run
// backwards: a watch that has a version which lies ahead now hears nothing until that has been passed. UIDs are not
// given twice.
func (s *Server) Restore(from Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for resource, all := range from.objects {
		s.store.objects[resource] = maps.Clone(all)
	}
	s.store.version, s.store.dropped = from.version, from.version
	s.store.log, s.store.told, s.store.dirty = nil, 0, true
}
