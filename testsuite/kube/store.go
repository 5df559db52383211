package kube

import (
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// store has the objects and the log of writes. The server's lock guards it.
type store struct {
	kinds    map[string]*kind
	objects  map[string]map[string]*object // by resource and key
	version  int64
	made     int64 // objects made so far; UIDs derive from it
	log      []entry
	dropped  int64         // version of the newest entry that was trimmed from the log
	grown    chan struct{} // closed when the log grows
	notified int           // entries of the log that the listeners have
	dirty    bool          // the collector may have work
}

// entry is one write.
type entry struct {
	version  int64
	change   ChangeType
	old, new *object
}

// keptEntries bounds the log for watches. A watch from an earlier version gets the error that its version is too old.
const keptEntries = 20000

// firstVersion is the first resourceVersion: not one, so that tests do not confuse versions and generations.
const firstVersion = 100

func newStore(group string) *store {
	s := &store{kinds: kinds(), objects: map[string]map[string]*object{}, version: firstVersion, dropped: firstVersion,
		grown: make(chan struct{})}
	for resource, k := range s.kinds {
		s.objects[resource] = map[string]*object{}
		if k.custom && group != "" {
			k.Group = group
		}
	}
	return s
}

func (s *store) find(k *kind, namespace, name string) *object {
	return s.objects[k.Resource][key(namespace, name)]
}

// sorted returns the objects of a kind in a namespace ("": all), by namespace and name.
func (s *store) sorted(k *kind, namespace string) []*object {
	all := s.objects[k.Resource]
	var out []*object
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if o := all[name]; namespace == "" || o.meta.Namespace == namespace {
			out = append(out, o)
		}
	}
	return out
}

// sortedAt returns the objects that a request selects, in the version that the request names.
func (s *store) sortedAt(q query) ([]*object, error) {
	version, err := strconv.ParseInt(q.parameters.Get("resourceVersion"), 10, 64)
	if err != nil || version < s.dropped {
		return nil, apierrors.NewResourceExpired("the provided resource version is too old")
	}
	then := maps.Clone(s.objects[q.kind.Resource])
	for _, e := range slices.Backward(s.log) {
		switch {
		case e.version <= version || e.new.kind != q.kind:
		case e.change == Added:
			delete(then, e.new.key())
		default:
			then[e.new.key()] = e.old
		}
	}
	at := &store{objects: map[string]map[string]*object{q.kind.Resource: then}}
	return at.sorted(q.kind, q.namespace), nil
}

// everything returns all objects of all kinds, in a fixed order.
func (s *store) everything() []*object {
	var out []*object
	for _, resource := range slices.Sorted(maps.Keys(s.kinds)) {
		out = append(out, s.sorted(s.kinds[resource], "")...)
	}
	return out
}

// write stores a new or changed object.
func (s *store) write(old, o *object) *object {
	s.version++
	o.meta.ResourceVersion = strconv.FormatInt(s.version, 10)
	o.encoded = nil
	o.encode() // now, so that it can be read without the lock
	s.objects[o.kind.Resource][o.key()] = o
	change := Modified
	if old == nil {
		change = Added
	}
	s.append(entry{s.version, change, old, o})
	return o
}

// erase removes an object; last is its final state.
func (s *store) erase(old, last *object) *object {
	s.version++
	last = last.clone()
	last.meta.ResourceVersion = strconv.FormatInt(s.version, 10)
	last.encode()
	delete(s.objects[old.kind.Resource], old.key())
	s.append(entry{s.version, Deleted, old, last})
	return last
}

func (s *store) append(e entry) {
	s.log = append(s.log, e)
	s.dirty = s.dirty || concernsCollector(e)
	close(s.grown)
	s.grown = make(chan struct{})
}

// trim removes old entries that all listeners have.
func (s *store) trim() {
	if drop := min(len(s.log)-keptEntries, s.notified); drop > keptEntries/10 {
		s.dropped = s.log[drop-1].version
		s.log = slices.Clone(s.log[drop:])
		s.notified -= drop
	}
}

// uid returns the UID of the next object: unique in this server, and the same in every run of a test.
func (s *store) uid() types.UID {
	s.made++
	const hex = "0123456789abcdef"
	// spread, so that prefixes differ too
	n, out := uint64(s.made)*0x9e3779b97f4a7c15, []byte("00000000-0000-4000-8000-000000000000")
	for i := range 8 {
		out[i] = hex[n>>(60-4*i)&15]
	}
	for i := range 12 {
		out[35-i] = hex[uint64(s.made)>>(4*i)&15]
	}
	return types.UID(out)
}
