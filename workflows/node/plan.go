package node

import (
	"time"

	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps. Metrics have these names as a label, and the state keeps that of a failed step.
const (
	actAskWorker   = action("ask the node's worker")
	actWriteLabels = action("write the labels")
	actSignal      = action("signal the drain")
)

// decide is the planner: pure and total. The labels come before drains.
func (s *State) decide(now time.Time) decision {
	switch {
	case s.Node == nil:
		return decision{Waiting: waits.For(waits.FirstObservation, "the Node")}
	case s.Node.Gone && s.OpenDrain != nil && !s.OpenDrain.Sent.Gone:
		return decision{Action: actSignal, Why: "the node no longer exists"}
	case s.Node.Gone:
		return decision{Action: entity.ActFinish, Why: "the node no longer exists"}
	}
	labels := s.decideLabels(now)
	if labels.Action != entity.ActNone {
		return labels
	}
	drain := s.Failure.WithBackoff(s.decideDrain(now), now, nil)
	if drain.Action != entity.ActNone {
		return drain
	}
	return labels.WakeBy(drain.WakeAt)
}

// decideLabels writes the labels that differ, once the worker's report is current.
func (s *State) decideLabels(now time.Time) decision {
	switch {
	case s.isReportDue() && !s.Asking && !now.Before(s.AskAt):
		return decision{Action: actAskWorker, Why: "its host's report may not be current"}
	case !s.isSettled():
		write := decision{Action: actWriteLabels, Why: "they differ from what the host offers"}
		return s.Failure.WithBackoff(write, now, nil)
	case s.isReportDue():
		return decision{WakeAt: s.AskAt, Waiting: waits.For(waits.HostReport)}
	default:
		return decision{Waiting: waits.For(waits.NodeChange)}
	}
}
