package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/histories"
	"github.com/virtflow/virtflow/testsuite/processes"
)

func TestCountsRequestsInAuditLog(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	line := func(agent, verb, resource, subresource, namespace string, at time.Duration, code int) string {
		b, err := json.Marshal(map[string]any{
			"stage": "ResponseComplete", "verb": verb, "userAgent": agent,
			"requestReceivedTimestamp": metav1.NewMicroTime(since.Add(at)),
			"stageTimestamp":           metav1.NewMicroTime(since.Add(at)),
			"objectRef": map[string]string{"resource": resource, "subresource": subresource,
				"namespace": namespace},
			"responseStatus": map[string]int{"code": code},
		})
		require.NoError(t, err)
		return string(b)
	}
	log := t.TempDir() + "/audit.log"
	require.NoError(t, os.WriteFile(log, []byte(strings.Join([]string{
		// of the step before
		line("virtflow-control-worker", "patch", "virtualmachines", "status", "scale-load", -time.Second, 200),
		line("virtflow-control-worker", "create", "pods", "", "scale-load", time.Second, 201),
		line("virtflow-control-worker", "patch", "virtualmachines", "status", "scale-load", time.Second, 200),
		line("virtflow-control-worker", "patch", "virtualmachines", "status", "scale-load", 2*time.Second, 409),
		line("virtflow-control-worker", "create", "events", "", "scale-load", time.Second, 429),
		line("virtflow-control-worker", "create", "pods", "", "scale-load2", time.Second, 201),
		line("virtflow-control-worker", "list", "pods", "", "scale-load", time.Second, 200),
		line("virtflow-crdwatch", "list", "virtualmachines", "", "", time.Second, 200),
		line("virtflow-crdwatch", "watch", "virtualmachines", "", "scale-load", time.Second, 200),
		line("kubectl", "delete", "virtualmachines", "", "scale-load", time.Second, 200),
		`{"stage": "half a lin`,
	}, "\n")), 0o600))
	s := &stage{run: &run{options: options{Audit: log}, loaded: virtflow{}}, namespace: "scale-load"}
	c, err := s.counted(since)
	require.NoError(t, err)
	require.Equal(t, calls{
		Total: 4, Events: 1,
		By:     map[string]int{"create pods": 1, "list pods": 1, "patch virtualmachines/status": 2},
		Failed: map[string]int{"patch virtualmachines/status: 409": 1, "create events: 429": 1},
	}, c)

	// Requests from before the log's rotation are in an older file; those in deleted files cannot be counted.
	older := strings.TrimSuffix(log, ".log") + "-2026-01-01T00-00-00.000.log"
	require.NoError(t, os.Rename(log, older))
	require.NoError(t, os.WriteFile(log,
		[]byte(line("virtflow-control-worker", "delete", "pods", "", "scale-load", time.Minute, 200)), 0o600))
	c, err = s.counted(since)
	require.NoError(t, err)
	require.Equal(t, 5, c.Total)
	require.NoError(t, os.Chtimes(older, since, since.Add(-time.Hour)))
	c, err = s.counted(since)
	require.NoError(t, err)
	require.Equal(t, 1, c.Total, "all of the older file is of before")
	require.NoError(t, os.Remove(older))
	_, err = s.counted(since)
	require.ErrorContains(t, err, "the audit log does not reach back")
}

