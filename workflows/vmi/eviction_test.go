package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

// Condition EvictionRequested is true while the guest is on the node that it is to leave.
func TestEvictionRequestedCondition(t *testing.T) {
	s := movable()
	s.VMI.EvacuationNode = "n"
	s.refresh(noon)
	require.True(t, conditions.HasStatus(s.Conditions, "EvictionRequested", "True"))
	require.False(t, s.isEvacuated(s.status().NodeName))
	s.VMI.EvacuationNode = "n0"
	s.refresh(noon)
	require.False(t, conditions.HasStatus(s.Conditions, "EvictionRequested", "True"))
	require.True(t, s.isEvacuated(s.status().NodeName))
}

// TestEvictionMark: the mark of the guest's pod is written with the condition, and only where it may be wrong.
func TestEvictionMark(t *testing.T) {
	requested := []contract.Condition{{Type: "EvictionRequested", Status: "True"}}
	for name, c := range map[string]struct {
		shown, written  []contract.Condition // written: nil for a status that this run has not written
		node            string
		unknown, marked bool
		change          func(*State)
	}{
		"is requested":                     {written: []contract.Condition{}, node: "n", marked: true},
		"is requested, nothing written":    {node: "n", marked: true},
		"was requested":                    {written: requested, node: "n"},
		"was requested, by an earlier run": {shown: requested, node: "n"},
		"was requested, write unknown":     {written: requested, node: "n", unknown: true, marked: true},
		"is cancelled":                     {written: requested, marked: true},
		"is cancelled, nothing written":    {shown: requested, marked: true},
		"was never requested":              {written: []contract.Condition{}},
		"never requested, write unknown":   {written: []contract.Condition{}, unknown: true},
		"withdrawn, mark unknown": {written: []contract.Condition{}, marked: true, change: func(s *State) {
			s.EvictionMarked = true
		}},
		"guest has left the node": {written: requested, node: "n0"},
		"guest has ended": {written: requested, node: "n", change: func(s *State) {
			s.Domain.State, s.Domain.Reason = contract.DomainShutoff, contract.ReasonShutdown
		}},
		"pod is gone": {written: requested, change: func(s *State) { s.Pod.Gone = true }},
	} {
		t.Run(name, func(t *testing.T) {
			s := movable()
			s.VMI.EvacuationNode, s.VMI.Conditions, s.OutcomeUnknown = c.node, c.shown, c.unknown
			if c.written != nil {
				s.Written = &contract.VMIStatus{Conditions: c.written}
			}
			if c.change != nil {
				c.change(s)
			}
			s.refresh(noon.Add(time.Second))
			mark := s.evictionMark(s.status())
			if !c.marked {
				require.Nil(t, mark)
				return
			}
			require.Equal(t, &contract.EvictionMark{Pod: s.object(""), Node: "n"}, mark)
		})
	}
}

// TestEvictionMarkIsRemembered: a mark whose write has no answer, or met a conflict, is removed with the request.
func TestEvictionMarkIsRemembered(t *testing.T) {
	s := movable()
	s.VMI.EvacuationNode = "n"
	s.refresh(noon)
	s.noteMark(s.evictionMark(s.status()), s.status(), false)
	require.True(t, s.EvictionMarked)
	s.VMI.EvacuationNode, s.Written = "", &contract.VMIStatus{}
	s.refresh(noon)
	mark := s.evictionMark(s.status())
	require.NotNil(t, mark)
	s.noteMark(mark, s.status(), false)
	require.True(t, s.EvictionMarked, "nothing is known of the write yet")
	s.noteMark(mark, s.status(), true)
	require.False(t, s.EvictionMarked)
	require.Nil(t, s.evictionMark(s.status()))
}
