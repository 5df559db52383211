package node

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step.
func (e *instance) act(ctx workflow.Context, d decision) error {
	s := &e.state
	switch d.Action {
	case actAskWorker:
		return e.askWorker(ctx)
	case actWriteLabels:
		return e.writeLabels(ctx)
	case entity.ActOpen:
		return e.openDrain(ctx, d)
	case actSignal:
		s.OpenDrain.Sent = s.progress()
		return e.loop.SignalOpen(ctx, &s.OpenDrain.Transition, s.OpenDrain.Sent)
	case entity.ActAsk:
		return e.loop.AskOpen(ctx, &s.OpenDrain.Transition)
	default:
		return fmt.Errorf("a node entity has no step %q", d.Action)
	}
}

// askWorker does not block the loop: observations may arrive while a node's worker does not answer.
func (e *instance) askWorker(ctx workflow.Context) error {
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
			s.observeAnswer(r.Report)
			return
		}
		s.Asked++
		s.AskAt = workflow.Now(ctx).Add(entity.StepBackoff(s.Asked))
		workflow.GetLogger(ctx).Warn("failed to get the report of the node's worker", "error", err)
	})
	return nil
}

// writeLabels writes the labels that differ, with the events for them.
func (e *instance) writeLabels(ctx workflow.Context) error {
	s := &e.state
	labels := s.labelChanges()
	capabilities := s.capabilities()
	works := s.KVMWorked
	if s.Report != nil {
		works = &s.Report.KVM
	}
	in := contract.PatchNodeInput{Name: s.Name, UID: s.Node.UID, Labels: labels, Events: s.events(labels),
		Capabilities: capabilities}
	err := entity.Do(ctx, contract.ActivityPatchNode, string(actWriteLabels), in)
	if entity.ErrorType(err) == contract.ErrorGone {
		s.Node = entity.AsGone(s.Node)
		return nil
	}
	if entity.RecordResult(ctx, &s.Failure, string(actWriteLabels), "", err) != nil {
		return err
	}
	s.Failure = nil // a drain's, too
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
