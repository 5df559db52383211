package fakes

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Registry is the part of a test environment or worker that takes activities.
type Registry interface {
	RegisterActivityWithOptions(a any, o activity.RegisterOptions)
}

// Cluster is Kubernetes with one VM, its VMI and the VMI's pod, and the node's worker with its launcher. Its methods are the activities of
// the contract. It is safe for concurrent use.
type Cluster struct {
	mu      sync.Mutex
	version int

	VM     *contract.VMObservation
	VMI    *contract.VMIObservation
	Pod    *contract.PodObservation
	Domain *contract.DomainObservation
	Node   map[string]string

	VMStatus  *contract.VMStatus
	VMIStatus *contract.VMIStatus
	Events    []contract.Event
	Calls     []string
	// Operations are those that were done to the domain, in order.
	Operations []contract.Operation
	// DomainsStarted counts domains that were brought up.
	DomainsStarted int

	// Paused says that the last VMI was asked to start paused.
	Paused bool
	// Sync decides what a comparison of the VMI with its VM finds; nil: that the VMI follows the VM.
	Sync func(vm contract.VMObservation) contract.SyncInstanceResult
	// Fail is asked before each activity; an error fails it without effect.
	Fail func(activity string) error
	// Conflicts makes every write of the VM, and of the VMI, meet a conflict.
	Conflicts bool
	// Well is the node of a fenced pod, where it is ready after all; nil: it is not.
	Well *contract.NodeState
	// Changed is called after each change, outside the lock, with what crdwatch would send.
	Changed func(signal string, payload any)

	pending []change
	made    int
}

type change struct {
	signal  string
	payload any
}

// Identity of everything in the fake.
const (
	Namespace = "default"
	Name      = "web"
	NodeName  = "node1"
)

// NewCluster has no objects.
func NewCluster() *Cluster { return &Cluster{version: 100, Node: map[string]string{}} }

