package fakes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

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
func (c *Cluster) DeleteVMI(_ context.Context, in contract.DeleteVMIInput) (r contract.DeleteVMIResult, err error) {
	err = c.do(contract.ActivityDeleteVMI, func() error {
		if c.VMI == nil || in.VMI.UID != "" && c.VMI.UID != in.VMI.UID {
			r.Absent = true
			return nil
		}
		if c.VMI.OwnerUID == "" && (c.VM == nil || c.VM.UID != in.VM.UID || c.VM.DeletionTimestamp != nil) {
			r.Absent, r.Orphaned = true, true
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
			if in.Actor != "" {
				c.VM.Actor = in.Actor
			}
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

// ReadVM is the activity.
func (c *Cluster) ReadVM(_ context.Context, in contract.ReadVMInput) (r contract.ReadVMResult, err error) {
	err = c.do(contract.ActivityReadVM, func() error {
		if c.VM != nil && c.VM.UID == in.VM.UID {
			vm := *c.VM
			r.VM = &vm
		}
		if c.VMI != nil && c.VMI.OwnerUID == in.VM.UID {
			vmi := *c.VMI
			r.VMI = &vmi
		}
		return nil
	})
	return r, err
}

// ReadVMI is the activity.
func (c *Cluster) ReadVMI(_ context.Context, in contract.ReadVMIInput) (r contract.ReadVMIResult, err error) {
	err = c.do(contract.ActivityReadVMI, func() error {
		if c.VMI != nil && c.VMI.UID == in.VMI.UID {
			vmi := *c.VMI
			r.VMI = &vmi
		}
		if c.Pod != nil && c.Pod.VMIUID == in.VMI.UID {
			pod := *c.Pod
			r.Pod = &pod
		}
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
func (c *Cluster) DeletePod(_ context.Context, in contract.DeletePodInput) (r contract.DeletePodResult, err error) {
	err = c.do(contract.ActivityDeletePod, func() error {
		if c.Pod == nil || c.Pod.UID != in.Pod.UID {
			r.Absent = true
			return nil
		}
		if in.Fence.Node != "" && c.Well != nil {
			r.Refused, r.Node = "node "+in.Fence.Node+" is ready now: its guests may run", c.Well
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

// RemovePodFinalizer is the activity.
func (c *Cluster) RemovePodFinalizer(_ context.Context, in contract.RemovePodFinalizerInput) (r contract.RemovePodFinalizerResult, err error) {
	err = c.do(contract.ActivityRemovePodFinalizer, func() error {
		if c.Pod == nil || c.Pod.UID != in.Pod.UID {
			r.Absent = true
			return nil
		}
		c.Pod.Finalizers = slices.DeleteFunc(slices.Clone(c.Pod.Finalizers), func(f string) bool { return f == contract.FinalizerPod })
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
