package node

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
)

// TestKVMIsJudgedAnew: the report follows, and names no CPUs that were found with the other way of running guests.
func TestKVMIsJudgedAnew(t *testing.T) {
	found := contract.HostCapabilities{VirtType: "qemu", MachineTypes: []string{"q35"}, CPUModels: []string{"Nehalem"},
		HostModel: "Nehalem", CPUManager: true}
	h := newHost(contract.NodeReport{Incarnation: "a"}, &found, errors.New("no such file"))
	told := make(chan contract.NodeReport, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go h.tell(ctx, func(r contract.NodeReport) { told <- r })
	require.Equal(t, contract.NodeReport{Incarnation: "a", Sequence: 1, KVMProblem: "no such file",
		Capabilities: &found}, <-told)

	h.setKVM(nil)
	without := contract.HostCapabilities{VirtType: "kvm", MachineTypes: []string{"q35"}, CPUManager: true}
	require.Equal(t, contract.NodeReport{Incarnation: "a", Sequence: 2, KVM: true, Capabilities: &without}, <-told)

	h.setKVM(errors.New("a virtual CPU did not halt in time"))
	r := <-told
	require.EqualValues(t, 3, r.Sequence)
	require.False(t, r.KVM)
	require.Equal(t, &found, r.Capabilities)
	require.Equal(t, r, h.report())
}
