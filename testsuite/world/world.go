package world

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	crdkube "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workers/control"
	nodeworker "github.com/virtflow/virtflow/workers/node"
)

const (
	systemNamespace = "virtflow"
	// Namespace has the machines of users.
	Namespace = "default"
)

// Options configure a world.
type Options struct {
	Fault *Fault
	// Clean is the duration of the story without a fault; 0: it is not compared.
	Clean time.Duration
	Chaos Chaos
	// AlwaysContinueAsNew makes every entity continue as new whenever it is settled, instead of after some hundreds of
	// events.
	AlwaysContinueAsNew bool
	// Guests are by "namespace/name". PodUp is how long their containers take to start (0: 600 ms).
	Guests map[string]Guest
	PodUp  map[string]time.Duration
	// NoImage: the launchers' image cannot be pulled.
	NoImage bool
	// NoSecret: a Secret that pods mount does not exist.
	NoSecret bool
	// NoTap is the error with which node workers fail to prepare a pod's network; "": they succeed.
	NoTap string
	// LiveUpdate: running instances follow their VM's template, which is KubeVirt's default.
	LiveUpdate bool
	// Updates is how guests get to launchers of a release; zero: by migrations.
	Updates settings.WorkloadUpdates
}

// World is one cluster with its control plane, for one story. It is not safe for concurrent use: everything runs on the
// loop of the test environment.
type World struct {
	// cdi fills DataVolumes.
	cdi importer
	Options
	Kube   *kube.Server
	Broken []string // invariants that did not hold
	// Started counts domains that booted, by "namespace/name", and Moved those that resumed at a migration's target.
	Started, Moved map[string]int
	created        map[string][]time.Time // when launcher pods of the last hour were created, by "namespace/name"
	orphans        map[string]bool        // objects that a user has orphaned, by name as in kube.Server.Names
	// Pressed counts resets and reboots, and Frozen freezes of the guest, by "namespace/name".
	Pressed, Frozen map[string]int

	env        *testsuite.TestWorkflowEnvironment
	kubernetes kubernetes.Interface
	kubevirt   *crdkube.Client
	log        zerolog.Logger
	activities *activities
	workflows  *workflows
	delivery   *deliveries
	users      *users

	fault      *Fault
	faultSince time.Time
	faultHit   int
	away       time.Duration // how long the fault has kept the engine from answering
	took       time.Duration
	healed     bool

	missing              absence
	hosts                map[string]*host
	domains              []*launcher
	victim               string // the key of the instance that a story has chosen
	orders               []*Order
	accepted             map[*Order]bool
	effects              map[string]effects // by the ID of a request
	sizes                map[string]string  // of PVCs, as launchers were notified of, by guest
	updates              int
	requests, migrations int
	possiblyRunning      map[string]string // guests that may still run on a lost node, by key
	control              int               // epoch of the control worker
	image                string            // of new launchers
	acting               bool              // a request of virtflow is being answered
	// released: a user has released the hold.
	released bool
	copies   []backup      // of Temporal's database, at each call of an activity
	etcd     kube.Snapshot // of the time of the last request of a user

	moments   time.Duration
	ctx       workflow.Context
	story     func(*World)
	began     time.Time
	continued int
	ending    bool
	trace     []string
}

