//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// replicas is one replica set of a test.
type replicas struct {
	t               *testing.T
	namespace, name string
}

// guestSpec returns the specification of a small guest, as YAML with that indentation.
func guestSpec(t *testing.T, indent string) string {
	t.Helper()
	lines := strings.Split(fmt.Sprintf(`terminationGracePeriodSeconds: 20
domain:
  cpu: {cores: 1}
  memory: {guest: 128Mi}
  devices:
    disks:
    - {name: root, disk: {bus: virtio}}
    interfaces:
    - {name: default, masquerade: {}}
networks:
- {name: default, pod: {}}
volumes:
- name: root
  containerDisk: {image: "%s"}`, image(t, "guest")), "\n")
	return indent + strings.Join(lines, "\n"+indent)
}

func newReplicas(t *testing.T, namespace, name string, n int) *replicas {
	t.Helper()
	apply(t, replicaSet(t, namespace, name, n))
	return &replicas{t: t, namespace: namespace, name: name}
}

// replicaSet returns the manifest of a replica set.
func replicaSet(t *testing.T, namespace, name string, n int) string {
	t.Helper()
	return fmt.Sprintf(`apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceReplicaSet
metadata: {name: %s, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: %s}}
  template:
    metadata:
      labels: {app: %s}
    spec:
%s
`, name, namespace, n, name, name, guestSpec(t, "      "))
}

func (r *replicas) kubectl(args ...string) string {
	r.t.Helper()
	return kubectl(r.t, append([]string{"-n", r.namespace}, args...)...)
}

func (r *replicas) get() (*kubevirt.VirtualMachineInstanceReplicaSet, error) {
	out, err := try("-n", r.namespace, "get", "vmirs", r.name, "-o", "json")
	if err != nil {
		return nil, err
	}
	var set kubevirt.VirtualMachineInstanceReplicaSet
	return &set, json.Unmarshal([]byte(out), &set)
}