func TestLegs(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var lines []string
	line := func(agent, verb, resource, name string, received, took time.Duration, code int) {
		b, err := json.Marshal(map[string]any{
			"stage": "ResponseComplete", "verb": verb, "userAgent": agent,
			"requestReceivedTimestamp": metav1.NewMicroTime(since.Add(received)),
			"stageTimestamp":           metav1.NewMicroTime(since.Add(received + took)),
			"objectRef":                map[string]string{"resource": resource, "namespace": "scale-load", "name": name},
			"responseStatus":           map[string]int{"code": code},
		})
		require.NoError(t, err)
		lines = append(lines, string(b))
	}
	const worker = "virtflow-control-worker"
	line("someone", "get", "pods", "other", -time.Minute, 0, 200)
	for i := range 20 { // each takes longer than the one before
		vm, at, slow := fmt.Sprintf("vm%05d", i), time.Duration(i)*time.Minute, time.Duration(i)*time.Second
		line(worker, "patch", "virtualmachines", vm, at+30*time.Second, slow, 200)     // lines are not in order
		line(worker, "patch", "virtualmachines", vm, at-time.Second, time.Second, 200) // of an earlier request
		line("scale/v0.0.0 (linux/amd64)", "create", "virtualmachines", vm, at, time.Millisecond, 201)
		line(worker, "create", "pods", "virt-launcher-"+vm+"-x1y2z", at+time.Second, slow, 201)
		line(worker, "patch", "virtualmachines", vm, at+20*time.Second, time.Second, 200)
		line(worker, "patch", "virtualmachines", vm, at+20*time.Second, time.Second, 409)
		line(worker, "get", "virtualmachines", vm, at, time.Second, 200)
		line(worker, "create", "events", vm+".1", at, time.Second, 201)
		if i < 10 {
			line(worker, "patch", "pods", "virt-launcher-"+vm+"-x1y2z", at+40*time.Second, 0, 200) // no more than half
		}
	}
	line("someone", "delete", "pods", "other", 0, 0, 200)
	line(worker, "create", "pods", "virt-launcher-vm00020-x1y2z", 0, 0, 201) // without a user's request
	log := t.TempDir() + "/audit.log"
	require.NoError(t, os.WriteFile(log, []byte(strings.Join(lines, "\n")), 0o600))
	legs, err := (&stage{run: &run{options: options{Audit: log}}, namespace: "scale-load"}).legs(since)
	require.NoError(t, err)
	require.Equal(t, []leg{
		{"scale: create virtualmachines", 20, time.Millisecond, time.Millisecond},
		{worker + ": create pods", 20, 11 * time.Second, 20 * time.Second},
		{worker + ": patch virtualmachines", 20, 21 * time.Second, 21 * time.Second},
		{worker + ": patch virtualmachines (2)", 20, 40 * time.Second, 49 * time.Second},
	}, legs)
	var out bytes.Buffer
	printLegs(&out, legs[1:2], 21)
	require.Equal(t, "scale:   after 11s (95th percentile 20s)  "+worker+": create pods (of 20)\n", out.String())
}

func TestWaitConditions(t *testing.T) {
	m := &machine{}
	require.True(t, gone(m))
	vm := &kubevirt.VirtualMachine{Status: kubevirt.VirtualMachineStatus{Ready: true}}
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: "1"},
		Status: kubevirt.VirtualMachineInstanceStatus{Phase: kubevirt.Scheduling}}
	m.observeVM(vm)
	m.observeVMI(vmi)
	require.False(t, started(m))
	vmi.Status.Phase = kubevirt.Running
	m.observeVMI(vmi)
	require.True(t, started(m))
	alone := &machine{}
	alone.observeVMI(vmi)
	require.True(t, options{VMIs: true}.object().started(alone))
	require.False(t, options{}.object().started(alone), "there is no VM")
	m.before = "1"
	require.False(t, replaced(m))
	m.observeVMI(nil)
	require.False(t, replaced(m) || gone(m))
	vmi.UID = "2"
	m.observeVMI(vmi)
	require.True(t, replaced(m))
	vmi.Status.Phase = kubevirt.Failed
	m.observeVMI(vmi)
	require.Equal(t, "the VMI is Failed", m.Failure)
	vm.Status.Conditions = []kubevirt.VirtualMachineCondition{
		{Type: kubevirt.VirtualMachineFailure, Status: corev1.ConditionTrue, Reason: "A", Message: "b"}}
	m.observeVM(vm)
	require.Equal(t, "A: b", m.Failure)
	m.observeVM(nil)
	require.False(t, gone(m), "its instance is still there")
	m.observeVMI(nil)
	require.True(t, gone(m))
}