// New returns a world with two nodes.
func New(o Options) (*World, error) {
	w := &World{
		Options: o, fault: o.Fault, Started: map[string]int{}, Moved: map[string]int{}, Pressed: map[string]int{},
		Frozen:   map[string]int{},
		created:  map[string][]time.Time{},
		orphans:  map[string]bool{},
		accepted: map[*Order]bool{}, effects: map[string]effects{},
		sizes: map[string]string{}, hosts: map[string]*host{},
		possiblyRunning: map[string]string{}, missing: absence{}, log: zerolog.Nop(),
		image: "localhost/virtflow/launcher:dev",
		env:   environment.New(func(s *testsuite.WorkflowTestSuite) { s.SetLogger(silent{}) }),
	}
	w.env.SetStartTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w.env.SetDetachedChildWait(false)
	w.Kube = kube.New(kube.Options{Now: w.Now, Namespaces: []string{systemNamespace}})
	var err error
	if w.kubernetes, err = kubernetes.NewForConfig(w.config()); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if w.kubevirt, err = crdkube.New(w.config()); err != nil {
		return nil, err
	}
	w.activities = newActivities(w)
	w.workflows = &workflows{world: w, runs: map[string]*run{}, ended: map[string]*run{},
		starting: map[string][]*delivery.Delivery{}, restarting: map[string]bool{}, taken: map[string]int{}}
	if w.delivery, err = newDeliveries(w, o.Chaos); err != nil {
		return nil, err
	}
	if w.users, err = newUsers(w); err != nil {
		return nil, err
	}
	if err := w.newProcess(); err != nil {
		return nil, err
	}
	w.env.SetWorkerOptions(worker.Options{
		Interceptors:             []interceptor.WorkerInterceptor{&intercept{world: w}},
		DeadlockDetectionTimeout: environment.Limit,
	})
	control.RegisterWorkflows(w.env)
	w.Kube.OnChange(w.changed)
	return w, nil
}

// newProcess replaces the control worker by one that has just started and remembers nothing.
func (w *World) newProcess() error {
	a, err := cluster.New(cluster.Options{
		Kubernetes: w.kubernetes, KubeVirt: w.kubevirt, LauncherImage: w.image, Log: w.log,
		Now: w.Now, Record: kube.Record(w.kubernetes),
		Settings: func() settings.Settings {
			return settings.Settings{Cluster: w.configuration(), UseEmulation: true, CPUAllocationRatio: 10,
				MemoryOvercommit: 100, OverheadRatio: 1,
				WorkloadUpdates: cmp.Or(w.Updates, settings.WorkloadUpdates{Migrate: true})}
		},
	})
	if err != nil {
		return fmt.Errorf("making the activities: %w", err)
	}
	control.RegisterActivities(w.activities, a)
	control.RegisterSignals(w.activities, w)
	nodeworker.RegisterActivities(w.activities, &node.Activities{}) // for their names and inputs
	return nil
}

// Crash kills the control worker: its attempts are lost, and another worker continues.
func (w *World) Crash() {
	w.tracef("control worker: killed")
	w.control++
	if err := w.newProcess(); err != nil {
		panic(err)
	}
}

// process is the worker process that makes an attempt.
type process struct {
	epoch   func() int
	started int
}

func (p process) hasDied() bool { return p.epoch() != p.started }

func (w *World) process(queue string) process {
	epoch := func() int { return w.control }
	if node, ok := strings.CutPrefix(queue, contract.NodeTaskQueue("")); ok && w.hosts[node] != nil {
		h := w.hosts[node]
		epoch = func() int { return h.epoch }
	}
	return process{epoch: epoch, started: epoch()}
}

// Run plays a story in virtual time, together with everything else. Afterwards Broken has the invariants that did not
// hold.
func (w *World) Run(story func(*World)) {
	w.story = story
	w.env.RegisterWorkflowWithOptions(w.root, workflow.RegisterOptions{Name: "root"})
	// Temporal returns this error for a workflow that has closed or never existed.
	unknown := &temporal.UnknownExternalWorkflowExecutionError{}
	w.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(unknown).Maybe()
	w.env.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, mock.Anything).Return(unknown).Maybe()
	w.env.ExecuteWorkflow("root")
	w.stopTimers()
	if err := w.env.GetWorkflowError(); err != nil {
		w.ending = false
		w.breakf("the story failed: %v", err)
	}
}

// script runs in the root workflow.
func (w *World) script() {
	w.began = w.Now()
	w.delivery.startLeading()
	w.addHost("node1")
	w.addHost("node2")
	w.every(time.Minute, w.sample)
	w.Sleep(3 * time.Second)
	w.requested()
	w.story(w)
	w.ending = true
	w.workflows.closeAll()
}

