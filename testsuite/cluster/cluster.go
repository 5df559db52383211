package cluster

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	kubevirt "kubevirt.io/api/core/v1"

	activities "github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch"
	crdkube "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/offline"
	"github.com/virtflow/virtflow/workers/control"
)

// Names of the objects.
const (
	Namespace = "default"
	Name      = "web"
	NodeName  = "node1"
)

// Cluster is everything outside one workflow. Tests may use its fields only while the workflow waits.
type Cluster struct {
	Kube *kube.Server
	// Calls are the activities that were run, in order. Events are those that the workflow has requested.
	Calls  []string
	Events []contract.Event
	// VMStatus, VMIStatus and SetStatus were written last.
	VMStatus  *contract.VMStatus
	VMIStatus *contract.VMIStatus
	SetStatus *contract.ReplicaSetStatus
	// Domain is the guest's domain, or nil; DomainsStarted counts domains; Operations were carried out on them.
	Domain         *contract.DomainObservation
	DomainsStarted int
	Operations     []contract.Operation
	// Fail is called before each activity: its error fails the activity without an effect. Lose is called afterwards:
	// its error replaces the answer.
	Fail, Lose func(activity string) error
	// Deliver receives what crdwatch sends, in place of the workflow.
	Deliver func(signal string, payload any)
	// Boots makes each new instance run after that time; nil: the test does. Ends is how long an instance takes to be
	// gone.
	Boots func(ordinal int) time.Duration
	Ends  time.Duration
	// Most is the highest number of instances at one time.
	Most int

	t        testing.TB
	mu       sync.Mutex
	env      *testsuite.TestWorkflowEnvironment
	workflow string
	watcher  *offline.Watcher
	real     *activities.Activities
	made     []string // UIDs of instances, in order
	ended    int      // how many of them are gone
	unseen   bool
}

// New returns a cluster with one node, for the workflow of that ID, which runs in that environment.
func New(t testing.TB, workflow string, env *testsuite.TestWorkflowEnvironment) *Cluster {
	t.Helper()
	c := &Cluster{t: t, workflow: workflow, env: env, Ends: time.Second}
	c.Kube = kube.New(kube.Options{Now: func() time.Time { return c.env.Now() }})
	client, err := kubernetes.NewForConfig(c.Kube.Config())
	require.NoError(t, err)
	custom, err := crdkube.New(c.Kube.Config())
	require.NoError(t, err)
	c.real, err = activities.New(activities.Options{
		Kubernetes: client, KubeVirt: custom, LauncherImage: "localhost/virtflow/launcher:dev", Log: zerolog.Nop(),
		Settings: func() settings.Settings { s := settings.Default(); s.UseEmulation = true; return s },
		Now:      func() time.Time { return c.env.Now() },
		Record:   kube.Record(client),
	})
	require.NoError(t, err)
	c.watcher, err = offline.New(
		crdwatch.Options{Kubernetes: client, KubeVirt: custom, Namespace: "virtflow", Log: zerolog.Nop()})
	require.NoError(t, err)
	c.Kube.OnChange(c.changed)
	c.addNode()
	c.Use(env)
	return c
}

