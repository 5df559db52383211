package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestDecideDataVolumes: they are created under every strategy. A VM that starts waits for them, and shows why.
func TestDecideDataVolumes(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	volume := contract.DataVolume{Name: "d", UID: "u", OwnerUID: "vm", Phase: "ImportInProgress"}
	with := func(change func(*contract.DataVolume)) contract.DataVolume {
		v := volume
		change(&v)
		return v
	}
	for name, c := range map[string]struct {
		strategy  runstrategy.Strategy
		volume    contract.DataVolume
		deferred  bool
		does      entity.Action
		printable string
		waits     string
	}{
		"absent":             {runstrategy.Always, contract.DataVolume{Name: "d"}, false, actDataVolumes, "Stopped", ""},
		"absent and halted":  {runstrategy.Halted, contract.DataVolume{Name: "d"}, false, actDataVolumes, "Stopped", ""},
		"halted and put off": {runstrategy.Halted, contract.DataVolume{Name: "d"}, true, entity.ActNone, "Stopped", ""},
		"started, put off":   {runstrategy.Always, contract.DataVolume{Name: "d"}, true, actDataVolumes, "Stopped", ""},
		"another's": {runstrategy.Always, with(func(v *contract.DataVolume) { v.OwnerUID = "x" }), false, actDataVolumes,
			"Provisioning", ""},
		"without owner, populated": {runstrategy.Always, with(func(v *contract.DataVolume) {
			v.OwnerUID, v.Phase = "", contract.DataVolumeSucceeded
		}), false, entity.ActOpen, "Stopped", ""},
		"its claim is there without it": {runstrategy.Always, contract.DataVolume{Name: "d", Populated: true}, false,
			entity.ActOpen, "Stopped", ""},
		"being filled": {runstrategy.Always, volume, false, entity.ActNone, "Provisioning", "ImportInProgress"},
		"being filled, halted": {runstrategy.Halted, volume, false, entity.ActNone, "Provisioning",
			"nothing: this is what the run strategy asks for"},
		"failing": {runstrategy.Always, with(func(v *contract.DataVolume) { v.Error = "no such host" }), false,
			entity.ActNone, "DataVolumeError", "no such host"},
		"failed": {runstrategy.Always, with(func(v *contract.DataVolume) { v.Phase = "Failed" }), false,
			entity.ActNone, "DataVolumeError", "failed to import disk image"},
		"waits for a pod": {runstrategy.Always, with(func(v *contract.DataVolume) {
			v.Phase = contract.DataVolumeWaitForFirstConsumer
		}), false, entity.ActNone, "Stopped", "waits for the first consumer"},
		"filled, and being deleted": {runstrategy.Always, with(func(v *contract.DataVolume) {
			v.Phase, v.Deleting = contract.DataVolumeSucceeded, true
		}), false, entity.ActNone, "Provisioning", "is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state(c.strategy, runstrategy.Absent, runstrategy.NoRequest)
			s.VM.DeferDataVolumes = c.deferred
			s.Templates = []contract.DataVolume{c.volume}
			s.refresh(now)
			written := s.status()
			s.Written = &written
			d := s.decide(now)
			require.Equal(t, c.does, d.Action, "%s", d.Waiting)
			require.Equal(t, c.printable, s.printableStatus())
			require.Contains(t, d.Waiting.String(), c.waits)
			failure, shown := conditions.Get(s.Conditions, "Failure")
			require.Equal(t, c.printable == "DataVolumeError", shown)
			if shown {
				require.Equal(t, contract.ReasonDataVolumeFailed, failure.Reason)
				require.Contains(t, failure.Message, c.waits)
			}
		})
	}
}

// TestObserveDataVolumes: an older observation changes nothing, and one without DataVolumes removes none.
func TestObserveDataVolumes(t *testing.T) {
	s := State{}
	observe := func(version, volumes string, phases ...string) {
		o := contract.VMObservation{UID: "vm", ResourceVersion: version, DataVolumesVersion: volumes, Epoch: 1}
		for _, p := range phases {
			o.DataVolumes = append(o.DataVolumes, contract.DataVolume{Name: "d", UID: "u", Phase: p})
		}
		s.observeVM(o)
	}
	observe("1", "10", "Pending")
	observe("1", "12", "Succeeded")
	observe("1", "11", "ImportInProgress")
	require.Equal(t, "Succeeded", s.Templates[0].Phase)
	s.observeVM(contract.VMObservation{UID: "vm", ResourceVersion: "2"})
	require.Len(t, s.Templates, 1, "an answer to a write")
	observe("1", "")
	require.Len(t, s.Templates, 1, "older")
	observe("3", "")
	require.Empty(t, s.Templates, "it has no templates any more")

	observe("4", "13", "Succeeded")
	s.observeVMI(contract.VMIObservation{UID: "vmi", Epoch: 2}) // etcd is restored: versions ran backwards
	s.observeVM(contract.VMObservation{UID: "vm", ResourceVersion: "1", DataVolumesVersion: "2", Epoch: 2,
		DataVolumes: []contract.DataVolume{{Name: "d", UID: "u", Phase: "Pending"}}})
	require.Equal(t, "Pending", s.Templates[0].Phase, "an older copy of etcd")
}
