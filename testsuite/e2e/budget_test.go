//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/testsuite/histories"
	usage "github.com/virtflow/virtflow/testsuite/processes"
)

// temporal connects with the settings that `make env` prints.
func temporal(t *testing.T) client.Client {
	t.Helper()
	o := temporalclient.Options{
		Address: os.Getenv("TEMPORAL_ADDRESS"), Namespace: os.Getenv("TEMPORAL_NAMESPACE"),
		TLSCA:   os.Getenv("TEMPORAL_TLS_CA"),
		TLSCert: os.Getenv("TEMPORAL_TLS_CERT"), TLSKey: os.Getenv("TEMPORAL_TLS_KEY"),
		TLSServerName: os.Getenv("TEMPORAL_TLS_SERVER_NAME"),
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := o.Dial(ctx, zerolog.Nop(), nil, "e2e")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// history counts the events and the workflow tasks of all workflows of a Kubernetes namespace.
func history(t *testing.T, c client.Client, namespace string) (perWorkflow map[string]int, events, tasks int) {
	t.Helper()
	perWorkflow = map[string]int{}
	var all histories.Count
	require.NoError(t, histories.Each(context.Background(), c, os.Getenv("TEMPORAL_NAMESPACE"),
		contract.SearchNamespace+" = '"+namespace+"'",
		func(workflow *common.WorkflowExecution, e *historypb.HistoryEvent) {
			perWorkflow[workflow.GetWorkflowId()]++
			all.Add(e)
		}))
	return perWorkflow, all.Events, all.Tasks
}

// call has the fields of one line of the audit log that the tests use.
type call struct {
	Verb      string    `json:"verb"`
	UserAgent string    `json:"userAgent"`
	Stage     string    `json:"stage"`
	Received  time.Time `json:"requestReceivedTimestamp"`
	Object    struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
}

// calls returns the requests about objects of a Kubernetes namespace that were received since then.
func calls(t *testing.T, namespace string, since time.Time) []call {
	t.Helper()
	return readAuditLog(t, since, func(c call) bool { return c.Object.Namespace == namespace })
}

// ownCalls returns virtflow's requests about any object that were received since then.
func ownCalls(t *testing.T, since time.Time) []call {
	t.Helper()
	return readAuditLog(t, since, func(c call) bool { return strings.HasPrefix(c.UserAgent, "virtflow-") })
}

// readAuditLog reads the audit log.
func readAuditLog(t *testing.T, since time.Time, keep func(call) bool) []call {
	t.Helper()
	f, err := os.Open(os.Getenv("VIRTFLOW_AUDIT_LOG"))
	require.NoError(t, err)
	defer f.Close()
	var out []call
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 1<<20), 8<<20)
	for s.Scan() {
		var c call
		if json.Unmarshal(s.Bytes(), &c) != nil || c.Stage != "ResponseComplete" || !keep(c) ||
			c.Received.Before(since) {
			continue
		}
		out = append(out, c)
	}
	return out
}

// sumOwnCalls sums virtflow's calls about a Kubernetes namespace before a time, by user agent, verb and resource.
// Informers list and watch all namespaces, so a LIST of one namespace comes from an activity, and counts.
func sumOwnCalls(list []call, before time.Time) (table string, total, events int) {
	sums := map[string]int{}
	for _, c := range list {
		if c.Received.After(before) {
			continue
		}
		if !strings.HasPrefix(c.UserAgent, "virtflow-") || c.Verb == "watch" {
			continue
		}
		resource := c.Object.Resource
		if c.Object.Subresource != "" {
			resource += "/" + c.Object.Subresource
		}
		if resource == "events" {
			events++
		} else {
			total++
		}
		sums[fmt.Sprintf("%-24s %-7s %s", c.UserAgent, c.Verb, resource)]++
	}
	keys := make([]string, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "  %3d  %s\n", sums[k], k)
	}
	return b.String(), total, events
}