// changed handles every change in Kubernetes.
func (w *World) changed(c kube.Change) {
	if c.Resource != "events" {
		w.tracef("kubernetes: %s %s %s/%s", c.Type, c.Resource, c.Namespace, c.Name)
	}
	w.checkReason(c)
	w.delivery.changed(c)
	switch c.Resource {
	case "pods":
		p, ok := c.New.(*corev1.Pod)
		if !ok || p.Namespace == systemNamespace {
			return
		}
		if c.Type == kube.Added {
			w.launcherCreated(p)
		}
		if p.DeletionTimestamp != nil {
			w.after(podGCEvery, w.podGC)
		}
		if ended(p) || c.Type == kube.Deleted {
			w.after(schedulerLag, w.scheduleAll)
		}
		if p.Spec.NodeName == "" {
			w.after(schedulerLag, func() { w.schedule(p.Namespace, p.Name) })
		} else if h := w.hosts[p.Spec.NodeName]; h != nil {
			w.after(kubeletLag, func() { h.sync(p.Namespace, p.Name, string(p.UID)) })
		}
	case "persistentvolumeclaims":
		w.after(schedulerLag, w.scheduleAll)
	case "datavolumes":
		w.after(schedulerLag, w.importAll)
	case "nodes":
		w.after(schedulerLag, w.scheduleAll)
		w.after(podGCEvery, w.podGC)
	}
}

// launcherOf finds the launcher of a pod on any node.
func (w *World) launcherOf(podUID string) *launcher {
	for _, h := range w.hosts {
		if box := h.pods[podUID]; box != nil && h.isPolling() {
			return box.launcher
		}
	}
	return nil
}

// Now returns the virtual time.
func (w *World) Now() time.Time { return w.env.Now() }

// after calls f later. No two calls have the same time: the one that was registered first comes first.
func (w *World) after(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, w.distinct(d)) }

// distinct lengthens d by a number of nanoseconds that it uses only once.
func (w *World) distinct(d time.Duration) time.Duration {
	w.moments++
	return d + w.moments
}

// every calls f periodically until the story ends.
func (w *World) every(d time.Duration, f func()) {
	w.after(d, func() {
		if !w.ending {
			f()
			w.every(d, f)
		}
	})
}

// Sleep lets virtual time pass.
func (w *World) Sleep(d time.Duration) {
	if err := workflow.Sleep(w.ctx, d); err != nil {
		panic(err)
	}
}

// Until lets virtual time pass until a condition holds, at most for limit, and reports whether it does.
func (w *World) Until(limit time.Duration, holds func() bool) bool {
	end := w.Now().Add(limit)
	step := 100 * time.Millisecond
	for {
		if holds() {
			return true
		}
		if !w.Now().Before(end) {
			return false
		}
		w.Sleep(step)
		step = min(step+step/8, limit/60)
	}
}

// tracef adds a line to the trace.
func (w *World) tracef(format string, args ...any) {
	if len(w.trace) > 20000 {
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%9.3f ", w.Now().Sub(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// Trace returns the trace, one event a line.
func (w *World) Trace() string { return strings.Join(w.trace, "\n") }

// Hits returns how often the fault has struck.
func (w *World) Hits() int { return w.faultHit }

// Activities returns the names of all activities that the workers register, sorted.
func (w *World) Activities() []string { return slices.Sorted(maps.Keys(w.activities.functions)) }

// Invocations returns the logical activity calls so far.
func (w *World) Invocations() []Invocation { return w.activities.invocations }

// age makes a run look old, so that it continues as new whenever it is settled. The test environment gives children no
// history length, and has no way to set one. It also does not support a transition that continues as new, as drains do.
func (w *World) age(info *workflow.Info) {
	if !w.AlwaysContinueAsNew || isTransition(info.WorkflowType.Name) {
		return
	}
	f := reflect.ValueOf(info).Elem().FieldByName("currentHistoryLength")
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().SetInt(1000) // the only way to it
}

// silent is a logger that discards everything.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

func entityKinds() []string {
	return slices.Clone([]string{contract.WorkflowVM, contract.WorkflowVMI, contract.WorkflowNode,
		contract.WorkflowReplicaSet, contract.WorkflowMigration, contract.WorkflowAdmission,
		contract.WorkflowWorkloadUpdate})
}
