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
	"github.com/virtflow/virtflow/crdwatch"
	crdkube "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workers/control"
	nodeworker "github.com/virtflow/virtflow/workers/node"
	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	systemNamespace = "virtflow"
	// Namespace is where users of a world have their machines.
	Namespace = "default"
)

// Options of a world.
type Options struct {
	Fault *Fault
	// Clean is how long the story takes without a fault; 0: that is not compared.
	Clean time.Duration
	Chaos Chaos
	// AlwaysAnew makes every entity continue as new whenever it is settled, instead of after some hundreds of events.
	AlwaysAnew bool
	// Guests by "namespace/name", and how long their containers take to be up (0: 600 ms).
	Guests map[string]Guest
	PodUp  map[string]time.Duration
	// NoImage says that the image of launchers cannot be pulled.
	NoImage bool
	// NoTap is why node workers cannot prepare a pod's network; "": they can.
	NoTap string
	// LiveUpdate says that running instances follow their VM's template, as KubeVirt's default is.
	LiveUpdate bool
	// Updates is how guests come to launchers of a release; zero: by migrations.
	Updates settings.WorkloadUpdates
}

// World is one cluster with its control plane, for one story. It is not safe for concurrent use: everything happens on
// the loop of the test environment.
type World struct {
	// cdi is what fills DataVolumes.
	cdi importer
	Options
	Kube   *kube.Server
	Broken []string // invariants that did not hold
	// Started counts domains that booted, by "namespace/name", and Moved those that went on at a migration's target.
	Started, Moved map[string]int
	orphans        map[string]bool // what a user has taken from its VM and left there, by name as in kube.Server.Names
	// Pressed counts reset buttons and requests to reboot, and Frozen how often guests were, by "namespace/name".
	Pressed, Frozen map[string]int

	env        *testsuite.TestWorkflowEnvironment
	kubernetes kubernetes.Interface
	kubevirt   *crdkube.Client
	log        zerolog.Logger
	activities *activities
	workflows  *workflows
	delivery   *delivery
	users      *users

	fault      *Fault
	faultSince time.Time
	faultHit   int
	away       time.Duration // for how long the fault has kept the engine from answering
	took       time.Duration
	healed     bool

	missing              absence
	hosts                map[string]*host
	domains              []*launcher
	victim               string // the key of the guest that a story has let panic
	orders               []*Order
	accepted             map[*Order]bool
	effects              map[string]effects // by the ID of a request
	sizes                map[string]string  // of claims, as launchers were told, by guest
	updates              int
	requests, migrations int
	ghosts               map[string]string // guests that may still run on a node that was lost, by key
	control              int               // epoch of the control worker
	image                string            // that new launchers get
	acting               bool              // a request of virtflow's is being answered
	// released says that somebody has released what was held.
	released bool
	copies   []backup      // of Temporal's database, at each call of an activity
	etcd     kube.Snapshot // of when somebody last asked for something

	moments   time.Duration
	ctx       workflow.Context
	story     func(*World)
	began     time.Time
	continued int
	ending    bool
	trace     []string
}

// New makes a world with two nodes.
func New(o Options) (*World, error) {
	w := &World{
		Options: o, fault: o.Fault, Started: map[string]int{}, Moved: map[string]int{}, Pressed: map[string]int{},
		Frozen:   map[string]int{},
		orphans:  map[string]bool{},
		accepted: map[*Order]bool{}, effects: map[string]effects{},
		sizes: map[string]string{}, hosts: map[string]*host{},
		ghosts: map[string]string{}, missing: absence{}, log: zerolog.Nop(), image: "localhost/virtflow/launcher:dev",
		env: environment.New(func(s *testsuite.WorkflowTestSuite) { s.SetLogger(silent{}) }),
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
		starting: map[string][]*crdwatch.Delivery{}, restarting: map[string]bool{}, taken: map[string]int{}}
	if w.delivery, err = newDelivery(w, o.Chaos); err != nil {
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

// newProcess is a control worker that has just started: it remembers nothing.
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
	nodeworker.RegisterActivities(w.activities, &node.Activities{}) // for their names and inputs: the nodes are played
	return nil
}

// Crash kills the control worker: what it has in hand is lost, and another one goes on.
func (w *World) Crash() {
	w.tracef("control worker: killed")
	w.control++
	if err := w.newProcess(); err != nil {
		panic(err)
	}
}

// process is whoever makes an attempt.
type process struct {
	epoch   func() int
	started int
}

func (p process) died() bool { return p.epoch() != p.started }

func (w *World) process(queue string) process {
	epoch := func() int { return w.control }
	if node, ok := strings.CutPrefix(queue, contract.NodeTaskQueue("")); ok && w.hosts[node] != nil {
		h := w.hosts[node]
		epoch = func() int { return h.epoch }
	}
	return process{epoch: epoch, started: epoch()}
}

// Run tells a story: it runs in virtual time, and everything else beside it. Afterwards Broken says what did not hold.
func (w *World) Run(story func(*World)) {
	w.story = story
	w.env.RegisterWorkflowWithOptions(w.root, workflow.RegisterOptions{Name: "root"})
	// Of a workflow that has closed, or was never there, Temporal says so.
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

// script is what the root workflow runs.
func (w *World) script() {
	w.began = w.Now()
	w.delivery.lead()
	w.addHost("node1")
	w.addHost("node2")
	w.every(time.Minute, w.sample)
	w.Sleep(3 * time.Second)
	w.requested()
	w.story(w)
	w.ending = true
	w.workflows.closeAll()
}

// changed is told of every change in Kubernetes.
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

// launcherOf finds the launcher of a pod, wherever it runs.
func (w *World) launcherOf(podUID string) *launcher {
	for _, h := range w.hosts {
		if box := h.pods[podUID]; box != nil && h.polls() {
			return box.launcher
		}
	}
	return nil
}

// Now is the virtual time.
func (w *World) Now() time.Time { return w.env.Now() }

// after does something later. No two things happen at the same moment: what was asked for first happens first.
func (w *World) after(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, w.distinct(d)) }

// distinct lengthens d by a few nanoseconds that nothing else is lengthened by.
func (w *World) distinct(d time.Duration) time.Duration {
	w.moments++
	return d + w.moments
}

// every does something again and again until the story ends.
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

// Until lets virtual time pass until a condition holds, at most for limit; it reports whether it does.
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

// tracef writes down what happened when.
func (w *World) tracef(format string, args ...any) {
	if len(w.trace) > 20000 {
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%9.3f ", w.Now().Sub(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// Trace is everything that happened, line by line.
func (w *World) Trace() string { return strings.Join(w.trace, "\n") }

// Hits is how often the fault has struck.
func (w *World) Hits() int { return w.faultHit }

// Activities are the names of all that the workers register, sorted.
func (w *World) Activities() []string { return slices.Sorted(maps.Keys(w.activities.functions)) }

// Invocations are the logical activity calls so far.
func (w *World) Invocations() []Invocation { return w.activities.invocations }

// age makes a run look old, so that it continues as new whenever it is settled. The test environment gives children no
// history length, and has no way to set one. Nor does it go on with a transition that continues as new, as drains do.
func (w *World) age(info *workflow.Info) {
	if !w.AlwaysAnew || isTransition(info.WorkflowType.Name) {
		return
	}
	f := reflect.ValueOf(info).Elem().FieldByName("currentHistoryLength")
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().SetInt(1000) //nolint:gosec // the only way to it
}

// silent is a logger that says nothing.
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
