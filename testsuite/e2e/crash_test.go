//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// victims returns the processes that may be killed at any time. The first four run as pods and are restarted by the
// kubelet, the others by the local cluster's supervisor.
func victims() map[string]func(*testing.T) {
	pod := func(name string) func(*testing.T) {
		return func(t *testing.T) {
			ps := program(name)
			require.NotEmpty(t, ps, "no process %s to kill", name)
			kill(t, ps)
		}
	}
	host := func(component string) func(*testing.T) {
		return func(t *testing.T) { dev(t, "kill", component) }
	}
	v := map[string]func(*testing.T){
		"crdwatch":       pod("crdwatch"),
		"control worker": pod("control-worker"),
		"node worker":    pod("node-worker"),
		"node gateway":   pod("node-gateway"),
		"Temporal":       host("temporal"),
		"apiserver":      host("kube-apiserver"),
	}
	all := make([]func(*testing.T), 0, len(v))
	for _, k := range []string{"crdwatch", "control worker", "node worker", "node gateway", "Temporal", "apiserver"} {
		all = append(all, v[k])
	}
	v["all at once"] = func(t *testing.T) {
		for _, k := range all {
			k(t)
		}
	}
	return v
}

// untilReachable waits until the API server answers again: kubectl in the tests does not retry.
func untilReachable(t *testing.T) {
	t.Helper()
	until(t, time.Minute, "the apiserver answers", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return exec.CommandContext(ctx, "kubectl", "get", "--raw", "/readyz").Run()
	})
}

// untilHealthy waits until every process of virtflow runs again, so that one case does not affect the next.
func untilHealthy(t *testing.T) {
	t.Helper()
	untilReachable(t)
	for name, many := range map[string]int{"crdwatch": 1, "control-worker": 1, "api-server": 1, "node-gateway": 1,
		"node-worker": 2} {
		until(t, 5*time.Minute, name+" runs again (the kubelet waits longer after each kill)", func() error {
			if n := len(program(name)); n != many {
				return fmt.Errorf("%d of %d processes", n, many)
			}
			return nil
		})
	}
	for _, w := range []string{"deployment/virtflow-crdwatch", "deployment/virtflow-control-worker",
		"deployment/virtflow-api-server", "deployment/virtflow-node-gateway", "daemonset/virtflow-node-worker"} {
		until(t, 3*time.Minute, w+" is available", func() error {
			_, err := try("-n", "virtflow", "rollout", "status", w, "--timeout=20s")
			return err
		})
	}
}

// TestProcessKilledDuringStart: the start completes afterwards, with one domain, whichever process was killed during
// it.
func TestProcessKilledDuringStart(t *testing.T) {
	suite.TakeTurn(t, 5)
	for name, strike := range victims() {
		t.Run(name, func(t *testing.T) {
			untilHealthy(t)
			m := &machine{t: t, namespace: newNamespace(t), name: "starting"}
			most := watchDomains(m)
			m.apply("Always", "")
			until(t, time.Minute, "the start has begun", func() error {
				_, err := m.vmi()
				return err
			})
			strike(t)
			untilReachable(t)
			m.untilBooted()
			require.Equal(t, 1, most(), "domains at the same time")
			require.Len(t, m.domains(), 1)
			m.remove()
		})
	}
}

// TestProcessKilledWhileVMRuns: the guest is not affected: same QEMU process, same boot. Afterwards it can be stopped.
func TestProcessKilledWhileVMRuns(t *testing.T) {
	suite.TakeTurn(t, 3)
	untilHealthy(t)
	m := newMachine(t, "running", "Always", "")
	first := m.untilBooted()
	most := watchDomains(m)
	qemu := m.domains()
	require.Len(t, qemu, 1)
	for name, strike := range victims() {
		t.Run(name, func(t *testing.T) {
			strike(t)
			untilHealthy(t)
			now, err := m.vmi()
			require.NoError(t, err)
			require.Equal(t, first.UID, now.UID)
			require.Equal(t, "Running", string(now.Status.Phase))
			require.Equal(t, qemu[0].pid, m.domains()[0].pid)
		})
	}
	require.Equal(t, 1, most())
	log := m.follow()
	m.remove()
	<-log.done
	require.Contains(t, log.String(), "guest: clean shutdown")
}

// TestLauncherKilled: the guest ends with its launcher, and the VM gets another instance. There are never two guests.
func TestLauncherKilled(t *testing.T) {
	suite.TakeTurn(t, 1)
	untilHealthy(t)
	m := newMachine(t, "launched", "Always", "")
	most := watchDomains(m)
	first := m.untilBooted()
	qemu := m.domains()
	require.Len(t, qemu, 1)
	pod := m.kubectl("get", "pod", m.pod(), "-o", "jsonpath={.metadata.uid}")
	launcher := slices.DeleteFunc(inPod(pod), func(p proc) bool { return p.comm != "launcher" })
	require.NotEmpty(t, launcher)
	kill(t, launcher)
	m.untilAnother(first)
	require.Len(t, m.domains(), 1)
	require.NotEqual(t, qemu[0].pid, m.domains()[0].pid)
	require.Equal(t, 1, most(), "domains at the same time")
	m.remove()
}
