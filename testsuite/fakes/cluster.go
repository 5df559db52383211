package fakes

import (
	"context"
	"fmt"
	"slices"
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
		contract.ActivityFindPod: c.FindPod, contract.ActivityCreatePod: c.CreatePod, contract.ActivityDeletePod: c.DeletePod,
		contract.ActivityReleasePod: c.ReleasePod, contract.ActivityMarkPod: c.MarkPod, contract.ActivityPatchVMI: c.PatchVMI,
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

// CreateVMI is the activity.
func (c *Cluster) CreateVMI(_ context.Context, in contract.CreateVMIInput) (r contract.CreateVMIResult, err error) {
	err = c.do(contract.ActivityCreateVMI, func() error {
		if c.VM == nil || c.VM.UID != in.VM.UID {
			return gone("the VirtualMachine")
		}
		if c.VMI == nil {
			c.made++
			c.Paused = in.Paused
			c.VMI = &contract.VMIObservation{
				UID: fmt.Sprintf("vmi-%d", c.made), OwnerUID: in.VM.UID, Phase: "Pending", VMGeneration: c.VM.Generation,
				Revision:   fmt.Sprintf("revision-%d", c.VM.Generation),
				Finalizers: []string{contract.FinalizerVM, contract.FinalizerVMI},
			}
			c.touchVMI()
		} else {
			r.Existing = true
		}
		r.VMI = *c.VMI
		return nil
	})
	return r, err
}

// SyncInstance is the activity. An answer without a need for a restart brings the VMI to the VM's generation.
func (c *Cluster) SyncInstance(_ context.Context, in contract.SyncInstanceInput) (r contract.SyncInstanceResult, err error) {
	err = c.do(contract.ActivitySyncInstance, func() error {
		if c.VM == nil || c.VM.UID != in.VM.UID || c.VMI == nil || c.VMI.UID != in.VMI.UID {
			return gone("the VirtualMachineInstance")
		}
		if c.Sync != nil {
			r = c.Sync(*c.VM)
		}
		r.Generation = c.VM.Generation
		if r.RestartRequired == "" {
			c.VMI.VMGeneration = c.VM.Generation
			c.touchVMI()
			now := *c.VMI
			r.VMI = &now
		}
		return nil
	})
	return r, err
}

// DeleteVMI is the activity.
func (c *Cluster) DeleteVMI(_ context.Context, in contract.DeleteVMIInput) (r contract.DeleteResult, err error) {
	err = c.do(contract.ActivityDeleteVMI, func() error {
		if c.VMI == nil || in.VMI.UID != "" && c.VMI.UID != in.VMI.UID {
			r.Absent = true
			return nil
		}
		if c.VMI.DeletionTimestamp == nil {
			now := time.Now()
			c.VMI.DeletionTimestamp = &now
			c.touchVMI()
		}
		return nil
	})
	return r, err
}

// PatchVM is the activity.
func (c *Cluster) PatchVM(_ context.Context, in contract.PatchVMInput) (r contract.PatchVMResult, err error) {
	err = c.do(contract.ActivityPatchVM, func() error {
		if c.VM == nil || c.VM.UID != in.VM.UID {
			r.Gone = true
			return nil
		}
		if c.VM.ResourceVersion != in.ResourceVersion || c.Conflicts {
			r.Conflict = true
			now := *c.VM
			r.Current = &now
			return nil
		}
		if in.Status != nil {
			st := *in.Status
			c.VMStatus = &st
			c.VM.StateChangeRequests = st.StateChangeRequests
		}
		if in.Finalizers != nil {
			c.VM.Finalizers = slices.Clone(*in.Finalizers)
		}
		if in.RunStrategy != "" {
			c.VM.RunStrategy = in.RunStrategy
			c.VM.Generation++
		}
		now := c.VM
		c.touchVM()
		r.Written = true
		cp := *now
		r.Current = &cp
		return nil
	})
	return r, err
}

// FindPod is the activity.
func (c *Cluster) FindPod(_ context.Context, in contract.FindPodInput) (r contract.FindPodResult, err error) {
	err = c.do(contract.ActivityFindPod, func() error {
		if c.Pod != nil && c.Pod.VMIUID == in.VMI.UID {
			p := *c.Pod
			r.Pod = &p
		}
		return nil
	})
	return r, err
}

// CreatePod is the activity.
func (c *Cluster) CreatePod(_ context.Context, in contract.CreatePodInput) (r contract.CreatePodResult, err error) {
	err = c.do(contract.ActivityCreatePod, func() error {
		if c.VMI == nil || c.VMI.UID != in.VMI.UID {
			return gone("the VirtualMachineInstance")
		}
		if c.Pod == nil {
			c.Pod = &contract.PodObservation{
				UID: "pod-of-" + in.VMI.UID, Name: "virt-launcher-" + Name, VMIUID: in.VMI.UID, Phase: "Pending", Finalizers: []string{contract.FinalizerPod},
			}
			c.touchPod()
		} else {
			r.Existing = true
		}
		r.Pod = *c.Pod
		return nil
	})
	return r, err
}

// DeletePod is the activity.
func (c *Cluster) DeletePod(_ context.Context, in contract.DeletePodInput) (r contract.DeleteResult, err error) {
	err = c.do(contract.ActivityDeletePod, func() error {
		if c.Pod == nil || c.Pod.UID != in.Pod.UID {
			r.Absent = true
			return nil
		}
		c.Events = append(c.Events, in.Events...)
		grace := int64(60)
		if in.Grace != nil {
			grace = *in.Grace
		}
		if c.Pod.DeletionTimestamp == nil || c.Pod.DeletionGraceSeconds != nil && grace < *c.Pod.DeletionGraceSeconds {
			end := time.Now().Add(time.Duration(grace) * time.Second)
			c.Pod.DeletionTimestamp, c.Pod.DeletionGraceSeconds = &end, &grace
			c.touchPod()
		}
		return nil
	})
	return r, err
}

// ReleasePod is the activity.
func (c *Cluster) ReleasePod(_ context.Context, in contract.ReleasePodInput) (r contract.DeleteResult, err error) {
	err = c.do(contract.ActivityReleasePod, func() error {
		if c.Pod == nil || c.Pod.UID != in.Pod.UID {
			r.Absent = true
			return nil
		}
		c.Pod.Finalizers = slices.Clone(in.Finalizers)
		c.touchPod()
		return nil
	})
	return r, err
}

// MarkPod is the activity. The kubelet then calls the pod ready.
func (c *Cluster) MarkPod(_ context.Context, in contract.MarkPodInput) (r contract.DeleteResult, err error) {
	err = c.do(contract.ActivityMarkPod, func() error {
		if c.Pod == nil || c.Pod.UID != in.Pod.UID {
			return gone("the pod")
		}
		c.Pod.Unpaused = "True"
		if in.Paused {
			c.Pod.Unpaused = "False"
		}
		c.Pod.Ready = &contract.Condition{Type: "Ready", Status: c.Pod.Unpaused}
		c.touchPod()
		return nil
	})
	return r, err
}

// PatchVMI is the activity.
func (c *Cluster) PatchVMI(_ context.Context, in contract.PatchVMIInput) (r contract.PatchVMIResult, err error) {
	err = c.do(contract.ActivityPatchVMI, func() error {
		if c.VMI == nil || c.VMI.UID != in.VMI.UID {
			r.Gone = true
			return nil
		}
		if c.VMI.ResourceVersion != in.ResourceVersion || c.Conflicts {
			r.Conflict = true
			now := *c.VMI
			r.Current = &now
			return nil
		}
		if in.Status != nil {
			st := *in.Status
			c.VMIStatus = &st
			c.VMI.Phase, c.VMI.Conditions, c.VMI.NodeName = st.Phase, st.Conditions, st.NodeName
			c.VMI.EverRan = c.VMI.EverRan || st.Phase == "Running"
		}
		if in.Finalizers != nil {
			c.VMI.Finalizers = slices.Clone(*in.Finalizers)
		}
		c.Events = append(c.Events, in.Events...)
		now := c.VMI
		c.touchVMI()
		r.Written = true
		cp := *now
		r.Current = &cp
		return nil
	})
	return r, err
}

// StartDomain is the activity on the node's queue.
func (c *Cluster) StartDomain(_ context.Context, in contract.StartDomainInput) (r contract.StartDomainResult, err error) {
	err = c.do(contract.ActivityStartDomain, func() error {
		if c.Pod == nil || c.Pod.UID != in.Pod.UID || !c.Pod.ComputeRunning {
			return temporal.NewApplicationError("no launcher answers", contract.ErrorNoLauncher)
		}
		if c.Domain == nil {
			c.DomainsStarted++
			c.Domain = &contract.DomainObservation{
				PodUID: c.Pod.UID, Sequence: 1, State: contract.DomainRunning, MachineType: "pc-q35-7.2",
				Interfaces: []contract.DomainInterface{{Name: "default", MAC: "02:00:00:00:00:07"}},
			}
		}
		r.Domain = *c.Domain
		return nil
	})
	return r, err
}
