//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// loadLabel is the label by which the load generator finds the objects of one run.
const loadLabel = "kubevirt-load-generator-workload"

// TestLoadGenerator: KubeVirt's own load generator creates VMIs and VMs, and replaces and deletes them. It ends with
// code 0 even if it has waited in vain, so the workloads' timeouts are such that this shows.
func TestLoadGenerator(t *testing.T) {
	suite.TakeTurn(t, 0)
	untilHealthy(t)
	const part = "perfscale-load-generator"
	program := filepath.Join(built(t, part), part)
	t.Run("burst", func(t *testing.T) { generateBurst(t, program) })
	t.Run("steady state", func(t *testing.T) { generateSteadyState(t, program) })
}

// generateBurst creates three VMIs at once. The program waits for an hour, longer than the test waits for the program:
// it ends in time only if it has counted three whose phase is Running.
func generateBurst(t *testing.T, program string) {
	namespace := newNamespace(t)
	log, wait := generateLoad(t, program, fmt.Sprintf(`name: burst
type: burst
timeout: 1h
count: 3
object: {templateFile: object.yaml, inputVars: {namespace: %s}}
`, namespace), `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: "burst-{{.replica}}", namespace: "{{.namespace}}"}
spec:
`+guestSpec(t, "  "))
	wait()
	hasInOrder(t, log.String(), "Replica 3 of 3", "Wait for obj(s) virtualmachineinstances to be available",
		"Stopping obj virtualmachineinstances watcher")
	require.NotContains(t, log.String(), `"level":"error"`)

	var list kubevirt.VirtualMachineInstanceList
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "-n", namespace, "get", "vmi", "-o", "json")), &list))
	phases := map[string]kubevirt.VirtualMachineInstancePhase{}
	for _, vmi := range list.Items {
		phases[vmi.Name] = vmi.Status.Phase
		require.Equal(t, list.Items[0].Labels[loadLabel], vmi.Labels[loadLabel])
	}
	require.NotEmpty(t, list.Items[0].Labels[loadLabel])
	require.Equal(t, map[string]kubevirt.VirtualMachineInstancePhase{"burst-1": kubevirt.Running,
		"burst-2": kubevirt.Running, "burst-3": kubevirt.Running}, phases)
}

// generateSteadyState creates two VMs, replaces some until the workload's timeout, and then deletes all, and their
// namespace. Only if both were ready before the timeout does the program replace any.
func generateSteadyState(t *testing.T, program string) {
	namespace := unusedNamespace(t)
	log, wait := generateLoad(t, program, fmt.Sprintf(`name: steady
type: steady-state
timeout: 4m
count: 2
churn: 1
minChurnSleep: 15s
object: {templateFile: object.yaml, inputVars: {namespace: %s}}
`, namespace), `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: "steady-{{.replica}}", namespace: "{{.namespace}}"}
spec:
  runStrategy: Always
  template:
    spec:
`+guestSpec(t, "      "))
	isReady := func(vm string) error {
		out, err := try("-n", namespace, "get", "vm", vm, "-o", "jsonpath={.status.ready}")
		if err == nil && out != "true" {
			err = fmt.Errorf("status.ready is %q; the load generator's log ends with: %s", out, tail(log.String(), 5))
		}
		return err
	}
	until(t, bootTime, "both VMs are ready", func() error { return errors.Join(isReady("steady-0"), isReady("steady-1")) })
	until(t, bootTime, "the VM that replaces one is ready", func() error { return isReady("steady-2") })
	wait()
	hasInOrder(t, log.String(), "Starting the Ramp Up Phase", "Replica 2 of 2 with idx 1",
		"Starting the Steady State Phase", "Deleting 1 objects for job", "Replica 1 of 1 with idx 2",
		"Starting the Ramp Down Phase", "Deleting 2 objects for job", "deleting all created namespaces")
	for _, failed := range []string{"Error creating", "error creating", "Error deleting"} {
		require.NotContains(t, log.String(), failed)
	}
	require.Empty(t, kubectl(t, "get", "namespace", namespace, "--ignore-not-found"))
	require.Empty(t, processes(func(p proc) bool { return strings.Contains(p.args, "guest="+namespace+"_") }))
}

// generateLoad starts the load generator on a workload, whose objects have that template. The returned function waits
// until it has ended, which it must do in time and with code 0.
func generateLoad(t *testing.T, program, workload, template string) (log *output, wait func()) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"workload.yaml": workload, "object.yaml": template} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*bootTime)
	cmd := exec.CommandContext(ctx, program, "-kubeconfig="+os.Getenv("KUBECONFIG"),
		"-workload="+filepath.Join(dir, "workload.yaml"))
	log = &output{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	end := sync.OnceValue(cmd.Wait)
	t.Cleanup(func() { cancel(); _ = end() })
	return log, func() {
		t.Helper()
		require.NoError(t, end(), "the load generator's log ends with: %s", tail(log.String(), 20))
	}
}

// hasInOrder requires that a log has each of these words, each after the one before.
func hasInOrder(t *testing.T, log string, words ...string) {
	t.Helper()
	rest := log
	for _, w := range words {
		_, after, found := strings.Cut(rest, w)
		require.True(t, found, "%q does not follow what is before it in: %s", w, log)
		rest = after
	}
}
