//go:build crash

package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workers/control"
)

// lane is one cluster with its control plane. One scenario at a time runs in it.
type lane struct {
	t        *testing.T
	name     string
	dir      string
	server   *temporalServer
	temporal client.Client
	kube     *kube.Server
	url      string
	machine  *machine

	mu       sync.Mutex
	workers  []*exec.Cmd
	crdwatch *exec.Cmd
	pods     int // of crdwatch, so far
	written  atomic.Int64
	read     atomic.Int64
}

const systemNamespace = "virtflow"

func newLane(t *testing.T, s *temporalServer, name string) *lane {
	t.Helper()
	l := &lane{t: t, name: name, dir: t.TempDir(), server: s,
		kube: kube.New(kube.Options{Namespaces: []string{systemNamespace}})}
	var err error
	l.temporal, err = client.Dial(s.options(name))
	require.NoError(t, err)
	t.Cleanup(l.temporal.Close)
	until(t, time.Minute, "the namespace is registered", func() error {
		return control.EnsureNamespace(t.Context(), l.temporal, name, zerolog.Nop())
	})
	web := httptest.NewServer(l.kube)
	t.Cleanup(web.CloseClientConnections)
	l.url = web.URL
	l.machine = newMachine(l.kube, l.temporal)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go l.machine.run(ctx)
	_, err = kube.Put(l.kube, configuration())
	require.NoError(t, err)
	for _, name := range []string{nodeName, otherNode} {
		_, err = kube.Put(l.kube, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
		require.NoError(t, err)
		l.startNodeWorker(name)
	}
	l.crdwatch = l.launchCrdwatch()
	return l
}

// configuration returns the cluster's KubeVirt object, with which guests can migrate.
func configuration() *kubevirt.KubeVirt {
	return &kubevirt.KubeVirt{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: settings.ObjectName},
		Spec: kubevirt.KubeVirtSpec{Configuration: kubevirt.KubeVirtConfiguration{
			DeveloperConfiguration: &kubevirt.DeveloperConfiguration{UseEmulation: true},
			NetworkConfiguration:   &kubevirt.NetworkConfiguration{NetworkInterface: "masquerade"},
		}},
	}
}

// startNodeWorker runs the real activities of a node worker with simulated launchers.
func (l *lane) startNodeWorker(name string) {
	w := worker.New(l.temporal, contract.NodeTaskQueue(name), worker.Options{DisableWorkflowWorker: true})
	a := &node.Activities{Starter: l.machine, Mover: mover{l.machine}}
	for name, f := range map[string]any{
		contract.ActivityStartDomain:    a.StartDomain,
		contract.ActivityOfferMigration: a.OfferMigration, contract.ActivityPrepareTarget: a.PrepareTarget,
		contract.ActivityMigrateDomain: a.MigrateDomain, contract.ActivityAbortMigration: a.AbortMigration,
		contract.ActivityAdjustMigration: a.AdjustMigration, contract.ActivityFinishTarget: a.FinishTarget,
		contract.ActivityWithdrawTarget: a.WithdrawTarget, contract.ActivityInspectMigration: a.InspectMigration,
	} {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	require.NoError(l.t, w.Start())
	l.t.Cleanup(w.Stop)
}

// launchCrdwatch starts the deployed program crdwatch.
func (l *lane) launchCrdwatch() *exec.Cmd {
	return l.launch("crdwatch", build(l.t, crdWatch), "--identity", fmt.Sprintf("crdwatch-%d", l.pods))
}

// killCrdwatch kills crdwatch with SIGKILL, which does not release its lease, and starts another one: under its name,
// as the kubelet restarts a container, which leads at once; or under another pod's name, which waits until the lease
// expires.
func (l *lane) killCrdwatch(anotherPod bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end(l.crdwatch)
	if anotherPod {
		l.pods++
	}
	l.crdwatch = l.launchCrdwatch()
}

// startWorker starts a control worker: the deployed program, without a cache of workflows.
func (l *lane) startWorker(program string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = append(l.workers, l.launch("control-worker", program, "--launcher-image",
		"localhost/virtflow/launcher:dev",
		"--cached-workflows", "0", "--max-concurrent", "20"))
}

// launch starts a program that uses the lane's Kubernetes, and Temporal as a process of virtflow.
func (l *lane) launch(process, program string, args ...string) *exec.Cmd {
	config := filepath.Join(l.dir, "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x",`+
		`"cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"x"}}]}`, l.url)
	require.NoError(l.t, os.WriteFile(config, []byte(text), 0o600))
	return start(l.t, filepath.Join(l.dir, "log"), nil, append([]string{program,
		"--kubeconfig", config, "--namespace", systemNamespace, "--metrics-address", "", "--log-level", "warn",
		"--temporal-address", l.server.address, "--temporal-namespace", l.name,
		"--temporal-tls-server-name", "localhost", "--temporal-tls-ca", filepath.Join(l.server.tls, "ca.crt"),
		"--temporal-tls-cert", filepath.Join(l.server.tls, process+".crt"),
		"--temporal-tls-key", filepath.Join(l.server.tls, process+".key")}, args...)...)
}

// killWorkers kills all control workers with SIGKILL.
func (l *lane) killWorkers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cmd := range l.workers {
		end(cmd)
	}
	l.workers = nil
}

// onWrite calls strike with the number of each write of the control worker to the API server, from now on. If strike
// returns true, the write takes effect and its answer is lost.
func (l *lane) onWrite(strike func(n int) bool) {
	l.written.Store(0)
	l.read.Store(0)
	l.kube.Intercept(func(r kube.Request) *kube.Fault {
		if !strings.HasPrefix(r.UserAgent(), "virtflow-control-worker") || r.Verb == "watch" {
			return nil
		}
		switch r.Verb {
		case "get", "list":
			l.read.Add(1)
			return nil
		}
		if strike(int(l.written.Add(1))) {
			return &kube.Fault{After: true, Err: errKilled}
		}
		return nil
	})
}

var errKilled = errors.New("the worker was killed")

// stopWrites ends the count of writes, and returns it.
func (l *lane) stopWrites() int {
	l.kube.Intercept(nil)
	return int(l.written.Load())
}

// log returns the end of the programs' logs.
func (l *lane) log() string {
	text, err := os.ReadFile(filepath.Join(l.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// broken returns the invariants that the machine found broken.
func (l *lane) broken() []string {
	l.machine.mu.Lock()
	defer l.machine.mu.Unlock()
	out := l.machine.broken
	l.machine.broken = nil
	return out
}

const patience = 90 * time.Second
