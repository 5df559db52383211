package vmi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestDecideRunning: what is done in the pod of a guest that runs.
func TestDecideRunning(t *testing.T) {
	for name, c := range map[string]struct {
		change           func(*Launcher)
		starting, moving bool
		want             action
	}{
		"nothing":                    {want: entity.ActNone},
		"its domain is not observed": {want: actStartDomain, change: func(l *Launcher) { l.Domain = nil }},
		"its domain is being started": {want: actMarkPod, starting: true,
			change: func(l *Launcher) { l.Domain, l.Pod.Unpaused = nil, "" }},
		"its containers do not run": {want: entity.ActNone,
			change: func(l *Launcher) { l.Domain, l.Pod.ComputeRunning = nil, false }},
		"paused": {want: actMarkPod, change: func(l *Launcher) { l.Domain.State = contract.DomainPaused }},
		"paused, and marked": {want: entity.ActNone, change: func(l *Launcher) {
			l.Domain.State, l.Pod.Unpaused = contract.DomainPaused, "False"
		}},
		"paused for its move": {want: entity.ActNone, moving: true, change: func(l *Launcher) {
			l.Domain.State, l.Domain.Reason = contract.DomainPaused, contract.PausedMigration
		}},
		"paused by a move that has ended": {want: actMarkPod, change: func(l *Launcher) {
			l.Domain.State, l.Domain.Reason = contract.DomainPaused, contract.PausedMigration
		}},
		"its pod is being deleted": {want: entity.ActNone, change: func(l *Launcher) {
			l.Domain, l.Pod.DeletionTimestamp = nil, &noon
		}},
		"its pod is gone": {want: entity.ActNone, change: func(l *Launcher) { l.Domain, l.Pod.Gone = nil, true }},
		"in a migration's pod, before the move": {want: entity.ActNone, change: func(l *Launcher) {
			l.Domain, l.Pod.Migration, l.Pod.NodeName = nil, "x", "n2"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := Launcher{
				Pod: &contract.PodObservation{UID: "p", Phase: "Running", NodeName: "n", ComputeRunning: true,
					Unpaused: "True"},
				Domain: &contract.DomainObservation{PodUID: "p", State: contract.DomainRunning},
			}
			if c.change != nil {
				c.change(&l)
			}
			d, ok := l.decideRunning("n", c.starting, c.moving)
			require.Equal(t, c.want, d.Action)
			require.Equal(t, c.want != entity.ActNone, ok)
		})
	}
}