// TestStepWaitsForEach: a step ends when the last VM has done it, and a VM that has done it counts even if its state
// changes again.
func TestStepWaitsForEach(t *testing.T) {
	s := &stage{
		run:      &run{options: options{Patience: time.Minute, Audit: t.TempDir() + "/audit.log"}, loaded: virtflow{}},
		count:    3,
		machines: map[string]*machine{"a": {}, "b": {}, "c": {}}, failures: map[string]string{},
		changed: make(chan struct{}, 1),
	}
	inHand, most := 0, 0
	var asked []string
	runs := func(up bool) func(*machine) { return func(m *machine) { m.VM, m.Ready, m.Running = up, up, up } }
	act := func(_ context.Context, name string) error {
		asked = append(asked, name)
		if inHand++; inHand > most {
			most = inHand
		}
		if len(asked) < 2 {
			return nil
		}
		for _, name := range asked { // earlier ones only after another request
			s.observe(name, runs(true))
			s.observe(name, runs(false))
		}
		inHand = 0
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("the test's time is over"))
	defer cancel()
	s.want, s.left = started, 3
	require.NoError(t, s.atATime(ctx, 2, act))
	require.Equal(t, []string{"a", "b", "c"}, asked)
	require.Equal(t, 2, most)
	require.Zero(t, s.left)

	s.Patience = 10 * time.Millisecond
	out, err := s.step(ctx, "start", started, func(context.Context) error { s.observe("b", runs(true)); return nil })
	require.ErrorContains(t, err, "1 of 3 VMs: not within 10ms")
	require.Len(t, out.Took, 1)
}

func TestMissingEvents(t *testing.T) {
	event := func(kind, name, reason, from string, count int32) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Reason: reason,
			ReportingController: from, Count: count}
	}
	atRest := eventsOf([]corev1.Event{
		event("VirtualMachine", "a", "SuccessfulCreate", "virtualmachine-controller", 1),
		event("VirtualMachineInstance", "a", "Started", "virt-handler", 2),
		event("VirtualMachineInstance", "a", "SyncFailed", "virtualmachine-controller", 1),
		event("VirtualMachine", "b", "SuccessfulCreate", "virtualmachine-controller", 1),
		event("VirtualMachineInstance", "b", "Started", "virt-handler", 1),
		event("Pod", "virt-launcher-b", "Scheduled", "default-scheduler", 1),
	}).least()
	require.Equal(t, map[string]int{"VirtualMachine SuccessfulCreate": 1, "VirtualMachineInstance Started": 1,
		"VirtualMachineInstance SyncFailed": 0}, withZero(atRest))
	r := eventsOf([]corev1.Event{event("VirtualMachine", "a", "SuccessfulCreate", "virtualmachine-controller", 1)})
	require.Equal(t, map[string]int{"VirtualMachine SuccessfulCreate": 1, "VirtualMachineInstance Started": 2},
		lost(atRest, r, []string{"a", "c"}))
}

// withZero adds the event that only one of the two VMs has, with 0: least begins with either VM, and has the event only
// if it begins with that one.
func withZero(m map[string]int) map[string]int {
	if _, ok := m["VirtualMachineInstance SyncFailed"]; !ok {
		m["VirtualMachineInstance SyncFailed"] = 0
	}
	return m
}

func TestLease(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lease := func(holder string, after time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(begin.Add(after))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at}}
	}
	var w leaseWatch
	for _, l := range []*coordinationv1.Lease{lease("a", 0), lease("a", 2*time.Second), lease("a", 7*time.Second),
		lease("a", 9*time.Second)} {
		w.observe(l)
	}
	longest, changes := w.sinceRenewed(begin.Add(10 * time.Second))
	require.Equal(t, 5*time.Second, longest)
	require.Zero(t, changes)
	require.True(t, renewed(longest).Good)
	longest, _ = w.sinceRenewed(begin.Add(20 * time.Second))
	require.False(t, renewed(longest).Good, "it is no longer renewed")
	w.observe(lease("", 9*time.Second))
	w.observe(lease("b", 9*time.Second))
	_, changes = w.sinceRenewed(begin.Add(9 * time.Second))
	require.Equal(t, 2, changes)
}