// residentMemory returns the resident memory of each process of virtflow and of the cluster, in MiB.
func residentMemory(t *testing.T) string {
	t.Helper()
	names := []string{"crdwatch", "control-worker", "api-server", "node-gateway", "node-worker", "launcher",
		"libvirtd", "qemu-system-x86_64", "virtflow-temporal"}
	all, err := usage.Running(names...)
	require.NoError(t, err)
	var b strings.Builder
	for _, name := range names {
		for _, p := range usage.Of(name, all) {
			fmt.Fprintf(&b, "  %4d MiB  %s\n", p.Used.Resident>>20, name)
		}
	}
	return b.String()
}

// TestBudget counts and prints the cost of one VM's start and stop. Counts are asserted, times are printed only. A step
// that takes long is written to a status, and a VMI's observation may arrive before the answer to its creation, which
// costs a read. So on a busy machine one start may exceed the limits; then another VM's start must keep them.
func TestBudget(t *testing.T) {
	untilHealthy(t)
	c := temporal(t)
	var s start
	for i := range 3 {
		if i > 0 {
			s.m.remove()
		}
		if s = startOf(t, c, fmt.Sprintf("counted%d", i)); s.calls <= mostCalls && s.events <= mostEvents {
			break
		}
	}
	require.LessOrEqual(t, s.calls, mostCalls, "API calls of a start, without recording events")
	require.LessOrEqual(t, s.events, mostEvents, "Temporal events of a start")
	m, begun := s.m, s.begun

	m.untilBooted()
	until(t, time.Minute, "the guest agent is connected", func() error {
		if vm, err := m.vm(); err != nil ||
			!slices.ContainsFunc(vm.Status.Conditions, func(c kubevirt.VirtualMachineCondition) bool {
				return c.Type == "AgentConnected"
			}) {
			return fmt.Errorf("no such condition: %w", err)
		}
		return nil
	})
	list := settled(t, m.namespace, begun)
	_, totalUp, recordedUp := sumOwnCalls(list, time.Now())
	_, eventsUp, tasksUp := history(t, c, m.namespace)
	fmt.Printf("budget: until its guest agent has answered: own API calls %d, and %d events recorded; Temporal "+
		"events %d in %d workflow tasks\n", totalUp, recordedUp, eventsUp, tasksUp)
	fmt.Printf("budget: time by leg\n%s", m.legs(list))
	fmt.Printf("budget: resident memory\n%s", residentMemory(t))

	vmi, err := m.vmi()
	require.NoError(t, err)
	restarted := time.Now()
	m.request(stopOf(vmi) + "," + startIt)
	until(t, 2*bootTime, "another instance's guest agent is connected", func() error {
		now, err := m.vmi()
		if err != nil {
			return err
		}
		if now.UID == vmi.UID || !slices.ContainsFunc(now.Status.Conditions,
			func(c kubevirt.VirtualMachineInstanceCondition) bool {
				return c.Type == "AgentConnected"
			}) {
			return fmt.Errorf("instance %s is %s", now.UID, now.Status.Phase)
		}
		return nil
	})
	list = settled(t, m.namespace, restarted)
	_, eventsAgain, tasksAgain := history(t, c, m.namespace)
	table, total, recorded := sumOwnCalls(list, time.Now())
	fmt.Printf("budget: one VM's restart, until its guest agent has answered: own API calls %d, and %d events "+
		"recorded; Temporal events %d in %d workflow tasks\n%s",
		total, recorded, eventsAgain-eventsUp, tasksAgain-tasksUp, table)
	eventsUp, tasksUp = eventsAgain, tasksAgain

	stopped := time.Now()
	m.strategy("Halted")
	m.untilStatus("Stopped")
	list = settled(t, m.namespace, stopped)
	_, eventsDown, tasksDown := history(t, c, m.namespace)
	table, total, recorded = sumOwnCalls(list, time.Now())
	fmt.Printf("budget: one VM's stop: own API calls %d, and %d events recorded; Temporal events %d in %d workflow "+
		"tasks\n%s", total, recorded, eventsDown-eventsUp, tasksDown-tasksUp, table)

	deleted := time.Now()
	m.remove()
	list = settled(t, m.namespace, deleted)
	table, total, recorded = sumOwnCalls(list, time.Now())
	fmt.Printf("budget: deletion of a stopped VM: own API calls %d, and %d events recorded\n%s\n", total, recorded, table)
}