// Register registers every activity of the contract.
func (c *Cluster) Register(r Registry) {
	for name, f := range map[string]any{
		contract.ActivityCreateVMI: c.CreateVMI, contract.ActivityDeleteVMI: c.DeleteVMI, contract.ActivityPatchVM: c.PatchVM,
		contract.ActivityReadVM: c.ReadVM, contract.ActivityReadVMI: c.ReadVMI,
		contract.ActivityFindPod: c.FindPod, contract.ActivityCreatePod: c.CreatePod, contract.ActivityDeletePod: c.DeletePod,
		contract.ActivityRemovePodFinalizer: c.RemovePodFinalizer, contract.ActivityMarkPod: c.MarkPod, contract.ActivityPatchVMI: c.PatchVMI,
		contract.ActivityStartDomain: c.StartDomain, contract.ActivitySyncInstance: c.SyncInstance,
		contract.ActivityOperateDomain: c.OperateDomain,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// do runs one activity or event under the lock, then delivers what changed.
func (c *Cluster) do(name string, f func() error) error {
	if c.Fail != nil {
		if err := c.Fail(name); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.Calls = append(c.Calls, name)
	err := f()
	out := c.pending
	c.pending = nil
	c.mu.Unlock()
	if c.Changed != nil {
		for _, ch := range out {
			c.Changed(ch.signal, ch.payload)
		}
	}
	return err
}

func (c *Cluster) bump() string {
	c.version++
	return strconv.Itoa(c.version)
}

func (c *Cluster) touchVM() {
	c.VM.ResourceVersion = c.bump()
	if c.VM.DeletionTimestamp != nil && len(c.VM.Finalizers) == 0 {
		c.VM.Gone = true
	}
	c.pending = append(c.pending, change{contract.SignalObserveVM, *c.VM})
	if c.VM.Gone {
		c.VM = nil
	}
}

func (c *Cluster) touchVMI() {
	c.VMI.ResourceVersion = c.bump()
	if c.VMI.DeletionTimestamp != nil && len(c.VMI.Finalizers) == 0 {
		c.VMI.Gone = true
	}
	c.pending = append(c.pending, change{contract.SignalObserveVMI, *c.VMI})
	if c.VMI.Gone {
		c.VMI = nil
	}
}

func (c *Cluster) touchPod() {
	c.Pod.ResourceVersion = c.bump()
	ended := c.Pod.Phase == "Succeeded" || c.Pod.Phase == "Failed" || c.Pod.DeletionGraceSeconds != nil && *c.Pod.DeletionGraceSeconds == 0
	if c.Pod.DeletionTimestamp != nil && ended && len(c.Pod.Finalizers) == 0 {
		c.Pod.Gone = true
	}
	c.pending = append(c.pending, change{contract.SignalObservePod, *c.Pod})
	if c.Pod.Gone {
		c.Pod = nil
	}
}

// CreateVM makes the VM as a user would.
func (c *Cluster) CreateVM(uid, strategy string) {
	_ = c.do("user: create VM", func() error {
		c.VM = &contract.VMObservation{UID: uid, Generation: 1, RunStrategy: strategy, Finalizers: []string{contract.FinalizerVM}, Actor: "alice"}
		c.touchVM()
		return nil
	})
}

// SetStrategy changes the run strategy as a user would.
func (c *Cluster) SetStrategy(strategy string) {
	_ = c.do("user: set run strategy", func() error {
		c.VM.RunStrategy = strategy
		c.VM.Generation++
		c.touchVM()
		return nil
	})
}

// DeleteVM deletes the VM as a user would.
func (c *Cluster) DeleteVM() {
	_ = c.do("user: delete VM", func() error {
		now := time.Now()
		c.VM.DeletionTimestamp = &now
		c.touchVM()
		return nil
	})
}

// CreateBareVMI makes a VMI without a VM, as a user would.
func (c *Cluster) CreateBareVMI(uid string) {
	_ = c.do("user: create VMI", func() error {
		c.VMI = &contract.VMIObservation{UID: uid, Finalizers: []string{contract.FinalizerVMI}}
		c.touchVMI()
		return nil
	})
}

// DeleteVMIByUser deletes the VMI as a user would.
func (c *Cluster) DeleteVMIByUser() {
	_ = c.do("user: delete VMI", func() error {
		now := time.Now()
		c.VMI.DeletionTimestamp = &now
		c.touchVMI()
		return nil
	})
}

// SetVMIPhase plays the VMI's entity towards a VM entity.
func (c *Cluster) SetVMIPhase(phase string) {
	_ = c.do("vmi entity: phase "+phase, func() error {
		c.VMI.Phase = phase
		c.VMI.EverRan = c.VMI.EverRan || phase == "Running"
		ready := contract.Condition{Type: "Ready", Status: "False", Reason: "GuestNotRunning"}
		if phase == "Running" {
			ready = contract.Condition{Type: "Ready", Status: "True"}
		}
		c.VMI.Conditions = []contract.Condition{ready}
		c.touchVMI()
		return nil
	})
}

// RemoveVMI plays the VMI's entity that has ended its business.
func (c *Cluster) RemoveVMI() {
	_ = c.do("vmi entity: release", func() error {
		if c.VMI == nil {
			return nil
		}
		c.VMI.Finalizers = nil
		c.touchVMI()
		return nil
	})
}

// RemoveVMIByUser deletes the VMI, which has nothing left that holds it.
func (c *Cluster) RemoveVMIByUser() {
	_ = c.do("user: delete VMI", func() error {
		now := time.Now()
		c.VMI.DeletionTimestamp, c.VMI.Finalizers = &now, nil
		c.touchVMI()
		return nil
	})
}

// Touch tells of the VMI as it is, after a test has changed it.
func (c *Cluster) Touch() {
	_ = c.do("vmi entity: change", func() error { c.touchVMI(); return nil })
}

// RunPod plays scheduler and kubelet.
func (c *Cluster) RunPod() {
	_ = c.do("kubelet: run pod", func() error {
		c.Pod.NodeName, c.Pod.Phase, c.Pod.ComputeRunning = NodeName, "Running", true
		c.Pod.IPs = []string{"10.0.0.9"}
		c.touchPod()
		return nil
	})
}

// EndPod plays the kubelet when the launcher has exited.
func (c *Cluster) EndPod(reason string, ran bool, exit int32) {
	_ = c.do("kubelet: pod ended", func() error {
		if c.Pod == nil {
			return nil
		}
		c.Pod.Phase = "Succeeded"
		if exit != 0 {
			c.Pod.Phase = "Failed"
		}
		c.Pod.ComputeRunning = false
		c.Pod.ExitCode = &exit
		c.Pod.TerminationMessage = fmt.Sprintf(`{"reason":%q,"ran":%t}`, reason, ran)
		c.Domain = nil
		c.touchPod()
		return nil
	})
}

// DomainChanges plays the launcher and the node's worker.
func (c *Cluster) DomainChanges(state contract.DomainState, reason string) {
	_ = c.do("launcher: domain "+string(state), func() error {
		d := *c.Domain
		d.Sequence++
		d.State, d.Reason = state, reason
		c.Domain = &d
		c.pending = append(c.pending, change{contract.SignalObserveDomain, d})
		return nil
	})
}

func gone(what string) error {
	return temporal.NewNonRetryableApplicationError(what+" is gone", contract.ErrorGone, nil)
}