func TestFindingsTable(t *testing.T) {
	of := func(n, requests int, whole time.Duration) step {
		return step{Took: make([]time.Duration, n), Whole: whole, Calls: calls{Total: requests}}
	}
	rest, capacity := of(5, 45, time.Minute), of(100, 900, 16*time.Second)
	var out bytes.Buffer
	good := []finding{exactly("VMs that run", 1000, 1000),
		eventsLost("events", map[string]int{"VirtualMachine SuccessfulCreate": 1}, 0),
		costs("requests", rest, of(1000, 9500, 0)),
		goodput("starts", 0, capacity, of(1000, 0, 180*time.Second)),
		goodput("starts, no more of which were asked for", 2, capacity, of(200, 0, 100*time.Second))}
	require.True(t, printFindings(&out, good), out.String())
	for _, bad := range []finding{
		eventsLost("events", map[string]int{"VirtualMachine SuccessfulCreate": 0}, 0),
		eventsLost("events", map[string]int{"VirtualMachine SuccessfulCreate": 1}, 1),
		costs("requests", rest, of(1000, 0, 0)), costs("requests", of(5, 0, 0), of(1000, 1, 0)),
		exactly("VMs that run", 1000, 999), exactly("failed", 0, 1), costs("requests", rest, of(1000, 27000, 0)),
		goodput("starts", 0, capacity, of(1000, 0, 330*time.Second)), goodput("starts", 0, capacity, of(0, 0, time.Second)),
		stopped(errors.New("why")), goodput("starts", 2, capacity, of(200, 0, 180*time.Second)),
	} {
		out.Reset()
		require.False(t, printFindings(&out, append(good, bad)))
		require.Equal(t, 1, strings.Count(out.String(), "FAIL"), out.String())
	}
	printStep(&out, "nothing", of(0, 0, 0))
}

// TestKubelet: a pod runs, gets ready with its readiness gate, ends when it is deleted, and stays as long as it has a
// finalizer.
func TestKubelet(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: types.UID("8f7e979")},
		Spec: corev1.PodSpec{
			NodeName: "simulated0", Containers: []corev1.Container{{Name: "compute"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "kubevirt.io/virtual-machine-unpaused"}},
		},
	}
	clients := fake.NewClientset(pod)
	r := &run{kubernetes: clients, loaded: virtflow{}}
	sync := func() *corev1.Pod {
		require.NoError(t, r.sync(t.Context(), pod, nil))
		now, err := clients.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		require.NoError(t, err)
		pod = now
		return now
	}
	require.Equal(t, corev1.PodRunning, sync().Status.Phase)
	require.Equal(t, corev1.ConditionFalse, conditionOf(pod, corev1.PodReady))
	pod.Status.Conditions = append(pod.Status.Conditions,
		corev1.PodCondition{Type: "kubevirt.io/virtual-machine-unpaused", Status: corev1.ConditionTrue})
	require.Equal(t, corev1.ConditionTrue, conditionOf(sync(), corev1.PodReady))
	now, grace := metav1.Now(), int64(30)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	ended := sync()
	require.Equal(t, corev1.PodSucceeded, ended.Status.Phase)
	require.Contains(t, ended.Status.ContainerStatuses[0].State.Terminated.Message, "Shutdown")
	none := int64(0)
	ended.DeletionTimestamp, ended.DeletionGracePeriodSeconds = &now, &none
	before := len(clients.Actions())
	require.NoError(t, r.sync(t.Context(), ended, nil))
	require.Len(t, clients.Actions(), before, "its finalizer keeps it")
}

