//go:build libvirt

package realtest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestStatisticsOfRealGuest: libvirt and QEMU count what a node worker exports, and the devices have the names of the
// VMI.
func TestStatisticsOfRealGuest(t *testing.T) {
	suite.TakeTurn(t, 3)
	namespace := podNetwork(t)
	p := newPodIn(t, vmi(func(spec map[string]any) {
		spec["networks"] = []any{map[string]any{"name": "default", "pod": map[string]any{}}}
		devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
		devices["interfaces"] = []any{map[string]any{"name": "default", "masquerade": map[string]any{}}}
	}), namespace)
	_, err := p.client.Statistics(p.context(), &rpc.StatisticsRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "there is no guest yet: %v", err)
	p.bootWith(&rpc.PodInterface{
		Network: "default", Tap: "tap0", PodInterface: "eth0", Mtu: 1400, Bridge: "k6t-eth0",
		GuestAddress: "10.0.2.2/24", Gateway: "10.0.2.1",
	})
	p.agentUp()
	var s *rpc.StatisticsResponse
	p.eventually("the dirty rate is measured, and the guest's driver has answered", func() bool {
		s, err = p.client.Statistics(p.context(), &rpc.StatisticsRequest{})
		return err == nil && s.DirtyRate != nil && s.GetMemory().GetUsable() > 0
	})
	require.Positive(t, s.GetCpu().GetTimeNs())
	require.Positive(t, s.GetCpu().GetUserNs())
	require.Positive(t, s.GetCpu().GetSystemNs())
	require.Len(t, s.GetVcpus(), 1)
	require.NotEqual(t, rpc.VCPUState_VCPU_STATE_UNSPECIFIED, s.GetVcpus()[0].GetState())
	require.Positive(t, s.GetVcpus()[0].GetTimeNs())
	require.NotNil(t, s.GetVcpus()[0].WaitNs)
	require.NotNil(t, s.GetVcpus()[0].DelayNs)
	require.Positive(t, s.GetAffinities())

	m := s.GetMemory()
	require.EqualValues(t, 128<<20, m.GetDomain())
	require.EqualValues(t, 128<<20, m.GetBalloon())
	require.Positive(t, m.GetResident())
	require.Less(t, m.GetUsable(), m.GetAvailable())
	require.NotNil(t, m.MajorFaults)
	require.NotNil(t, m.SwapIn)
	require.NotNil(t, m.Cached)

	var drives []string
	for _, d := range s.GetDrives() {
		drives = append(drives, d.GetName())
	}
	require.Equal(t, []string{"root", "scratch", "seed"}, drives)
	require.Positive(t, s.GetDrives()[0].GetRead().GetBytes())
	require.Positive(t, s.GetDrives()[0].GetRead().GetTimeNs())
	require.Len(t, s.GetInterfaces(), 1)
	require.Equal(t, "default", s.GetInterfaces()[0].GetName())
	require.Positive(t, s.GetInterfaces()[0].GetTransmit().GetBytes(), "it has asked for its address")

	p.operate(rpc.Operation_OPERATION_PAUSE)
	paused, err := p.client.Statistics(p.context(), &rpc.StatisticsRequest{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, paused.GetCpu().GetTimeNs(), s.GetCpu().GetTimeNs())
}
