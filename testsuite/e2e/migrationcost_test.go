//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// lines records when each line of a watch of the VM's namespace first came. The returned function waits for a line and
// returns that time.
func (m *machine) lines(resource, template string) (at func(line string) time.Time) {
	m.t.Helper()
	var mu sync.Mutex
	var rest string
	first := map[string]time.Time{}
	cmd := exec.Command("kubectl", "-n", m.namespace, "get", resource, "--watch", "-o", "jsonpath="+template+`{"\n"}`)
	cmd.Stdout = writer(func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		all := strings.Split(rest+string(p), "\n")
		rest = all[len(all)-1]
		for _, line := range all[:len(all)-1] {
			if _, known := first[line]; !known {
				first[line] = time.Now()
			}
		}
	})
	require.NoError(m.t, cmd.Start())
	m.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	until(m.t, time.Minute, "the watch of "+resource+" has begun", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(first) == 0 {
			return fmt.Errorf("the watch has printed nothing yet")
		}
		return nil
	})
	return func(line string) (found time.Time) {
		m.t.Helper()
		until(m.t, time.Minute, resource+" has been "+line, func() error {
			mu.Lock()
			defer mu.Unlock()
			if found = first[line]; found.IsZero() {
				return fmt.Errorf("seen: %v", first)
			}
			return nil
		})
		return found
	}
}

// created returns when the API server received the request to create an object.
func created(t *testing.T, list []call, resource, name string) time.Time {
	t.Helper()
	i := slices.IndexFunc(list, func(c call) bool {
		o := c.Object
		return o.Resource == resource && o.Subresource == "" && (o.Name == name || o.Name == "") &&
			(c.Verb == "create" || c.Verb == "patch") && !strings.HasPrefix(c.UserAgent, "virtflow-")
	})
	require.GreaterOrEqual(t, i, 0, "%s %s was never created", resource, name)
	return list[i].Received
}

// TestMigrationCost counts the cost of a migration, and measures the duration of its parts beside the start of a plain
// pod. It prints rows for docs/performance.md, and asserts nothing about times.
func TestMigrationCost(t *testing.T) {
	suite.TakeTurn(t, 1)
	const moves = 3
	untilHealthy(t)
	c := temporal(t)
	m := newMachine(t, "weighed", "Always", "")
	m.untilBooted()
	pods := m.lines("pods", `{.metadata.name} {.status.conditions[?(@.type=="ContainersReady")].status}`)
	instances := m.lines("vmi", `{.status.migrationState.targetPod} {.status.nodeName}`)
	var plain, ready, handedOff, moved []time.Duration
	var costs []string
	for i := range moves {
		begun := time.Now()
		name := fmt.Sprintf("plain-%d", i)
		apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, spec: `+
			`{automountServiceAccountToken: false, terminationGracePeriodSeconds: 0, securityContext: `+
			`{runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}, containers: `+
			`[{name: c, image: %q, imagePullPolicy: IfNotPresent, command: [sleep, "600"], securityContext: `+
			`{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`, name, m.namespace, image(t, "tools")))
		there := pods(name + " True")
		plain = append(plain, there.Sub(created(t, settled(t, m.namespace, begun), "pods", name)))
		m.kubectl("delete", "pod", name)

		from := m.mustVMI().Status.NodeName
		before, eventsBefore, tasksBefore := history(t, c, m.namespace)
		begun = time.Now()
		name = fmt.Sprintf("move-%d", i)
		m.createMigration(name, "", "")
		vmi := m.untilMigrated()
		m.onePod()
		list := settled(t, m.namespace, begun)
		asked := created(t, list, "virtualmachineinstancemigrations", name)
		target := vmi.Status.MigrationState.TargetPod
		ready = append(ready, pods(target+" True").Sub(asked))
		handedOff = append(handedOff, instances(target+" "+from).Sub(asked))
		moved = append(moved, instances(target+" "+vmi.Status.NodeName).Sub(asked))

		migration := contract.MigrationID(m.namespace, name)
		var after map[string]int
		var events, tasks int
		until(t, time.Minute, "Temporal lists the migration's workflow", func() error {
			if after, events, tasks = history(t, c, m.namespace); after[migration] == 0 {
				return fmt.Errorf("%v", after)
			}
			return nil
		})
		table, total, recorded := sumOwnCalls(list, time.Now())
		instance := contract.VMIID(m.namespace, m.name)
		costs = append(costs, fmt.Sprintf("| %d | %d | %d | %d | %d | %d |", total, recorded, after[migration],
			after[instance]-before[instance], events-eventsBefore, tasks-tasksBefore))
		fmt.Printf("budget: a migration: own API calls %d, and %d events recorded\n%s", total, recorded, table)
	}
	seconds := func(list []time.Duration) string {
		slices.Sort(list)
		return fmt.Sprintf("%.2f s (%.2f to %.2f)", list[moves/2].Seconds(), list[0].Seconds(), list[moves-1].Seconds())
	}
	fmt.Printf("budget: migrations, for docs/performance.md:\n| own API calls | events recorded | Temporal events of "+
		"its workflow | of its instance's | of all | workflow tasks |\n|---|---|---|---|---|---|\n%s\n\n"+
		"| leg | median of %d (from – to) |\n|---|---|\n| a plain pod is ready, from its creation | %s |\n"+
		"| the target's pod is ready, from the migration's creation | %s |\n| hand-off | %s |\n"+
		"| the instance's status names the new node | %s |\n",
		strings.Join(costs, "\n"), moves, seconds(plain), seconds(ready), seconds(handedOff), seconds(moved))
	m.remove()
}
