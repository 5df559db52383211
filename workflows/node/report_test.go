package node

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

func TestObstacles(t *testing.T) {
	well := contract.NodeObservation{UID: "u", Ready: true, WorkerReady: true,
		Labels: map[string]string{contract.LabelSchedulable: "true"}}
	for name, c := range map[string]struct {
		change func(*contract.NodeObservation)
		label  string
		event  string
	}{
		"nothing":        {func(*contract.NodeObservation) {}, "true", ""},
		"cordoned":       {func(o *contract.NodeObservation) { o.Unschedulable = true }, "false", ""},
		"not ready":      {func(o *contract.NodeObservation) { o.Ready = false }, "false", "Normal"},
		"no worker":      {func(o *contract.NodeObservation) { o.WorkerReady = false }, "false", "Warning"},
		"out of service": {func(o *contract.NodeObservation) { o.OutOfService = true }, "false", "Normal"},
	} {
		t.Run(name, func(t *testing.T) {
			o := well
			c.change(&o)
			s := State{Name: "node1", Node: &o, Report: &contract.NodeReport{Incarnation: "a"}}
			require.Equal(t, c.label, *s.labels()[contract.LabelSchedulable])
			events := s.events(s.labelChanges())
			if c.event == "" {
				require.Empty(t, events)
				return
			}
			require.Len(t, events, 1)
			require.Equal(t, c.event, events[0].Type)
			require.Equal(t, contract.ReasonNodeUnresponsive, events[0].Reason)
		})
	}
}

// Events about KVM are recorded once, by the value with which the labels were last written.
func TestKVMEvents(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		was    *bool
		now    contract.NodeReport
		reason string
	}{
		"first report": {nil, contract.NodeReport{KVMProblem: "none"}, ""},
		"as before":    {&yes, contract.NodeReport{KVM: true}, ""},
		"comes":        {&no, contract.NodeReport{KVM: true}, contract.ReasonKVMWorks},
		"goes":         {&yes, contract.NodeReport{KVMProblem: "no such file"}, contract.ReasonKVMUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Name: "node1", KVMWorked: c.was, Report: &c.now,
				Node: &contract.NodeObservation{UID: "u", Ready: true, WorkerReady: true}}
			events := s.events(nil)
			if c.reason == "" {
				require.Empty(t, events)
				return
			}
			require.Len(t, events, 1)
			require.Equal(t, c.reason, events[0].Reason)
			require.Contains(t, events[0].Message, c.now.KVMProblem)
		})
	}
}

// world is a node entity on a node whose worker answers, with time that skips.
type world struct {
	env     *testsuite.TestWorkflowEnvironment
	labels  map[string]string
	worker  contract.NodeReport
	deaf    bool
	asked   int
	version int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{env: environment.New(), labels: map[string]string{}}
	w.env.RegisterActivityWithOptions(func(_ context.Context, in contract.PatchNodeInput) error {
		for k, v := range in.Labels {
			if v != nil {
				w.labels[k] = *v
			}
		}
		return nil
	}, activity.RegisterOptions{Name: contract.ActivityPatchNode})
	w.env.RegisterActivityWithOptions(func(context.Context) (contract.ReportNodeResult, error) {
		w.asked++
		if w.deaf {
			return contract.ReportNodeResult{}, temporal.NewApplicationError("not now", "Busy")
		}
		return contract.ReportNodeResult{Report: w.worker}, nil
	}, activity.RegisterOptions{Name: contract.ActivityReportNode})
	return w
}

func (w *world) at(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, d) }

func (w *world) observe(o contract.NodeObservation) {
	w.version++
	o.UID, o.ResourceVersion = "u", string(rune('0'+w.version))
	o.Labels = map[string]string{}
	for k, v := range w.labels {
		o.Labels[k] = v
	}
	w.env.SignalWorkflow(contract.SignalObserveNode, o)
}

func (w *world) run(t *testing.T) {
	t.Helper()
	w.env.ExecuteWorkflow(Workflow, contract.EntityInput{Name: "node1"})
	require.True(t, w.env.IsWorkflowCompleted())
	require.NoError(t, w.env.GetWorkflowError())
}

// TestSchedulableLabelReturns: Temporal's database is lost while the node takes no VMs; its worker has reported long
// ago and does not repeat that by itself.
func TestSchedulableLabelReturns(t *testing.T) {
	w := newWorld(t)
	w.labels[contract.LabelSchedulable] = "false"
	w.worker = contract.NodeReport{Incarnation: "a", Sequence: 1, CPUVendor: "AMD"}
	w.deaf = true
	well := contract.NodeObservation{Ready: true, WorkerReady: true}
	w.at(0, func() { w.observe(well) })
	w.at(5*time.Minute, func() {
		require.Equal(t, "false", w.labels[contract.LabelSchedulable])
		require.Less(t, w.asked, 40, "a worker that does not answer is asked with pauses")
		w.deaf = false
	})
	w.at(10*time.Minute, func() {
		require.Equal(t, "true", w.labels[contract.LabelSchedulable])
		require.Equal(t, "true", w.labels[CPUVendorPrefix+"AMD"])
		w.env.SignalWorkflow(contract.SignalObserveNode, contract.NodeObservation{UID: "u", Gone: true})
	})
	w.run(t)
}

// TestEarlierWorkersReportIsReplaced: the signal of a worker that was stopped arrives after that of its successor.
func TestEarlierWorkersReportIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.worker = contract.NodeReport{Incarnation: "new", Sequence: 1, CPUModel: "now"}
	w.at(0, func() { w.observe(contract.NodeObservation{Ready: true, WorkerReady: true}) })
	w.at(time.Second, func() { w.env.SignalWorkflow(contract.SignalReportNode, w.worker) })
	w.at(2*time.Second, func() {
		w.env.SignalWorkflow(contract.SignalReportNode,
			contract.NodeReport{Incarnation: "old", Sequence: 7, CPUModel: "then"})
	})
	w.at(time.Minute, func() {
		v, err := w.env.QueryWorkflow(contract.QueryState)
		require.NoError(t, err)
		var s State
		require.NoError(t, v.Get(&s))
		require.Equal(t, "now", s.Report.CPUModel)
		require.False(t, s.Unconfirmed)
		w.env.SignalWorkflow(contract.SignalObserveNode, contract.NodeObservation{UID: "u", Gone: true})
	})
	w.run(t)
}

// Reports are cut to their bounds before the entity keeps them, by signal or by activity.
func TestBoundsReports(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	r := contract.NodeReport{Incarnation: "a", Sequence: 1, KVMProblem: long, Version: long,
		Capabilities: &contract.HostCapabilities{HostModel: long,
			CPUFeatures: append(slices.Repeat([]string{"aes"}, 1000), "sse")}}
	r.Capabilities.CPUFeatures[0] = long
	var signalled, asked State
	signalled.report(r)
	asked.observeAnswer(r)
	for _, s := range []State{signalled, asked} {
		b, err := json.Marshal(s)
		require.NoError(t, err)
		require.Less(t, len(b), 8<<10)
		require.Len(t, s.Report.Capabilities.CPUFeatures, contract.MostCapabilities-1)
	}
	require.Len(t, r.KVMProblem, len(long), "the caller's own is unchanged")
	require.Equal(t, long, r.Capabilities.CPUFeatures[0])
}
