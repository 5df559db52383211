package node

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Labels of nodes that virtflow owns. CPUVendorPrefix is followed by the vendor's name.
const (
	CPUVendorPrefix = "cpu-vendor.node.kubevirt.io/"
)

// stepWrite names the step that writes the labels.
const stepWrite = "write the labels"

// State is everything that a node entity knows. It is carried across Continue-As-New.
type State struct {
	Name   string                    `json:"name"`
	Node   *contract.NodeObservation `json:"node,omitempty"`
	Report *contract.NodeReport      `json:"report,omitempty"`
	// KVMWorked is what the labels were last written with.
	KVMWorked *bool           `json:"kvmWorked,omitempty"`
	Failure   *entity.Failure `json:"failure,omitempty"`
	entity.Manual
	entity.Memory

	// Asking says that the node's worker is being asked for its report, Unconfirmed that the report in hand may not be
	// of the worker that runs now, and AskAt when it is asked again (after Asked attempts in vain).
	Asking      bool      `json:"asking,omitempty"`
	Unconfirmed bool      `json:"unconfirmed,omitempty"`
	Asked       int       `json:"asked,omitempty"`
	AskAt       time.Time `json:"askAt,omitzero"`

	Drains
}

// observe folds what crdwatch saw of the Node. What is said of the Node is as old as the Node's version. Whether its
// worker is ready has a version of its own.
func (s *State) observe(o contract.NodeObservation) {
	old := s.Node
	if s.Heard(o.Epoch) && !o.Gone {
		s.Stale, s.Node = false, &o // whatever its version
		s.open().AskNow()
		return
	}
	s.Node = entity.Newest(old, o)
	if old == nil || old.UID != o.UID || o.Gone {
		return
	}
	ready, version := old.WorkerReady, old.WorkerVersion
	if !entity.OlderPart(version, o.WorkerVersion, old, o) {
		ready, version = o.WorkerReady, o.WorkerVersion
	}
	next := *s.Node
	next.WorkerReady, next.WorkerVersion = ready, version
	s.Node = &next
}

func (s *State) report(r contract.NodeReport) {
	if s.Report != nil && s.Report.Incarnation == r.Incarnation && s.Report.Sequence >= r.Sequence {
		return
	}
	if s.Report != nil && s.Report.Incarnation != r.Incarnation {
		// Of two runs of the node's worker nobody can tell from here which came later: a signal may have been long on
		// its way. The worker itself is asked; until it answers, what came last counts.
		s.Unconfirmed, s.AskAt, s.Asked = true, time.Time{}, 0
	}
	s.Report = &r
}

// answered takes what the worker said when it was asked: that is of the one that runs now.
func (s *State) answered(r contract.NodeReport) {
	s.Unconfirmed, s.Asked, s.AskAt = false, 0, time.Time{}
	if s.Report != nil && s.Report.Incarnation == r.Incarnation && s.Report.Sequence > r.Sequence {
		return
	}
	s.Report = &r
}

// reportDue says that the node's worker is there and is to be asked what its host is.
func (s *State) reportDue() bool {
	return s.Node.Ready && s.Node.WorkerReady && (s.Report == nil || s.Unconfirmed)
}

// obstacle is why the node takes no VMs, as an event says it; "" when it does.
func (s *State) obstacle() (kind, why string) {
	switch {
	case s.Node.OutOfService:
		return "Normal", "an administrator has called the node out of service"
	case !s.Node.Ready:
		return "Normal", "the node is not ready"
	case !s.Node.WorkerReady:
		return "Warning", "there is no node worker on the node that is ready: VMs run on, but none can be started there"
	case s.Node.Unschedulable:
		return "", "the node is cordoned"
	case s.Report == nil && s.Node.Labels[contract.LabelSchedulable] != "true":
		// A node worker reports once: an entity that is younger than the report believes the label that it finds.
		return "", "its node worker has not reported its host yet"
	default:
		return "", ""
	}
}

// labels are what the node should carry: a nil value means that the label must go. Only labels that virtflow owns are
// named.
func (s *State) labels() map[string]*string {
	want := map[string]*string{}
	yes, no := "true", "false"
	want[contract.LabelSchedulable] = &no
	if _, why := s.obstacle(); why == "" {
		want[contract.LabelSchedulable] = &yes
	}
	if s.Report == nil {
		return want
	}
	//workflowcheck:ignore fills a map: the order has no effect
	for k := range s.Node.Labels {
		if strings.HasPrefix(k, CPUVendorPrefix) {
			want[k] = nil
		}
	}
	if labelName(s.Report.CPUVendor) {
		want[CPUVendorPrefix+s.Report.CPUVendor] = &yes
	}
	return want
}

