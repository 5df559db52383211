package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
)

// merge is a JSON merge patch: a nil value removes a field.
type merge map[string]any

// locked returns a patch of an object's metadata that applies only to that UID and resourceVersion.
func locked(uid, resourceVersion string) merge {
	m := merge{"uid": uid}
	if resourceVersion != "" {
		m["resourceVersion"] = resourceVersion
	}
	return m
}

// setFinalizers sets the whole list; an empty one is removed, as the API server does itself.
func (m merge) setFinalizers(list *[]string) {
	switch {
	case list == nil:
	case len(*list) == 0:
		m["finalizers"] = nil
	default:
		m["finalizers"] = *list
	}
}

// set writes a value, or removes the field for the zero value.
func set[T comparable](m merge, field string, value T) {
	var zero T
	if value == zero {
		m[field] = nil
		return
	}
	m[field] = value
}

func (m merge) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return b, nil
}

func conditions(list []contract.Condition) any {
	if len(list) == 0 {
		return nil
	}
	out := make([]map[string]any, 0, len(list))
	for _, c := range list {
		out = append(out, map[string]any{
			"type": c.Type, "status": c.Status, "reason": nilIfEmpty(c.Reason), "message": nilIfEmpty(c.Message),
			"lastTransitionTime": timestamp(c.LastTransitionTime), "lastProbeTime": nil,
		})
	}
	for _, c := range out { // elements of a list are written as they are: null must not stand for "remove" there
		for k, v := range c {
			if v == nil && k != "lastProbeTime" && k != "lastTransitionTime" {
				delete(c, k)
			}
		}
	}
	return out
}

func nilIfEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func timestamp(t *time.Time) any {
	if t == nil || t.IsZero() {
		return nil
	}
	return metav1.NewTime(t.UTC())
}

// vmStatus returns the owned part of a VM's status, whole: each field is there, with null where it is to be removed.
func vmStatus(s *contract.VMStatus) merge {
	m := merge{"conditions": conditions(s.Conditions)}
	set(m, "created", s.Created)
	set(m, "ready", s.Ready)
	set(m, "printableStatus", s.PrintableStatus)
	set(m, "runStrategy", s.RunStrategy)
	set(m, "desiredGeneration", s.DesiredGeneration)
	set(m, "observedGeneration", s.ObservedGeneration)
	m["startFailure"] = nil
	if f := s.StartFailure; f != nil {
		failure := merge{"retryAfterTimestamp": timestamp(f.RetryAfter)}
		set(failure, "consecutiveFailCount", f.ConsecutiveFailCount)
		set(failure, "lastFailedVMIUID", f.LastFailedVMIUID)
		m["startFailure"] = failure
	}
	m["stateChangeRequests"] = nil
	if len(s.StateChangeRequests) > 0 {
		m["stateChangeRequests"] = s.StateChangeRequests
	}
	return m
}

// vmiStatus returns the owned part of a VMI's status. A JSON merge patch merges objects, so each pod that left is
// removed from activePods by its UID.
func vmiStatus(s *contract.VMIStatus, left []string) merge {
	m := merge{"conditions": conditions(s.Conditions)}
	set(m, "phase", s.Phase)
	set(m, "reason", s.Reason)
	set(m, "nodeName", s.NodeName)
	set(m, "qosClass", s.QOSClass)
	set(m, "launcherContainerImageVersion", s.LauncherImage)
	m["phaseTransitionTimestamps"] = phaseTimes(s.PhaseTimes)
	m["activePods"] = nil
	if len(s.ActivePods) > 0 {
		pods := merge{}
		for _, uid := range left {
			pods[uid] = nil
		}
		for uid, node := range s.ActivePods {
			pods[uid] = node
		}
		m["activePods"] = pods
	}
	m["migrationState"] = migrationState(s.Migration)
	if s.MigrationMethod != "" {
		m["migrationMethod"], m["migrationTransport"] = s.MigrationMethod, kubevirt.MigrationTransportUnix
	}
	if s.DomainUnknown {
		return m
	}
	m["machine"] = nil
	if s.MachineType != "" {
		m["machine"] = merge{"type": s.MachineType}
	}
	if s.GuestMemory > 0 { // what the instance was made with stays while nothing is known
		m["memory"] = merge{"guestCurrent": quantity(s.GuestMemory)}
	}
	m["interfaces"] = interfaces(s)
	frozen := ""
	if s.Frozen {
		frozen = "frozen"
	}
	set(m, "fsFreezeStatus", frozen)
	if s.Guest != nil {
		m["guestOSInfo"] = guestOSInfo(s.Guest.OS)
	}
	m["volumeStatus"] = volumes(s.Volumes, s.Claims)
	return m
}

func phaseTimes(list []contract.PhaseTime) any {
	if len(list) == 0 {
		return nil
	}
	out := make([]map[string]any, 0, len(list))
	for _, p := range list {
		out = append(out, map[string]any{"phase": p.Phase, "phaseTransitionTimestamp": metav1.NewTime(p.Time.UTC())})
	}
	return out
}

// volumes returns the disks of the domain, and the PVCs, by the names of the volumes.
func volumes(disks []contract.DomainVolume, list []contract.VolumeClaim) any {
	byName := map[string]merge{}
	entry := func(name string) merge {
		if byName[name] == nil {
			byName[name] = merge{"name": name, "target": ""}
		}
		return byName[name]
	}
	for _, v := range disks {
		e := entry(v.Name)
		e["target"] = v.Target
		if v.Size > 0 {
			e["size"] = v.Size
		}
	}
	for _, c := range list {
		entry(c.Volume)["persistentVolumeClaimInfo"] = claims.Info(c)
	}
	if len(byName) == 0 {
		return nil
	}
	out := make([]merge, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}
