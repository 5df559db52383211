package vmi

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// The events of a pod whose containers do not start, without a reason in its status, are read after firstEventsRead.
// They are read again after the same time, doubled each time, up to maxEventsReadPause.
const (
	firstEventsRead    = 15 * time.Second
	maxEventsReadPause = 5 * time.Minute
)

// Warning is the event of a pod that gives the reason why its containers do not start.
type Warning struct {
	Pod   string    `json:"pod"` // its UID
	At    time.Time `json:"at"`  // of the last read
	Reads int       `json:"looks"`
	contract.ReadPodWarningResult
}

// silentSince returns since when the containers of the pod do not start without a reason in its status, and whether
// that is so.
func (s *State) silentSince() (since time.Time, ok bool) {
	if !s.hasPod() || s.hasPodEnded() || s.Phase != PhaseScheduling || s.Pod.Unschedulable != nil ||
		s.Pod.WaitingReason != "" {
		return time.Time{}, false
	}
	return phaseSince(s.PhaseTimes, PhaseScheduling)
}

// warning returns the event of the current pod; nil: there is none, or the events were not read.
func (s *State) warning() *Warning {
	if w := s.Warning; w != nil && w.Pod == s.Pod.UID && w.Message != "" {
		return w
	}
	return nil
}

// nextEventsRead returns when the events of the pod are to be read next (zero: never).
func (s *State) nextEventsRead() time.Time {
	since, ok := s.silentSince()
	switch w := s.Warning; {
	case !ok || s.isDeleting() || !s.HasChange(contract.ChangeAfterFirst):
		return time.Time{}
	case w == nil || w.Pod != s.Pod.UID:
		return since.Add(firstEventsRead)
	default:
		return w.At.Add(entity.Backoff(w.Reads, firstEventsRead, maxEventsReadPause))
	}
}

func (s *State) decideEventsRead(now time.Time) (decision, bool) {
	at := s.nextEventsRead()
	return decision{Action: actReadWarning, Why: "its status has no reason why its containers do not start"},
		!at.IsZero() && !now.Before(at)
}

// readWarning reads the events of the pod. If that fails, the status only lacks a reason.
func (e *instance) readWarning(ctx workflow.Context) error {
	pod := e.podObject()
	r, err := entity.Call[contract.ReadPodWarningResult](ctx, contract.ActivityReadPodWarning, string(actReadWarning),
		contract.ReadPodWarningInput{Pod: pod})
	next := Warning{Pod: pod.UID, At: workflow.Now(ctx), Reads: 1, ReadPodWarningResult: r}
	if last := e.state.Warning; last != nil && last.Pod == pod.UID {
		next.Reads += last.Reads
	}
	e.state.Warning = &next
	return err
}