// settled returns the calls since then, once the audit log, which is written after the answers, has stopped growing.
func settled(t *testing.T, namespace string, since time.Time) []call {
	t.Helper()
	var list []call
	until(t, time.Minute, "the audit log has been written", func() error {
		now := calls(t, namespace, since)
		if len(now) != len(list) || len(now) == 0 {
			list = now
			return fmt.Errorf("%d calls so far", len(now))
		}
		return nil
	})
	return list
}

// legs returns the times of a start, from the audit log and the launcher's log.
func (m *machine) legs(list []call) string {
	var zero time.Time
	at := func(keep func(call) bool) time.Time {
		for _, c := range list {
			if keep(c) {
				return c.Received
			}
		}
		return zero
	}
	type leg struct {
		name string
		at   time.Time
	}
	logs, _ := try("-n", m.namespace, "logs", m.pod(), "-c", "compute", "--timestamps")
	said := func(text string) time.Time {
		for _, l := range strings.Split(logs, "\n") {
			if stamp, rest, ok := strings.Cut(l, " "); ok && strings.Contains(rest, text) {
				when, _ := time.Parse(time.RFC3339Nano, stamp)
				return when
			}
		}
		return zero
	}
	stamp, _ := try("-n", m.namespace, "get", "events", "-o", `jsonpath={.items[?(@.reason=="Scheduled")].eventTime}`)
	scheduled, _ := time.Parse(time.RFC3339Nano, strings.TrimSpace(stamp))
	legs := []leg{
		{"VM created", at(func(c call) bool {
			return c.Object.Resource == "virtualmachines" && (c.Verb == "create" || c.Verb == "patch")
		})},
		{"VMI created", at(func(c call) bool {
			return c.Object.Resource == "virtualmachineinstances" && c.Verb == "create"
		})},
		{"pod created", at(func(c call) bool {
			return c.Object.Resource == "pods" && c.Object.Subresource == "" && c.Verb == "create"
		})},
		{"pod scheduled", scheduled},
		{"launcher started", said(`"message":"starting"`)},
		{"launcher serves", said(`"message":"serving"`)},
		{"start asked for", said(`"input":"StartAsked"`)},
		{"domain started", said(`"input":"StartDone"`)},
		{"guest up", said(marker)},
	}
	var b strings.Builder
	for _, l := range legs {
		if l.at.IsZero() {
			fmt.Fprintf(&b, "        ?  %s\n", l.name)
			continue
		}
		fmt.Fprintf(&b, "  %6.2f s  %s\n", l.at.Sub(legs[0].at).Seconds(), l.name)
	}
	return b.String()
}

// Limits for the start of a VM, until it is Ready.
const (
	mostCalls  = 9  // of the API server, without recording events
	mostEvents = 72 // of Temporal
)

// start has the cost of one VM's start until the VM is Ready.
type start struct {
	m             *machine
	begun         time.Time
	calls, events int
}

func startOf(t *testing.T, c client.Client, name string) start {
	t.Helper()
	s := start{m: &machine{t: t, namespace: newNamespace(t), name: name}, begun: time.Now()}
	s.m.apply("Always", "")
	until(t, bootTime, "the VM is ready", func() error {
		vm, err := s.m.vm()
		if err == nil && !vm.Status.Ready {
			err = fmt.Errorf("conditions: %v", vm.Status.Conditions)
		}
		return err
	})
	var per map[string]int
	var tasks int
	until(t, time.Minute, "Temporal lists the VM's three workflows", func() error {
		if per, s.events, tasks = history(t, c, s.m.namespace); len(per) < 3 {
			return fmt.Errorf("%v", per)
		}
		return nil
	})
	ready := time.Now()
	table, total, recorded := sumOwnCalls(settled(t, s.m.namespace, s.begun), ready)
	s.calls = total
	fmt.Printf("\nbudget: one VM's start, until it is Ready: own API calls %d, and %d events recorded; Temporal "+
		"events %d in %d workflow tasks: %v\n%s", total, recorded, s.events, tasks, per, table)
	return s
}
