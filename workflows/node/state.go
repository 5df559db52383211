package node

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// State is everything that a node entity knows. Continue-As-New carries it.
type State struct {
	Name   string                    `json:"name"`
	Node   *contract.NodeObservation `json:"node,omitempty"`
	Report *contract.NodeReport      `json:"report,omitempty"`
	// KVMWorked is the value with which the labels were last written.
	KVMWorked *bool           `json:"kvmWorked,omitempty"`
	Failure   *entity.Failure `json:"failure,omitempty"`
	entity.Logic
	entity.Manual
	entity.Memory

	// Asking is set while the node's worker is asked for its report. Unconfirmed is set when the known report may not
	// be the running worker's, and AskAt is when the worker is asked again (after Asked failed attempts).
	Asking      bool      `json:"asking,omitempty"`
	Unconfirmed bool      `json:"unconfirmed,omitempty"`
	Asked       int       `json:"asked,omitempty"`
	AskAt       time.Time `json:"askAt,omitzero"`

	// Unapplied has the newest settings that a run without contract.ChangeAfterFirst has left out, for the next run.
	Unapplied *contract.NodeObservation `json:"unapplied,omitempty"`

	Drains
}

// observe folds in crdwatch's observation of the Node. Its fields have the Node's version; whether its worker is ready
// has a version of its own.
func (s *State) observe(o contract.NodeObservation) {
	old := s.Node
	if s.AdvanceEpoch(o.Epoch) && !o.Gone {
		s.NoteRead() // the observation counts, whatever its version
		s.Node = &o
		s.Cordoned = o.Unschedulable
		s.openTransition().AskNow()
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
	switch {
	case !areSettingsNewer(old, o):
	case s.HasChange(contract.ChangeAfterFirst):
		next.ObsoleteCPUModels, next.DrainTaint, next.SettingsVersion = o.ObsoleteCPUModels, o.DrainTaint,
			o.SettingsVersion
		if !entity.Newer(old.ResourceVersion, o.ResourceVersion) {
			next.Drain = o.Drain // otherwise crdwatch sends it again
		}
	case s.Unapplied == nil || !entity.Newer(s.Unapplied.SettingsVersion, o.SettingsVersion):
		s.Unapplied = &contract.NodeObservation{UID: o.UID, ResourceVersion: o.ResourceVersion, Drain: o.Drain,
			DrainTaint: o.DrainTaint, ObsoleteCPUModels: o.ObsoleteCPUModels, SettingsVersion: o.SettingsVersion}
	}
	s.Node = &next
}

// observeUnapplied folds in the settings that the run before has left out.
func (s *State) observeUnapplied() {
	if o := s.Unapplied; o != nil && s.Node != nil {
		s.Unapplied = nil
		o.WorkerReady, o.WorkerVersion = s.Node.WorkerReady, s.Node.WorkerVersion
		s.observe(*o)
	}
}

// areSettingsNewer reports whether an observation of a node that is no newer itself has newer settings: the KubeVirt
// object names another drain taint, or other obsolete CPU models. Of an older node, only these count, and not whether
// it has the taint. Observations of releases that read neither have no such version.
func areSettingsNewer(known *contract.NodeObservation, o contract.NodeObservation) bool {
	return o.SettingsVersion != "" && !known.Gone &&
		!entity.OlderPart(known.SettingsVersion, o.SettingsVersion, known, o)
}

func (s *State) report(r contract.NodeReport) {
	r = r.Bounded()
	if s.Report != nil && s.Report.Incarnation == r.Incarnation && s.Report.Sequence >= r.Sequence {
		return
	}
	if s.Report != nil && s.Report.Incarnation != r.Incarnation {
		// Which of two runs of the node's worker is the later one cannot be decided here: a signal may have been
		// delayed. The worker itself is asked; until it answers, the last signal counts.
		s.Unconfirmed, s.AskAt, s.Asked = true, time.Time{}, 0
	}
	s.Report = &r
}

// observeAnswer folds in the report that the running worker gave when it was asked.
func (s *State) observeAnswer(r contract.NodeReport) {
	r = r.Bounded()
	s.Unconfirmed, s.Asked, s.AskAt = false, 0, time.Time{}
	if s.Report != nil && s.Report.Incarnation == r.Incarnation && s.Report.Sequence > r.Sequence {
		return
	}
	s.Report = &r
}

// isReportDue reports whether the node's worker is ready and has to be asked for its report.
func (s *State) isReportDue() bool {
	return s.Node.Ready && s.Node.WorkerReady && (s.Report == nil || s.Unconfirmed)
}