// Use lets another run of the workflow continue in another environment.
func (c *Cluster) Use(env *testsuite.TestWorkflowEnvironment) {
	c.env = env
	control.RegisterActivities(c, c.real)
	control.RegisterSignals(c, c)
	for name, f := range map[string]any{contract.ActivityStartDomain: c.startDomain,
		contract.ActivityOperateDomain: c.operateDomain} {
		c.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// RegisterActivity is part of worker.ActivityRegistry; activities here have names.
func (c *Cluster) RegisterActivity(any) { panic("register it with a name") }

// RegisterDynamicActivity is part of worker.ActivityRegistry.
func (c *Cluster) RegisterDynamicActivity(any, activity.DynamicRegisterOptions) {
	panic("there are no dynamic activities")
}

// RegisterActivityWithOptions registers an activity for which Fail and Lose are called.
func (c *Cluster) RegisterActivityWithOptions(f any, o activity.RegisterOptions) {
	v := reflect.ValueOf(f)
	last := v.Type().NumOut() - 1 // the error; most have a result before it
	failed := func(err error) []reflect.Value {
		out := []reflect.Value{reflect.ValueOf(&err).Elem()}
		if last > 0 {
			out = append([]reflect.Value{reflect.Zero(v.Type().Out(0))}, out...)
		}
		return out
	}
	asked := reflect.MakeFunc(v.Type(), func(in []reflect.Value) []reflect.Value {
		if c.Fail != nil {
			if err := c.Fail(o.Name); err != nil {
				return failed(err)
			}
		}
		c.mu.Lock()
		c.Calls = append(c.Calls, o.Name)
		c.mu.Unlock()
		out := v.Call(in)
		if out[last].IsNil() {
			c.note(in[1].Interface(), out[0].Interface())
			if c.Lose != nil {
				if err := c.Lose(o.Name); err != nil {
					return failed(err)
				}
			}
		}
		return out
	})
	c.env.RegisterActivityWithOptions(asked.Interface(), o)
}

// note stores what the workflow wrote.
func (c *Cluster) note(in, out any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch in := in.(type) {
	case contract.PatchVMInput:
		if out.(contract.PatchVMResult).Written && in.Status != nil {
			c.VMStatus = in.Status
		}
	case contract.PatchVMIInput:
		if out.(contract.PatchVMIResult).Written {
			c.Events = append(c.Events, in.Events...)
			if in.Status != nil {
				c.VMIStatus = in.Status
			}
		}
	case contract.PatchReplicaSetInput:
		if out.(contract.PatchReplicaSetResult).Written {
			c.Events = append(c.Events, in.Events...)
			c.SetStatus = &in.Status
		}
	case contract.DeletePodInput:
		if !out.(contract.DeletePodResult).Absent {
			c.Events = append(c.Events, in.Events...)
		}
	}
}

// Count returns how often an activity was run.
func (c *Cluster) Count(name string) int {
	n := 0
	for _, called := range c.Calls {
		if called == name {
			n++
		}
	}
	return n
}

// Conflicts makes every write of a resource fail with a conflict, or stops doing so.
func (c *Cluster) Conflicts(resource string, on bool) {
	if !on {
		c.Kube.Intercept(nil)
		return
	}
	status := errors.NewConflict(schema.GroupResource{Resource: resource}, Name, nil).Status()
	c.Kube.Intercept(func(r kube.Request) *kube.Fault {
		if r.Resource != resource || r.Verb != "patch" {
			return nil
		}
		return &kube.Fault{Status: &status}
	})
}

// Unseen does something that crdwatch does not observe.
func (c *Cluster) Unseen(do func()) {
	c.unseen = true
	do()
	c.unseen = false
}

// changed handles every change.
func (c *Cluster) changed(change kube.Change) {
	o, ok := change.New.(metav1.Object)
	if !ok {
		return
	}
	c.mu.Lock()
	unseen := c.unseen
	if !unseen && change.Type == kube.Deleted {
		c.watcher.Remove(o)
	} else if !unseen {
		c.watcher.Set(o)
	}
	if change.Resource == "virtualmachineinstances" {
		switch change.Type {
		case kube.Added:
			c.made = append(c.made, change.UID)
			c.Most = max(c.Most, len(c.made)-c.ended)
		case kube.Deleted:
			c.ended++
		default:
		}
	}
	c.deliver()
	c.mu.Unlock()
	c.play(change)
}

func (c *Cluster) deliver() {
	now, wait := c.watcher.Take(c.env.Now())
	if wait > 0 {
		c.after(wait, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.deliver()
		})
	}
	for _, d := range now {
		switch {
		case d.Workflow != c.workflow:
		case c.Deliver != nil:
			c.Deliver(d.Signal, d.Payload)
		default:
			c.Signal(d.Signal, d.Payload)
		}
	}
}

// SendAll lets crdwatch send everything, as a new leader does.
func (c *Cluster) SendAll() {
	for _, vm := range kube.List[kubevirt.VirtualMachine](c.Kube, Namespace) {
		c.watcher.Set(vm)
	}
	for _, vmi := range kube.List[kubevirt.VirtualMachineInstance](c.Kube, Namespace) {
		c.watcher.Set(vmi)
	}
	for _, pod := range kube.List[corev1.Pod](c.Kube, Namespace) {
		c.watcher.Set(pod)
	}
	c.deliver()
}

// Signal sends a signal to the workflow, after a short delay.
func (c *Cluster) Signal(name string, payload any) {
	c.after(time.Millisecond, func() { c.env.SignalWorkflow(name, payload) })
}

// SignalWorkflow lets the workflow's activity signal another workflow, after a short delay.
func (c *Cluster) SignalWorkflow(_ context.Context, id, _, signal string, payload any) error {
	c.after(time.Millisecond, func() { _ = c.env.SignalWorkflowByID(id, signal, payload) })
	return nil
}

func (c *Cluster) after(d time.Duration, f func()) { c.env.RegisterDelayedCallback(f, d) }

// UID returns the UID of the nth instance, from 1.
func (c *Cluster) UID(n int) string { return c.made[n-1] }

// Instance returns the number of the present instance among all that were created: 1 for the first, 0 if there is none.
func (c *Cluster) Instance() int {
	if vmi := c.VMI(); vmi != nil {
		return slices.Index(c.made, vmi.UID) + 1
	}
	return 0
}

// Unavailable returns the error of an API server that does not answer.
func Unavailable() error { return temporal.NewApplicationError("connection refused", "Kubernetes") }