// events go with labels that are written: that KVM works or no longer does, and that a node takes no VMs any more,
// where nobody asked for that.
func (s *State) events(labels map[string]*string) []contract.Event {
	return append(s.kvmEvents(), s.placementEvents(labels)...)
}

func (s *State) kvmEvents() []contract.Event {
	switch {
	case s.Report == nil || s.KVMWorked == nil || *s.KVMWorked == s.Report.KVM:
		return nil
	case s.Report.KVM:
		return []contract.Event{{Type: "Normal", Reason: contract.ReasonKVMWorks,
			Message: "KVM works: virtual machines can be placed on it"}}
	default:
		message := "KVM does not work: no virtual machines are placed on it unless emulation is allowed: " +
			s.Report.KVMProblem
		return []contract.Event{{Type: "Warning", Reason: contract.ReasonKVMUnavailable, Message: message}}
	}
}

func (s *State) placementEvents(labels map[string]*string) []contract.Event {
	v := labels[contract.LabelSchedulable]
	kind, why := s.obstacle()
	if v == nil || *v != "false" || kind == "" || s.Node.Labels[contract.LabelSchedulable] != "true" {
		return nil
	}
	return []contract.Event{{Type: kind, Reason: contract.ReasonNodeUnresponsive,
		Message: why + ": no virtual machines are placed on it"}}
}

// changes are the labels that differ from what the node carries.
func (s *State) changes() map[string]*string {
	out := map[string]*string{}
	//workflowcheck:ignore builds another map: the order has no effect
	for k, v := range s.labels() {
		if have, ok := s.Node.Labels[k]; v != nil && (!ok || have != *v) || v == nil && ok {
			out[k] = v
		}
	}
	return out
}

// instance binds the state to one run of the workflow.
type instance struct {
	state State
	loop  *entity.Loop
}

// Workflow is the node entity. It ends when the Node object is gone.
func Workflow(ctx workflow.Context, in contract.EntityInput) error {
	if in.Name == "" {
		return temporal.NewNonRetryableApplicationError("a node entity needs the node's name", contract.ErrorInvalid,
			nil)
	}
	e := &instance{state: State{Name: in.Name}}
	if err := entity.Decode(in.Carried, &e.state); err != nil {
		return err
	}
	loop := entity.NewLoop(ctx, e)
	e.loop = loop
	entity.OnSignal(loop, contract.SignalObserveNode, e.state.observe)
	entity.OnSignal(loop, contract.SignalReportNode, e.state.report)
	entity.OnSignal(loop, contract.SignalObserveEvacuees, e.state.observeEvacuees)
	loop.OnTransitionClosed(e.state.open, e.drained)
	if err := loop.OnControls(&e.state.Manual, e.controls(loop)...); err != nil {
		return err
	}
	return loop.Run(contract.WorkflowNode, func(carried []byte) any {
		return contract.EntityInput{Name: in.Name, Carried: carried}
	})
}

// State answers the state query.
func (e *instance) State() any { return e.state }

// Busy says that the node's worker is being asked.
func (e *instance) Busy() bool { return e.state.Asking }

// Refresh ends what has ended with the node's cordon or taint; the labels follow from what is known.
func (e *instance) Refresh(time.Time) { e.state.follow() }

// Plan keeps the labels current, and has the guests leave that are to.
func (e *instance) Plan(now time.Time) entity.Plan {
	s := &e.state
	if s.Node == nil {
		return entity.Plan{Waiting: "the first observation of the Node"}
	}
	if s.Node.Gone {
		if s.Open != nil && !s.Open.Sent.Gone {
			return entity.Decision{Action: actSignal, Why: "the node exists no more"}.Plan(s.Failure, e.drain)
		}
		return entity.Plan{Finish: true}
	}
	d := s.Failure.HoldBack(s.draining(now), now, nil)
	p := e.planLabels(now)
	switch {
	case p.Step != nil:
		return p
	case d.Action != entity.ActNone:
		return d.Plan(s.Failure, e.drain)
	}
	if !d.WakeAt.IsZero() && (p.WakeAt.IsZero() || d.WakeAt.Before(p.WakeAt)) {
		p.WakeAt = d.WakeAt
	}
	return p
}

