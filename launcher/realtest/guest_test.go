//go:build libvirt

package realtest

import (
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

func dialUnix(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestBootReportAndShutDownWithPod(t *testing.T) {
	p := newPod(t, vmi(nil))
	d := p.boot()
	require.Contains(t, d.GetMachineType()+"pc-q35", "pc-q35")
	require.EqualValues(t, 128<<20, d.GetGuestMemoryBytes())
	require.Len(t, d.GetVolumes(), 3)
	require.Equal(t, "vda", d.GetVolumes()[0].GetTarget())
	require.EqualValues(t, 16<<20, d.GetVolumes()[1].GetSizeBytes())

	again, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.NoError(t, err)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_RUNNING, again.GetState())

	watch, err := p.client.Watch(p.context(), &rpc.WatchRequest{})
	require.NoError(t, err)
	p.signal("launcher", syscall.SIGTERM)
	var last *rpc.Domain
	for {
		next, err := watch.Recv()
		if err != nil {
			break
		}
		if last != nil {
			require.Greater(t, next.GetSequence(), last.GetSequence())
		}
		last = next
	}
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_SHUTOFF, last.GetState())
	require.Equal(t, contract.ReasonShutdown, last.GetReason())
	m, code := p.ends()
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonShutdown, Ran: true}, m)
	require.Zero(t, code)
}

func TestAgentIsSeen(t *testing.T) {
	suite.TakeTurn(t, 5)
	p := newPod(t, vmi(nil))
	p.boot()
	p.eventually("the guest agent is connected", func() bool {
		d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
		return err == nil && d.GetAgentConnected() && d.GetMachineType() != ""
	})
}

func TestGuestThatDoesNotShutDownIsKilledAfterItsGracePeriod(t *testing.T) {
	p := newPod(t, vmi(func(spec map[string]any) {
		spec["terminationGracePeriodSeconds"] = 1
		domain := spec["domain"].(map[string]any)
		domain["features"] = map[string]any{"acpi": map[string]any{"enabled": false}}
	}))
	// Without ACPI the guest has no power button.
	_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.NoError(t, err)
	p.signal("launcher", syscall.SIGTERM)
	m, code := p.ends()
	require.Equal(t, contract.ReasonDestroyed, m.Reason)
	require.True(t, m.Ran)
	require.Zero(t, code)
}

// TestShortenedGracePeriod ends a guest that has no power button, and whose launcher would wait an hour for it.
func TestShortenedGracePeriod(t *testing.T) {
	p := newPod(t, vmi(func(spec map[string]any) {
		spec["terminationGracePeriodSeconds"] = 3600
		domain := spec["domain"].(map[string]any)
		domain["features"] = map[string]any{"acpi": map[string]any{"enabled": false}}
	}))
	_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.NoError(t, err)
	p.signal("launcher", syscall.SIGTERM)
	p.eventually("it waits", func() bool {
		return strings.Contains(p.log(), "received SIGTERM: the pod is terminating")
	})
	_, err = p.client.Operate(p.context(),
		&rpc.OperateRequest{Operation: rpc.Operation_OPERATION_END, GraceSeconds: new(int64(0))})
	require.NoError(t, err)
	m, _ := p.ends()
	require.Equal(t, contract.ReasonDestroyed, m.Reason)
}

func TestWithoutGraceGuestIsKilledAtOnce(t *testing.T) {
	suite.TakeTurn(t, 6)
	p := newPod(t, vmi(func(spec map[string]any) { spec["terminationGracePeriodSeconds"] = 0 }))
	p.boot()
	p.signal("launcher", syscall.SIGTERM)
	m, _ := p.ends()
	require.Equal(t, contract.ReasonDestroyed, m.Reason)
	require.NotContains(t, p.log(), `"action":"Shutdown"`)
}

func TestQEMUKilledIsCrash(t *testing.T) {
	p := newPod(t, vmi(nil))
	p.boot()
	p.signal("qemu-system-x86_64", syscall.SIGKILL)
	m, code := p.ends()
	require.Equal(t, contract.ReasonCrashed, m.Reason)
	require.True(t, m.Ran)
	require.Equal(t, 1, code)
}

func TestLibvirtdKilledDoesNotTouchGuest(t *testing.T) {
	p := newPod(t, vmi(nil))
	p.boot()
	qemu, _ := p.process("qemu-system-x86_64")
	before, _ := p.process("libvirtd")
	p.signal("libvirtd", syscall.SIGKILL)
	p.outlives(before)
	same, found := p.process("qemu-system-x86_64")
	require.True(t, found)
	require.Equal(t, qemu, same)
	p.signal("launcher", syscall.SIGTERM)
	m, code := p.ends()
	require.Equal(t, contract.ReasonShutdown, m.Reason)
	require.Zero(t, code)
}

// outlives waits until the launcher has another libvirtd than that, for which the guest runs.
func (p *pod) outlives(libvirtd int) {
	p.t.Helper()
	p.eventually("another libvirtd is there", func() bool {
		now, found := p.process("libvirtd")
		return found && now != libvirtd
	})
	p.eventually("the launcher is connected again", func() bool { return countLog(p, "connected to libvirtd") >= 2 })
	d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
	require.NoError(p.t, err)
	require.Equal(p.t, rpc.DomainState_DOMAIN_STATE_RUNNING, d.GetState())
}

