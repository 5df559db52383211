package delivery

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/virtflow/virtflow/contract"
)

// emptied is a Temporal that has lost the workflow that it is sent something for.
type emptied struct {
	mu       sync.Mutex
	runs     bool     // again
	received []string // "signal UID"
	refuses  int      // so many starts, as it does without its search attributes
}

func (e *emptied) Send(_ context.Context, d *Delivery) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case d.Start == nil && !e.runs:
		return ErrAbsent
	case d.Start != nil && e.refuses > 0:
		e.refuses--
		return serviceerror.NewInvalidArgument("no such search attribute")
	}
	e.runs, e.received = true, append(e.received, d.Signal+" "+d.UID)
	return nil
}

func (e *emptied) WaitProcessed(context.Context, string) error { return nil }

// TestAbsentWorkflowIsStartedFirst: the other deliveries follow in order, but not the end of an object.
func TestAbsentWorkflowIsStartedFirst(t *testing.T) {
	at := func(signal, uid string, payload any, start *Start) Delivery {
		return Delivery{Workflow: "vmi/a/b", Signal: signal, UID: uid, Payload: payload, Start: start}
	}
	vmi := at(contract.SignalObserveVMI, "new", contract.VMIObservation{}, &Start{})
	pod := func(uid string, gone bool) Delivery {
		return at(contract.SignalObservePod, uid, contract.PodObservation{Gone: gone}, nil)
	}
	node := func(uid string, gone bool) Delivery {
		return at(contract.SignalObserveNode, uid, contract.NodeState{Gone: gone}, nil)
	}
	for name, c := range map[string]struct {
		refuses int
		put     []Delivery
		want    []string
	}{
		"seen before it": {put: []Delivery{pod("p", false), pod("t", false), vmi, node("p", true), node("t", false)},
			want: []string{"observe-vmi new", "observe-pod p", "observe-pod t", "observe-node p", "observe-node t"}},
		"the start is refused at first": {refuses: 2, put: []Delivery{vmi, pod("p", false), node("p", false)},
			want: []string{"observe-vmi new", "observe-pod p", "observe-node p"}},
		"of an earlier one": {put: []Delivery{pod("old", true),
			at(contract.SignalObserveVMI, "old", contract.VMIObservation{Gone: true}, nil), vmi},
			want: []string{"observe-vmi new"}},
		"of the same kind": {put: []Delivery{
			at(contract.SignalObserveMigration, "old", contract.QueuedMigration{Ended: true}, nil),
			at(contract.SignalObserveMigration, "new", contract.QueuedMigration{}, &Start{})},
			want: []string{"observe-migration new"}},
		"nothing starts it": {put: []Delivery{pod("p", false), node("p", false)}},
	} {
		t.Run(name, func(t *testing.T) {
			temporal := &emptied{refuses: c.refuses}
			o, run := newTestOutbox(t, temporal)
			for _, d := range c.put {
				o.Put(d)
			}
			run()
			require.Eventually(t, func() bool { return !o.hasDue("vmi/a/b") }, 10*time.Second, time.Millisecond)
			temporal.mu.Lock()
			defer temporal.mu.Unlock()
			require.Equal(t, c.want, temporal.received)
		})
	}
}