// instances returns all VMIs of the namespace.
func (r *replicas) instances() ([]kubevirt.VirtualMachineInstance, error) {
	out, err := try("-n", r.namespace, "get", "vmi", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list kubevirt.VirtualMachineInstanceList
	return list.Items, json.Unmarshal([]byte(out), &list)
}

// until waits until that many replicas are ready in the set's status, and there are no others.
func (r *replicas) until(n int) []kubevirt.VirtualMachineInstance {
	r.t.Helper()
	var list []kubevirt.VirtualMachineInstance
	until(r.t, bootTime, fmt.Sprintf("replica set %s has %d ready replicas", r.name, n), func() error {
		set, err := r.get()
		if err != nil {
			return err
		}
		if list, err = r.instances(); err != nil {
			return err
		}
		if set.Status.Replicas != int32(n) || set.Status.ReadyReplicas != int32(n) || len(list) != n {
			return fmt.Errorf("status %+v, %d instances", set.Status, len(list))
		}
		return nil
	})
	return list
}

func uids(list []kubevirt.VirtualMachineInstance) []string {
	var out []string
	for i := range list {
		out = append(out, string(list[i].UID))
	}
	slices.Sort(out)
	return out
}

// condition waits for a condition of the set.
func (r *replicas) condition(kind, reason string) kubevirt.VirtualMachineInstanceReplicaSetCondition {
	r.t.Helper()
	var found kubevirt.VirtualMachineInstanceReplicaSetCondition
	until(r.t, time.Minute, "condition "+kind, func() error {
		set, err := r.get()
		if err != nil {
			return err
		}
		for _, c := range set.Status.Conditions {
			if string(c.Type) == kind && c.Status == "True" && c.Reason == reason {
				found = c
				return nil
			}
		}
		return fmt.Errorf("conditions: %+v", set.Status.Conditions)
	})
	return found
}

// TestReplicaSet scales a set up and down, and removes replicas from it in every way.
func TestReplicaSet(t *testing.T) {
	suite.TakeTurn(t, 4)
	untilHealthy(t)
	c := temporal(t)
	r := newReplicas(t, newNamespace(t), "pool", 0)
	until(t, time.Minute, "the set has a status", func() error {
		set, err := r.get()
		if err == nil && set.Status.LabelSelector == "" {
			err = fmt.Errorf("status %+v", set.Status)
		}
		return err
	})

	// 0 → 3 is one transition.
	r.kubectl("scale", "vmirs", r.name, "--replicas=3")
	three := r.until(3)
	for _, vmi := range three {
		require.Regexp(t, "^pool[bcdfghjklmnpqrstvwxz2456789]{5}$", vmi.Name)
		require.Len(t, vmi.OwnerReferences, 1)
		require.Equal(t, "VirtualMachineInstanceReplicaSet", vmi.OwnerReferences[0].Kind)
	}
	columns := strings.Split(strings.TrimSpace(r.kubectl("get", "vmirs")), "\n")
	require.Equal(t, []string{"NAME", "DESIRED", "CURRENT", "READY", "AGE"}, strings.Fields(columns[0]))
	require.Equal(t, []string{"pool", "3", "3", "3"}, strings.Fields(columns[1])[:4])
	var scale struct {
		Spec   struct{ Replicas int }
		Status struct {
			Replicas int
			Selector string
		}
	}
	require.NoError(t, json.Unmarshal(
		[]byte(r.kubectl("get", "--raw",
			"/apis/kubevirt.io/v1/namespaces/"+r.namespace+"/virtualmachineinstancereplicasets/pool/scale")), &scale))
	require.Equal(t, "app=pool", scale.Status.Selector)
	require.Equal(t, 3, scale.Status.Replicas)
	per, _, _ := history(t, c, r.namespace)
	transitions := 0
	for id := range per {
		if strings.Contains(id, "/replicate/") {
			transitions++
		}
	}
	require.Equal(t, 1, transitions, "%v", per)
	events := r.kubectl("get", "events", "-o",
		"jsonpath={range .items[*]}{.source.component}/{.reason}/{.message}{\"\\n\"}{end}")
	require.Contains(t, events,
		"virtualmachinereplicaset-controller/SuccessfulCreate/Started the virtual machine by creating the new "+
			"virtual machine instance "+three[0].Name)

	// Down and up by one, counted.
	r.kubectl("scale", "vmirs", r.name, "--replicas=2")
	two := r.until(2)
	require.Subset(t, uids(three), uids(two))
	r.countOne(c)

	// Deleted by hand, and powered off by itself: both are replaced.
	r.kubectl("delete", "vmi", two[0].Name, "--wait=false")
	until(t, bootTime, "another instance takes over", func() error {
		list, err := r.instances()
		if err == nil && slices.Contains(uids(list), string(two[0].UID)) {
			err = fmt.Errorf("instance %s is still there", two[0].Name)
		}
		return err
	})
	replaced := r.until(2)
	require.NotContains(t, uids(replaced), string(two[0].UID))
	victim := &machine{t: t, namespace: r.namespace, name: replaced[0].Name}
	until(t, bootTime, "the guest is up", func() error {
		if out := victim.console(); !strings.Contains(out, marker) {
			return fmt.Errorf("the log ends with: %s", tail(out, 5))
		}
		return nil
	})
	victim.inGuest("poweroff")
	until(t, bootTime, "the instance whose guest has powered off is gone", func() error {
		list, err := r.instances()
		if err == nil && slices.Contains(uids(list), string(replaced[0].UID)) {
			err = fmt.Errorf("instance %s is still there", replaced[0].Name)
		}
		return err
	})
	r.until(2)
	events = r.kubectl("get", "events", "-o", "jsonpath={range .items[*]}{.reason}/{.message}{\"\\n\"}{end}")
	require.Contains(t, events, "SuccessfulDelete/Deleted finished virtual machine: "+string(replaced[0].UID))

	// Down to one, then deletion in the foreground.
	r.kubectl("scale", "vmirs", r.name, "--replicas=1")
	r.until(1)
	r.kubectl("delete", "vmirs", r.name, "--cascade=foreground", "--timeout=110s")
	list, err := r.instances()
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestReplicaSetAdoptsAndPauses: a standalone instance that matches is adopted; one that matches no longer is released.
// Both stay as they are when GitOps controllers apply them again. A paused set creates nothing; an exceeded quota is in
// a condition; an orphaned instance stays; the namespace is deleted.
func TestReplicaSetAdoptsAndPauses(t *testing.T) {
	suite.TakeTurn(t, 6)
	untilHealthy(t)
	r := &replicas{t: t, namespace: newNamespace(t), name: "herd"}
	bare := fmt.Sprintf(`apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: bare, namespace: %s, labels: {app: herd}}
spec:
%s
`, r.namespace, guestSpec(t, "  "))
	apply(t, bare)
	newReplicas(t, r.namespace, r.name, 1)
	list := r.until(1)
	require.Equal(t, "bare", list[0].Name)
	require.Equal(t, "herd", list[0].OwnerReferences[0].Name)
	applyByTwo(t, bare, r.namespace, "vmi/bare")
	applyByTwo(t, replicaSet(t, r.namespace, r.name, 1), r.namespace, "vmirs/"+r.name)

	r.kubectl("patch", "vmirs", r.name, "--type=merge", "-p", `{"spec":{"paused":true}}`)
	require.Equal(t, "Controller got paused", r.condition("ReplicaPaused", "Paused").Message)
	r.kubectl("scale", "vmirs", r.name, "--replicas=2")
	out, err := try("-n", r.namespace, "create", "quota", "few", "--hard=count/virtualmachineinstances.kubevirt.io=1")
	require.NoError(t, err, out)
	until(t, time.Minute, "the quota counts", func() error {
		if used := r.kubectl("get", "quota", "few", "-o",
			`jsonpath={.status.used.count/virtualmachineinstances\.kubevirt\.io}`); used != "1" {
			return fmt.Errorf("it counts %q", used)
		}
		return nil
	})
	list, err = r.instances()
	require.NoError(t, err)
	require.Len(t, list, 1, "paused")
	r.kubectl("patch", "vmirs", r.name, "--type=merge", "-p", `{"spec":{"paused":false}}`)
	require.Contains(t, r.condition("ReplicaFailure", "FailedCreate").Message, "exceeded quota: few")
	r.kubectl("delete", "quota", "few")
	list = r.until(2)
	until(t, time.Minute, "the failure condition is gone", func() error {
		set, err := r.get()
		if err == nil && len(set.Status.Conditions) > 0 {
			err = fmt.Errorf("conditions: %+v", set.Status.Conditions)
		}
		return err
	})

	r.kubectl("label", "vmi", "bare", "app=free", "--overwrite")
	until(t, bootTime, "the set has released it and has another one", func() error {
		if owner := r.kubectl("get", "vmi", "bare", "-o", "jsonpath={.metadata.ownerReferences}"); owner != "" {
			return fmt.Errorf("its owner: %s", owner)
		}
		set, err := r.get()
		if err == nil && set.Status.ReadyReplicas != 2 {
			err = fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
	r.kubectl("delete", "vmirs", r.name, "--cascade=orphan")
	left, err := r.instances()
	require.NoError(t, err)
	require.Len(t, left, 3)
	for _, vmi := range left {
		require.Nil(t, vmi.DeletionTimestamp)
		require.Empty(t, vmi.OwnerReferences)
	}
	require.NotEmpty(t, list)
	newReplicas(t, r.namespace, r.name, 2)
	until(t, time.Minute, "another set of that name has adopted them", func() error {
		set, err := r.get()
		if err == nil && set.Status.ReadyReplicas != 2 {
			err = fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
	again, err := r.instances()
	require.NoError(t, err)
	require.Equal(t, uids(left), uids(again), "none was created, none deleted")
	// newNamespace waits until the namespace is gone, with everything in it.
}

// TestReplicaSetOfFifty: fifty unschedulable replicas are one transition, which a newer scale supersedes.
func TestReplicaSetOfFifty(t *testing.T) {
	suite.TakeTurn(t, 2)
	untilHealthy(t)
	c := temporal(t)
	r := newReplicas(t, newNamespace(t), "many", 0)
	r.kubectl("patch", "vmirs", r.name, "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"nodeSelector":{"e2e.virtflow.io/nowhere":"true"}}}}}`)
	begun := time.Now()
	r.kubectl("scale", "vmirs", r.name, "--replicas=50")
	until(t, bootTime, "there are fifty", func() error {
		set, err := r.get()
		if err == nil && set.Status.Replicas != 50 {
			err = fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
	id := contract.ReplicaSetID(r.namespace, r.name)
	of := func(prefix string) (events, workflows int) {
		per, _, _ := history(t, c, r.namespace)
		for workflow, n := range per {
			if strings.HasPrefix(workflow, prefix) {
				events, workflows = events+n, workflows+1
			}
		}
		return events, workflows
	}
	until(t, time.Minute, "Temporal lists the set and its transition", func() error {
		if _, n := of(id); n < 2 {
			return fmt.Errorf("%d workflows", n)
		}
		return nil
	})
	events, workflows := of(id)
	patches := 0
	for _, call := range settled(t, r.namespace, begun) {
		if call.Object.Resource == "virtualmachineinstancereplicasets" && call.Object.Subresource == "status" {
			patches++
		}
	}
	fmt.Printf("budget: a scale from 0 to 50, all created: %d events of the set and its transition, %d status writes\n",
		events, patches)
	require.Equal(t, 2, workflows, "one transition")
	require.LessOrEqual(t, events, 300)
	list, err := r.instances()
	require.NoError(t, err)
	require.Len(t, list, 50)

	r.kubectl("scale", "vmirs", r.name, "--replicas=0")
	r.until(0)
	_, workflows = of(id)
	require.Equal(t, 3, workflows, "the newer scale is a transition of its own")
}

// countOne prints the cost of scaling by one, up and down. The counts depend only on the code.
func (r *replicas) countOne(c client.Client) {
	r.t.Helper()
	for _, n := range []int{3, 2} {
		_, before, tasksBefore := history(r.t, c, r.namespace)
		begun := time.Now()
		r.kubectl("scale", "vmirs", r.name, fmt.Sprintf("--replicas=%d", n))
		r.until(n)
		until(r.t, time.Minute, "the transition has ended", func() error { return r.settled(c) })
		list := settled(r.t, r.namespace, begun)
		per, after, tasks := history(r.t, c, r.namespace)
		table, total, recorded := sumOwnCalls(list, time.Now())
		fmt.Printf("budget: scaling a replica set by one, to %d: own API calls %d, and %d events recorded; Temporal "+
			"events %d in %d workflow tasks (all workflows: %d)\n%s",
			n, total, recorded, after-before, tasks-tasksBefore, len(per), table)
	}
}

// settled checks that no transition of the set is open.
func (r *replicas) settled(c client.Client) error {
	v, err := c.QueryWorkflow(r.t.Context(), contract.ReplicaSetID(r.namespace, r.name), "", contract.QueryState)
	if err != nil {
		return err
	}
	var s struct {
		Open *struct{ ID string }
	}
	if err := v.Get(&s); err != nil {
		return err
	}
	if s.Open != nil {
		return fmt.Errorf("%s is open", s.Open.ID)
	}
	return nil
}
