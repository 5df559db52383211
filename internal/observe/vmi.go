package observe

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// VMI observes a VirtualMachineInstance.
func VMI(vmi *kubevirt.VirtualMachineInstance) contract.VMIObservation {
	o := contract.VMIObservation{
		UID:                string(vmi.UID),
		ResourceVersion:    vmi.ResourceVersion,
		DeletionTimestamp:  moment(vmi.DeletionTimestamp),
		Finalizers:         cloneOrNil(vmi.Finalizers),
		Phase:              word(string(vmi.Status.Phase)),
		NodeName:           word(vmi.Status.NodeName),
		Evicted:            vmi.Status.Reason == contract.ReasonEvicted,
		GracePeriodSeconds: vmi.Spec.TerminationGracePeriodSeconds,
		Revision:           word(vmi.Status.VirtualMachineRevisionName),
		Actor:              word(vmi.Annotations[contract.AnnotationRequestedBy]),
		EvacuationNode:     word(vmi.Status.EvacuationNodeName),
		Migration:          MigrationState(vmi.Status.MigrationState),
	}
	if s := vmi.Spec.EvictionStrategy; s != nil {
		o.EvictionStrategy = word(string(*s))
	}
	if ref := OwnerVM(vmi); ref != nil {
		o.OwnerUID = string(ref.UID)
	}
	if n, err := strconv.ParseInt(vmi.Annotations[contract.AnnotationVMGeneration], 10, 64); err == nil {
		o.VMGeneration = n
	}
	for i, c := range vmi.Status.Conditions {
		if i == maxConditions {
			break
		}
		o.Conditions = append(o.Conditions,
			condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime))
	}
	for uid := range vmi.Status.ActivePods {
		o.ActivePods = append(o.ActivePods, word(string(uid)))
	}
	slices.Sort(o.ActivePods)
	o.ActivePods = o.ActivePods[:min(maxPods, len(o.ActivePods))]
	for i, t := range vmi.Status.PhaseTransitionTimestamps {
		if t.Phase == kubevirt.Running {
			o.EverRan = true
		}
		if i < maxPhaseTimes {
			o.PhaseTimes = append(o.PhaseTimes,
				contract.PhaseTime{Phase: word(string(t.Phase)), Time: t.PhaseTransitionTimestamp.UTC()})
		}
	}
	return o
}

// Evacuates returns the node that a VMI is on and must leave ("": none), unless it has ended, or another migration
// already moves it.
func Evacuates(vmi *kubevirt.VirtualMachineInstance) string {
	s := vmi.Spec.EvictionStrategy
	if vmi.Status.EvacuationNodeName != vmi.Status.NodeName || vmi.IsFinal() ||
		s != nil && *s == kubevirt.EvictionStrategyExternal {
		return ""
	}
	return vmi.Status.NodeName
}

// Outdated reports whether an instance that has not ended has a launcher of another image than new ones get.
func Outdated(vmi *kubevirt.VirtualMachineInstance, image string) bool {
	has := vmi.Status.LauncherContainerImageVersion
	return has != "" && has != image && !vmi.IsFinal()
}

// GoneVMI observes that a VirtualMachineInstance of that UID no longer exists.
func GoneVMI(uid string) contract.VMIObservation {
	return contract.VMIObservation{UID: uid, Gone: true}
}

// VMIForVM returns the part of an observation that the VM which owns the VMI needs: less than the VMI's own entity, so
// that the VM gets fewer signals.
func VMIForVM(o contract.VMIObservation) contract.VMIObservation {
	out := contract.VMIObservation{
		UID: o.UID, ResourceVersion: o.ResourceVersion, Gone: o.Gone, DeletionTimestamp: o.DeletionTimestamp,
		OwnerUID: o.OwnerUID, Phase: o.Phase,
		Evicted: o.Evicted, EverRan: o.EverRan, VMGeneration: o.VMGeneration, Revision: o.Revision,
		GracePeriodSeconds: o.GracePeriodSeconds,
	}
	out.Conditions = slices.DeleteFunc(slices.Clone(o.Conditions), func(c contract.Condition) bool {
		return c.Type == contract.ConditionMigrationProgress // it changes often, and only the VMI shows it
	})
	if m := o.Migration; m.UnderWay() {
		out.Migration = &contract.MigrationState{MigrationUID: m.MigrationUID, Start: m.Start}
	}
	if o.Phase == string(kubevirt.Running) {
		out.NodeName = o.NodeName
	}
	out.ClaimsVersion = o.ClaimsVersion
	for _, c := range o.Claims {
		waits := contract.VolumeClaim{Volume: c.Volume, Claim: c.Claim, UID: c.UID, Phase: c.Phase}
		if v := c.DataVolume; v != nil && !v.Usable() {
			waits.DataVolume = v
		}
		if c.Unbound() || waits.DataVolume != nil {
			out.Claims = append(out.Claims, waits)
		}
	}
	return out
}

// NewCopy returns what a VM's entity assumes of an instance that has just been made for it: it is not ready.
func NewCopy(o contract.VMIObservation) contract.VMIObservation {
	return contract.VMIObservation{
		UID: o.UID, OwnerUID: o.OwnerUID, VMGeneration: o.VMGeneration, Revision: o.Revision,
		GracePeriodSeconds: o.GracePeriodSeconds,
		Conditions: slices.DeleteFunc(slices.Clone(o.Conditions), func(c contract.Condition) bool {
			return c.Type != "Ready" || c.Status != "False"
		}),
	}
}

// MadeFor reports whether an instance was made from a revision of the VM of that UID.
func MadeFor(vmi *kubevirt.VirtualMachineInstance, vm string) bool {
	return strings.HasPrefix(vmi.Status.VirtualMachineRevisionName, contract.RevisionPrefix+vm+"-")
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
