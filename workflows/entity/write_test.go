package entity

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// writer is the state of an entity that writes the status of a pod.
type writer struct {
	Pod *pod `json:"pod,omitempty"`
	StatusWrites[string]
	believed, done bool
}

// wrote returns the result of a patch of version 10 that writes a status ("": none).
func (w *writer) wrote(status string, r contract.Patched[pod]) error {
	p := Patch[string, pod]{Kind: "Pod", UID: "a", Version: "10", Seen: &w.Pod,
		Replace: func(o *pod) { w.Pod, w.believed = o, true },
		Observe: func(o pod) { w.Pod = Newest(w.Pod, o) },
		Written: func() { w.done = true },
	}
	if status != "" {
		p.Status = &status
	}
	return FoldAnswer(&w.StatusWrites, p, r)
}

func TestWrote(t *testing.T) {
	seen := func(version string) *pod { return &pod{UID: "a", ResourceVersion: version} }
	was := "before"
	for name, c := range map[string]struct {
		seen   string // version, where there has been word of it meanwhile
		status string
		r      contract.Patched[pod]

		version                       string
		written                       string
		gone, unknown, believed, done bool
	}{
		"written": {status: "now", r: contract.Patched[pod]{Written: true, Current: seen("11")},
			version: "11", written: "now", done: true},
		"written, and it is gone": {status: "now", r: contract.Patched[pod]{Written: true, Gone: true},
			version: "10", written: "now", done: true, gone: true},
		"written, and there is news already": {seen: "12", status: "now",
			r: contract.Patched[pod]{Written: true, Current: seen("11")}, version: "12", written: "now", done: true},
		"something else is written": {r: contract.Patched[pod]{Written: true, Current: seen("11")},
			version: "11", written: was, unknown: true, done: true},
		"gone": {status: "now", r: contract.Patched[pod]{Gone: true}, version: "10", written: was, unknown: true,
			gone: true},
		"a conflict": {status: "now", r: contract.Patched[pod]{Conflict: true, Current: seen("11")},
			version: "11", written: was, unknown: true, believed: true},
		"a conflict with an older version, since etcd was put back": {status: "now",
			r: contract.Patched[pod]{Conflict: true, Current: seen("7")}, version: "7", written: was, unknown: true,
			believed: true},
		"a conflict with what is older than the last word": {seen: "12", status: "now",
			r: contract.Patched[pod]{Conflict: true, Current: seen("11")}, version: "12", written: was, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := writer{Pod: seen("10"), StatusWrites: StatusWrites[string]{Written: &was, OutcomeUnknown: true}}
			if c.seen != "" {
				w.Pod = seen(c.seen)
			}
			require.NoError(t, w.wrote(c.status, c.r))
			require.Equal(t, c.version, w.Pod.ResourceVersion)
			require.Equal(t, c.written, *w.Written)
			require.Equal(t, c.unknown, w.OutcomeUnknown)
			require.Equal(t, c.gone, w.Pod.Gone)
			require.Equal(t, c.believed, w.believed)
			require.Equal(t, c.done, w.done)
		})
	}
}

func TestOutcomeOfUnansweredWriteIsUnknown(t *testing.T) {
	var w StatusWrites[string]
	w.MarkWriteUnknown(nil)
	require.False(t, w.OutcomeUnknown, "it did not write the status")
	status := "now"
	w.MarkWriteUnknown(&status)
	w.MarkWriteUnknown(nil)
	require.True(t, w.OutcomeUnknown)

	of := writer{Pod: &pod{UID: "a", ResourceVersion: "10"}}
	require.NoError(t, of.wrote("", contract.Patched[pod]{Conflict: true}))
	require.False(t, of.OutcomeUnknown, "the patch that met another version did not write the status")
	require.NoError(t, of.wrote("now", contract.Patched[pod]{Written: true}))
	require.NoError(t, of.wrote("now", contract.Patched[pod]{Conflict: true}))
	require.True(t, of.OutcomeUnknown)
}

// TestConflictWithUnchangedObject: the second in a row is an error.
func TestConflictWithUnchangedObject(t *testing.T) {
	w := writer{Pod: &pod{UID: "a", ResourceVersion: "10"}}
	same := contract.Patched[pod]{Conflict: true, Current: &pod{UID: "a", ResourceVersion: "10"}}
	require.NoError(t, w.wrote("now", same), "once may be its own write, whose answer was lost")
	require.NoError(t, w.wrote("now", contract.Patched[pod]{Written: true}))
	require.NoError(t, w.wrote("now", same))
	require.ErrorContains(t, w.wrote("now", same), "conflict, but the Pod is unchanged: its version is still 10")
	require.NoError(t, w.wrote("now", contract.Patched[pod]{Conflict: true, Current: &pod{UID: "a",
		ResourceVersion: "11"}}))
	require.Zero(t, w.Conflicts)
	w.Pod.Gone = true
	require.NoError(t, w.wrote("now", contract.Patched[pod]{Conflict: true}), "that it is gone is news")
}

// TestStateCarriesStatusWrites: a state carries its status writes beside its other fields, in the JSON of earlier
// releases.
func TestStateCarriesStatusWrites(t *testing.T) {
	var w writer
	const carried = `{"pod":{"uid":"a","resourceVersion":"10"},"written":"now","outcomeUnknown":true,"conflicts":1}`
	require.NoError(t, json.Unmarshal([]byte(carried), &w))
	require.Equal(t, "now", *w.Written)
	require.True(t, w.OutcomeUnknown)
	require.EqualValues(t, 1, w.Conflicts)
}
