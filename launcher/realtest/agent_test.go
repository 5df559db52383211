//go:build libvirt

package realtest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// probe runs the launcher's own command, as the kubelet does.
func (p *pod) probe(arguments ...string) (output string, code int) {
	p.t.Helper()
	cmd := exec.Command(filepath.Join(image(p.t, "launcher"), "usr/bin/launcher"),
		append([]string{"probe", "--socket", p.at("sockets/launcher.sock"), "--timeout-seconds", "10"},
			arguments...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(p.t, err, new(*exec.ExitError))
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestProbesAskGuestsAgent(t *testing.T) {
	suite.TakeTurn(t, 3)
	p := newPod(t, vmi(nil))
	out, code := p.probe("--guest-agent-ping")
	require.Equal(t, 1, code, "the guest has not started yet: %s", out)
	p.boot()
	p.eventually("the agent answers", func() bool { _, code := p.probe("--guest-agent-ping"); return code == 0 })

	out, code = p.probe("--command", "sh", "--", "-c", "echo from $(hostname); echo wrong >&2")
	require.Zero(t, code, out)
	require.Equal(t, "from vm1\nwrong\n", out)
	out, code = p.probe("--command", "sh", "--", "-c", "exit 42")
	require.Equal(t, 42, code, out)
	out, code = p.probe("--command", "/no/such/program")
	require.Equal(t, 1, code, out)
	out, code = p.probe("--command", "sh", "--", "-c", "kill -9 $$")
	require.Equal(t, 137, code, out)

	_, err := p.client.GuestExec(p.context(),
		&rpc.GuestExecRequest{Command: "sleep", Arguments: []string{"600"}, TimeoutSeconds: 1})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
	_, code = p.probe("--guest-agent-ping")
	require.Zero(t, code, "a command that continues does not block the agent")
}

func TestWhatGuestSaysOfItself(t *testing.T) {
	suite.TakeTurn(t, 4)
	namespace := podNetwork(t)
	p := newPodIn(t, vmi(func(spec map[string]any) {
		spec["networks"] = []any{map[string]any{"name": "default", "pod": map[string]any{}}}
		devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
		devices["interfaces"] = []any{map[string]any{"name": "default", "masquerade": map[string]any{}}}
	}), namespace)
	started := p.bootWith(&rpc.PodInterface{
		Network: "default", Tap: "tap0", PodInterface: "eth0", Mtu: 1400, Bridge: "k6t-eth0",
		GuestAddress: "10.0.2.2/24", Gateway: "10.0.2.1",
	})
	var d *rpc.Domain
	p.eventually("the agent is connected", func() bool {
		var err error
		d, err = p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
		return err == nil && d.GetAgentConnected()
	})
	info := d.GetGuest()
	require.NotNil(t, info, "what the guest says comes with the connection")
	require.Empty(t, info.GetAgentProblem())
	require.NotEmpty(t, info.GetOs().GetKernelRelease())
	require.Equal(t, "x86_64", info.GetOs().GetMachine())
	require.Equal(t, "virtflow-guest", info.GetOs().GetId())
	require.NotEmpty(t, info.GetOs().GetPrettyName())
	require.Len(t, info.GetInterfaces(), 1)
	require.Equal(t, "eth0", info.GetInterfaces()[0].GetName())
	require.True(t, strings.EqualFold(started.GetInterfaces()[0].GetMac(), info.GetInterfaces()[0].GetMac()))
	require.Contains(t, info.GetInterfaces()[0].GetAddresses(), "10.0.2.2")

	before := strings.Count(p.log(), `"agent":true`)
	p.shell("reboot")
	p.guestUp(2)
	p.eventually("the agent is there again", func() bool {
		d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
		return err == nil && d.GetAgentConnected() && strings.Count(p.log(), `"agent":true`) > before
	})
}
