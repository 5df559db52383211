package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watcher is one watch stream.
type watcher struct {
	s       *Server
	q       query
	chosen  func(*object) bool
	after   int64     // the version that the client has
	initial []*object // sent first, as added
	mark    bool      // then send the bookmark for the end of these
}

type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// startWatch begins a stream at the requested version, or returns an error's answer.
func (s *Server) startWatch(r *http.Request, q query) (*watcher, *Fault) {
	if fault := s.count(r, q); fault != nil {
		return nil, fault
	}
	w := &watcher{s: s, q: q}
	var err error
	if w.chosen, err = q.selection(); err != nil {
		return nil, faultOf(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	version := q.parameters.Get("resourceVersion")
	if w.mark = q.parameters.Get("sendInitialEvents") == "true"; w.mark || version == "" || version == "0" {
		for _, o := range s.store.sorted(q.kind, q.namespace) {
			if w.chosen(o) {
				w.initial = append(w.initial, o)
			}
		}
		w.after = s.store.version
		return w, nil
	}
	if w.after, err = strconv.ParseInt(version, 10, 64); err != nil {
		return nil, faultOf(apierrors.NewBadRequest("invalid resource version: " + version))
	}
	if w.after < s.store.dropped {
		return nil, faultOf(apierrors.NewResourceExpired("too old resource version: " + version))
	}
	return w, nil
}

func faultOf(err error) *Fault {
	known, ok := err.(apierrors.APIStatus)
	if !ok {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	return &Fault{Status: &status}
}

// run sends lines until ctx ends, the client disconnects, or the log no longer has the next entry.
func (w *watcher) run(ctx context.Context, send func([]byte) error) error {
	for _, o := range w.initial {
		if err := w.send(send, string(Added), o.encode()); err != nil {
			return err
		}
	}
	if w.mark {
		if err := w.bookmark(send); err != nil {
			return err
		}
	}
	for {
		entries, grown, expired := w.next()
		if expired {
			status, err := json.Marshal(faultOf(apierrors.NewResourceExpired("too old resource version")).Status)
			if err != nil {
				return err
			}
			return w.send(send, "ERROR", status)
		}
		for _, e := range entries {
			w.after = e.version
			kind, o := w.seen(e)
			if kind == "" {
				continue
			}
			if err := w.send(send, kind, o.encode()); err != nil {
				return err
			}
		}
		if len(entries) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

func (w *watcher) send(send func([]byte) error, kind string, body []byte) error {
	line, err := json.Marshal(watchEvent{kind, body})
	if err != nil {
		return err
	}
	return send(append(line, '\n'))
}

// bookmark sends the bookmark that ends the initial objects.
func (w *watcher) bookmark(send func([]byte) error) error {
	body, err := json.Marshal(map[string]any{
		"kind": w.q.kind.name, "apiVersion": w.q.kind.apiVersion(),
		"metadata": map[string]any{
			"resourceVersion": strconv.FormatInt(w.after, 10),
			"annotations":     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
	if err != nil {
		return err
	}
	return w.send(send, "BOOKMARK", body)
}

// next returns the new entries of the log; grown is closed when there are more.
func (w *watcher) next() (entries []entry, grown <-chan struct{}, expired bool) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	st := w.s.store
	if w.after < st.dropped {
		return nil, nil, true
	}
	for i := len(st.log) - 1; i >= 0 && st.log[i].version > w.after; i-- {
		entries = st.log[i:]
	}
	return entries, st.grown, false
}

// seen returns the event of a write in this stream: an object that the selectors no longer match is deleted for it.
func (w *watcher) seen(e entry) (string, *object) {
	if e.new.kind != w.q.kind || w.q.namespace != "" && e.new.meta.Namespace != w.q.namespace {
		return "", nil
	}
	is := e.change != Deleted && w.chosen(e.new)
	was := e.old != nil && w.chosen(e.old)
	switch {
	case is && was:
		return string(Modified), e.new
	case is:
		return string(Added), e.new
	case was && e.change == Deleted:
		return string(Deleted), e.new
	case was:
		gone := e.old.clone()
		gone.meta.ResourceVersion = e.new.meta.ResourceVersion
		return string(Deleted), gone
	default:
		return "", nil
	}
}
