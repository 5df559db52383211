package node

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

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
	e.state.Logic = loop.Logic()
	e.loop = loop
	e.state.observeUnapplied()
	entity.OnSignal(loop, contract.SignalObserveNode, e.state.observe)
	entity.OnSignal(loop, contract.SignalReportNode, e.state.report)
	entity.OnSignal(loop, contract.SignalObserveEvacuees, e.state.observeEvacuees)
	loop.OnTransitionClosed(e.state.openTransition, e.recordDrainClosed)
	if err := loop.OnControls(&e.state.Manual, e.controls(loop)...); err != nil {
		return err
	}
	return loop.Run(contract.WorkflowNode, func(carried []byte) any {
		return contract.EntityInput{Name: in.Name, Carried: carried}
	})
}

// State returns the state, for the query.
func (e *instance) State() any { return e.state }

// Busy reports whether the node's worker is being asked.
func (e *instance) Busy() bool { return e.state.Asking }

// Refresh ends what was for the node's cordon or taint; the labels follow from the state.
func (e *instance) Refresh(time.Time) { e.state.endFinishedCordon() }

// Plan binds the planner's decision to its step.
func (e *instance) Plan(now time.Time) entity.Plan {
	return e.state.decide(now).Plan(e.state.Failure, e.act)
}

// Details returns what the Temporal UI shows first.
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
	return d + s.drainText() + p.WaitText()
}
