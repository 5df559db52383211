package node

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestReportLacksDeprecatedMachineTypes: they are for metrics, and no workflow knows them.
func TestReportLacksDeprecatedMachineTypes(t *testing.T) {
	found := &contract.HostCapabilities{VirtType: "kvm", MachineTypes: []string{"q35"},
		DeprecatedMachineTypes: []string{"q35"}}
	for name, problem := range map[string]error{"with KVM": nil, "without KVM": errors.New("no such file")} {
		t.Run(name, func(t *testing.T) {
			reported := newHost(contract.NodeReport{}, found, problem).report().Capabilities
			require.Equal(t, []string{"q35"}, reported.MachineTypes)
			require.Empty(t, reported.DeprecatedMachineTypes)
		})
	}
}

// TestReportFollowsKVM: after a change of KVM the report has no CPUs that were found in the other mode.
func TestReportFollowsKVM(t *testing.T) {
	found := contract.HostCapabilities{VirtType: "qemu", MachineTypes: []string{"q35"}, CPUModels: []string{"Nehalem"},
		HostModel: "Nehalem", CPUManager: true}
	h := newHost(contract.NodeReport{Incarnation: "a"}, &found, errors.New("no such file"))
	sent := make(chan contract.NodeReport, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go h.send(ctx, func(r contract.NodeReport) { sent <- r })
	require.Equal(t, contract.NodeReport{Incarnation: "a", Sequence: 1, KVMProblem: "no such file",
		Capabilities: &found}, <-sent)

	h.setKVM(nil)
	without := contract.HostCapabilities{VirtType: "kvm", MachineTypes: []string{"q35"}, CPUManager: true}
	require.Equal(t, contract.NodeReport{Incarnation: "a", Sequence: 2, KVM: true, Capabilities: &without}, <-sent)

	h.setKVM(errors.New("a virtual CPU did not halt in time"))
	r := <-sent
	require.EqualValues(t, 3, r.Sequence)
	require.False(t, r.KVM)
	require.Equal(t, &found, r.Capabilities)
	require.Equal(t, r, h.report())
}