// planLabels writes the labels that differ.
func (e *instance) planLabels(now time.Time) entity.Plan {
	s := &e.state
	switch {
	case s.reportDue() && !s.Asking && !now.Before(s.AskAt):
		return entity.Plan{Step: &entity.Step{Name: "ask the node's worker",
			Why: "what its host is like is not known for sure", Do: e.ask}}
	case s.settled() && s.reportDue():
		return entity.Plan{WakeAt: s.AskAt, Waiting: "the node's worker to report its host"}
	case s.settled():
		return entity.Plan{Waiting: "changes of the node or of its host"}
	case s.Failure.Holds(stepWrite, now):
		return s.Failure.Wait().Plan(s.Failure, nil)
	}
	p := entity.Plan{Step: &entity.Step{Name: stepWrite, Why: "they differ from what the host offers", Do: e.write}}
	if s.Failure != nil {
		p.Trouble = s.Failure.Message
	}
	return p
}

// ask leaves the loop free: a node whose worker does not answer may have more news meanwhile.
func (e *instance) ask(ctx workflow.Context) error {
	s := &e.state
	s.Asking = true
	o := entity.NodeOptions(s.Name)
	o.Summary = "ask for the report of " + s.Name
	o.RetryPolicy.MaximumAttempts = 2
	workflow.Go(workflow.WithActivityOptions(ctx, o), func(ctx workflow.Context) {
		var r contract.ReportNodeResult
		err := workflow.ExecuteActivity(ctx, contract.ActivityReportNode).Get(ctx, &r)
		s := &e.state
		s.Asking = false
		e.loop.Wake()
		if err == nil {
			s.answered(r.Report)
			return
		}
		s.Asked++
		s.AskAt = workflow.Now(ctx).Add(entity.Pause(s.Asked))
		workflow.GetLogger(ctx).Warn("the node's worker does not report", "error", err)
	})
	return nil
}

func (e *instance) write(ctx workflow.Context) error {
	s := &e.state
	labels := s.changes()
	capabilities := s.capabilities()
	works := s.KVMWorked
	if s.Report != nil {
		works = &s.Report.KVM
	}
	in := contract.PatchNodeInput{Name: s.Name, UID: s.Node.UID, Labels: labels, Events: s.events(labels),
		Capabilities: capabilities}
	err := entity.Do(ctx, contract.ActivityPatchNode, "write the labels", in)
	if entity.ErrorType(err) == contract.ErrorGone {
		s.Node = entity.Gone(s.Node)
		return nil
	}
	if err != nil {
		s.Failure = s.Failure.Failed(workflow.Now(ctx), stepWrite, "", err)
		return err
	}
	s.Failure = nil
	s.KVMWorked = works
	have := map[string]string{}
	//workflowcheck:ignore copies a map: the order has no effect
	for k, v := range s.Node.Labels {
		have[k] = v
	}
	//workflowcheck:ignore fills a map: the order has no effect
	for k, v := range labels {
		if v == nil {
			delete(have, k)
		} else {
			have[k] = *v
		}
	}
	s.Node.Labels = have
	if capabilities != nil {
		s.Node.Capabilities = contract.CapabilityDigest(capabilities)
	}
	return nil
}

// Details are what the Temporal UI shows first.
func (e *instance) Details(p entity.Plan) string {
	s := &e.state
	if s.Node == nil {
		return "Node " + s.Name + " has not been seen yet."
	}
	state := "takes no virtual machines"
	if v := s.labels()[contract.LabelSchedulable]; v != nil && *v == "true" {
		state = "takes virtual machines"
	}
	d := fmt.Sprintf("**Node %s %s**\n\nnode ready: %t, node worker ready: %t, host reported: %t", s.Name, state,
		s.Node.Ready, s.Node.WorkerReady, s.Report != nil)
	if s.Report != nil {
		d += fmt.Sprintf(" (KVM works: %t, %s %s)", s.Report.KVM, s.Report.CPUVendor, s.Report.CPUModel)
		if s.Report.KVMProblem != "" {
			d += "\n\nKVM does not work: " + s.Report.KVMProblem + "."
		}
		if c := s.Report.Capabilities; c != nil {
			d += fmt.Sprintf("\n\nguests get: %s, %d machine types, %d CPU models, host model %s", c.VirtType,
				len(c.MachineTypes), len(c.CPUModels), c.HostModel)
		} else {
			d += "\n\nWhat its launchers offer guests is not known: see the init container of its node worker."
		}
	}
	if _, why := s.obstacle(); why != "" {
		d += "\n\nIt takes none because " + why + "."
	}
	d += s.drainText()
	if p.Waiting != "" {
		d += "\n\nWaiting for " + p.Waiting + "."
	}
	return d
}