func TestGuestThatDiesWithoutLibvirtdIsNoticed(t *testing.T) {
	suite.TakeTurn(t, 7)
	p := newPod(t, vmi(nil))
	p.boot()
	p.signal("libvirtd", syscall.SIGSTOP)
	p.signal("qemu-system-x86_64", syscall.SIGKILL)
	p.signal("libvirtd", syscall.SIGKILL)
	m, code := p.ends()
	require.Equal(t, contract.ReasonCrashed, m.Reason)
	require.Equal(t, 1, code)
}

// TestReplacesHungLibvirtd: meanwhile it hides neither that the guest runs nor that it has ended.
func TestReplacesHungLibvirtd(t *testing.T) {
	suite.TakeTurn(t, 5)
	p := newPod(t, vmi(nil))
	p.boot()
	before, _ := p.process("libvirtd")
	p.signal("libvirtd", syscall.SIGSTOP)
	p.outlives(before)
	p.signal("libvirtd", syscall.SIGSTOP)
	p.signal("qemu-system-x86_64", syscall.SIGKILL)
	m, code := p.ends()
	require.Equal(t, contract.ReasonCrashed, m.Reason)
	require.Equal(t, 1, code)
}

func TestHungLibvirtdDoesNotKeepPod(t *testing.T) {
	suite.TakeTurn(t, 3)
	p := newPod(t, vmi(func(spec map[string]any) { spec["terminationGracePeriodSeconds"] = 1 }))
	p.boot()
	p.signal("libvirtd", syscall.SIGSTOP)
	p.signal("launcher", syscall.SIGTERM)
	m, code := p.ends()
	require.Equal(t, contract.ReasonDestroyed, m.Reason)
	require.Zero(t, code)
}

func TestRebootInGuestKeepsPodAndPowerOffEndsIt(t *testing.T) {
	suite.TakeTurn(t, 4)
	p := newPod(t, vmi(nil))
	p.boot()
	p.shell("reboot")
	p.guestUp(2)
	d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
	require.NoError(t, err)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_RUNNING, d.GetState())
	p.shell("poweroff")
	m, code := p.ends()
	require.Equal(t, contract.ReasonShutdown, m.Reason)
	require.Zero(t, code)
}

func TestStoppedBeforeAnythingStarted(t *testing.T) {
	p := newPod(t, vmi(nil))
	p.signal("launcher", syscall.SIGTERM)
	m, code := p.ends()
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonNeverRan}, m)
	require.Zero(t, code)
}

func TestConcurrentStartsMakeOneDomain(t *testing.T) {
	suite.TakeTurn(t, 5)
	p := newPod(t, vmi(nil))
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			d, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
			require.NoError(t, err)
			require.Equal(t, rpc.DomainState_DOMAIN_STATE_RUNNING, d.GetState())
		}()
	}
	wg.Wait()
	require.Equal(t, 1, countLog(p, `"message":"finished guest start"`))
}

func TestBrokenImageIsRefusedAndEndsPod(t *testing.T) {
	const image = "images/root/disk/disk.img"
	for says, spoil := range map[string]func(t *testing.T, p *pod){
		"no file found in folder /disk, no disk present": func(t *testing.T, p *pod) {
			require.NoError(t, os.Remove(p.at(image)))
		},
		// A qcow2 image of a version that there is not.
		"invalid image in containerDisk root: qemu-img info: ": func(t *testing.T, p *pod) {
			require.NoError(t, os.Remove(p.at(image)))
			require.NoError(t, os.WriteFile(p.at(image), append([]byte("QFI\xfb\x00\x00\x00\x63"), make([]byte, 512)...),
				0o644))
		},
	} {
		p := newPod(t, vmi(nil))
		spoil(t, p)
		_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
		require.ErrorContains(t, err, says)
		m, code := p.ends()
		require.Equal(t, contract.ReasonFailed, m.Reason)
		require.Contains(t, m.Message, says)
		require.False(t, m.Ran)
		require.Equal(t, 1, code)
	}
}

func TestWhatLibvirtRefusesEndsPod(t *testing.T) {
	p := newPod(t, vmi(func(spec map[string]any) {
		spec["domain"].(map[string]any)["machine"] = map[string]any{"type": "pc-q35-0.1"}
	}))
	_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	m, code := p.ends()
	require.Equal(t, contract.ReasonFailed, m.Reason)
	require.Equal(t, 1, code)
}

func TestVNCAnswers(t *testing.T) {
	suite.TakeTurn(t, 6)
	p := newPod(t, vmi(nil))
	_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.NoError(t, err)
	conn := dialUnix(t, p.at("private/virt-vnc"))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(deadline)))
	hello := make([]byte, 4)
	_, err = conn.Read(hello)
	require.NoError(t, err)
	require.Equal(t, "RFB ", string(hello))
}