func TestDisturbed(t *testing.T) {
	before := map[string]bool{"1": true, "2": true}
	require.Zero(t, disturbed(before, map[string]bool{"1": true, "2": true, "3": true}))
	require.Equal(t, 1, disturbed(before, map[string]bool{"2": true}))
}

// TestRestartsOnlyClusterPrograms: they must run on this machine, once.
func TestRestartsOnlyClusterPrograms(t *testing.T) {
	var all []processes.Process
	for _, name := range restartables {
		all = append(all, processes.Process{Program: name})
	}
	require.NoError(t, restartable("https://127.0.0.1:6443", all))
	require.ErrorContains(t, restartable("https://192.0.2.1:6443", all), "is not one of this machine's")
	require.ErrorContains(t, restartable("https://cluster.example.com", all), "is not one of this machine's")
	require.ErrorContains(t, restartable("https://127.0.0.1:6443", all[1:]), "do not run on this machine: crdwatch")
	require.ErrorContains(t, restartable("https://127.0.0.1:6443",
		append(all, processes.Process{Program: "crdwatch"})), "2 processes of crdwatch")
}

// TestFindsRepeatedWork: repeated DELETEs, and failed workflow tasks.
func TestFindsRepeatedWork(t *testing.T) {
	of := func(pods, failed int) step {
		return step{Took: make([]time.Duration, 20), Calls: calls{By: map[string]int{"delete pods": pods,
			"deletecollection secrets": 20, "get pods": 100}}, Histories: &sampled{Machines: 20,
			Count: histories.Count{FailedTasks: failed, Failures: map[string]int{"UnhandledCommand": failed}}}}
	}
	var out bytes.Buffer
	require.True(t, printFindings(&out, workedOnce("", of(20, 0), of(22, 6))), out.String())
	require.False(t, printFindings(&out, workedOnce("", of(20, 0), of(23, 0))))
	require.False(t, printFindings(&out, workedOnce("", of(20, 0), of(20, 7))))
	require.Contains(t, out.String(), "0.35 UnhandledCommand 7")
}

// TestReport writes the file that the test of the plots reads.
func TestReport(t *testing.T) {
	made := func(stage, what string, cpu time.Duration) reported {
		return reported{Stage: stage, What: what, step: step{
			Took: []time.Duration{time.Second, 2 * time.Second}, Done: []time.Duration{time.Second, 3 * time.Second},
			Whole: 3 * time.Second, Asked: time.Second,
			Calls: calls{Total: 7, Events: 8, Failed: map[string]int{},
				By: map[string]int{"create pods": 2, "patch virtualmachines/status": 5}},
			Used: map[string]processes.Used{"control-worker": {CPU: cpu, Resident: 1 << 20}},
			Legs: []leg{{What: "virtflow-control-worker: create pods", Machines: 2, Median: 1500 * time.Millisecond,
				P95: 2 * time.Second}},
			Histories: &sampled{Machines: 2, Count: histories.Count{Events: 60, Tasks: 20, FailedTasks: 1, Signals: 9}},
		}}
	}
	var out bytes.Buffer
	require.NoError(t, report{
		Began: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Options: options{Count: 2},
		Steps: []reported{
			made("rest", "kubectl delete vmi", time.Second), made("load", "start, 9.9 a second", 500*time.Millisecond),
			made("load", "kubectl delete vm --all", 100*time.Millisecond),
		},
		Findings: []finding{exactly("VMs that run", 2, 2)},
	}.write(&out))
	want, err := os.ReadFile("testdata/report.json")
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

func TestUnmeasuredProgram(t *testing.T) {
	var all []processes.Process
	programs := virtflow{}.programs()
	for _, name := range programs[1:] {
		all = append(all, processes.Process{Program: name})
	}
	require.Equal(t, programs[:1], unmeasured(programs, all))
}
