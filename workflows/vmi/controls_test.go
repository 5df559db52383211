package vmi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// A repair is refused that would let two guests run, or lose one.
func TestCheckRepair(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		ok     bool
	}{
		"nothing":                  {func(*State) {}, true},
		"no failure":               {func(s *State) { s.Failure = nil }, true},
		"look for the pod":         {func(s *State) { s.Pod = nil }, true},
		"forget what comes next":   {func(s *State) { s.Next = nil }, true},
		"the pod's phase":          {func(s *State) { s.Pod.Phase = "Pending" }, true},
		"the pod is gone":          {func(s *State) { s.Pod.Gone = true }, false},
		"another pod":              {func(s *State) { s.Pod.UID = "q" }, false},
		"another name":             {func(s *State) { s.Pod.Name = "q" }, false},
		"another VMI's pod":        {func(s *State) { s.Pod.VMIUID = "j" }, false},
		"another node":             {func(s *State) { s.Pod.NodeName = "m" }, false},
		"fenced":                   {func(s *State) { s.Fenced = &Fencing{PodUID: "p", At: noon} }, false},
		"another VMI":              {func(s *State) { s.VMI.UID = "j" }, false},
		"another one comes next":   {func(s *State) { s.Next.UID = "k" }, false},
		"no other pods":            {func(s *State) { s.Others = nil }, true},
		"an ended other pod":       {func(s *State) { s.Others[0].FinalizerRemoved = true }, false},
		"no pod of an unknown VMI": {func(s *State) { s.Pod, s.VMI = nil, nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := func() *State {
				s := seen(contract.VMIObservation{Phase: "Running"},
					contract.PodObservation{Phase: "Running", NodeName: "n"})
				s.observePod(contract.PodObservation{UID: "o", VMIUID: "i", ResourceVersion: "3", Phase: "Running"})
				s.Next, s.Failure = &contract.VMIObservation{UID: "j"}, &entity.Failure{Step: string(entity.ActWrite)}
				return s
			}
			was, now := fresh(), fresh()
			c.change(now)
			require.Equal(t, c.ok, checkRepair(was, now) == nil)
		})
	}
}
