package node

import (
	"strings"

	"github.com/virtflow/virtflow/contract"
)

// CPUVendorPrefix is the prefix of the label with the CPU vendor's name, which virtflow owns.
const CPUVendorPrefix = "cpu-vendor.node.kubevirt.io/"

// obstacle returns why no VM may be placed on the node, as an event has it; "" when VMs may.
func (s *State) obstacle() (kind, why string) {
	switch {
	case s.Node.OutOfService:
		return "Normal", "an administrator has marked the node as out of service"
	case !s.Node.Ready:
		return "Normal", "the node is not ready"
	case !s.Node.WorkerReady:
		return "Warning", "no node worker is ready on the node: VMs continue to run, but none can be started there"
	case s.Node.Unschedulable:
		return "", "the node is cordoned"
	case s.Report == nil && s.Node.Labels[contract.LabelSchedulable] != "true":
		// A node worker reports once: an entity that is younger than the report trusts the label that it finds.
		return "", "its node worker has not reported its host yet"
	default:
		return "", ""
	}
}

// labels returns the labels that the node should have: a nil value means that the label is to be removed. It names only
// labels that virtflow owns.
func (s *State) labels() map[string]*string {
	want := map[string]*string{}
	yes, no := "true", "false"
	want[contract.LabelSchedulable] = &no
	if _, why := s.obstacle(); why == "" {
		want[contract.LabelSchedulable] = &yes
	}
	if s.Report == nil {
		return want
	}
	//workflowcheck:ignore fills a map: the order has no effect
	for k := range s.Node.Labels {
		if strings.HasPrefix(k, CPUVendorPrefix) {
			want[k] = nil
		}
	}
	if isLabelName(s.Report.CPUVendor) {
		want[CPUVendorPrefix+s.Report.CPUVendor] = &yes
	}
	return want
}

// events returns the events for labels that are written: that KVM works or no longer does, and that no VM may be placed
// on the node any longer, unless it was cordoned.
func (s *State) events(labels map[string]*string) []contract.Event {
	return append(s.kvmEvents(), s.placementEvents(labels)...)
}

func (s *State) kvmEvents() []contract.Event {
	switch {
	case s.Report == nil || s.KVMWorked == nil || *s.KVMWorked == s.Report.KVM:
		return nil
	case s.Report.KVM:
		return []contract.Event{{Type: "Normal", Reason: contract.ReasonKVMWorks,
			Message: "KVM works: virtual machines can be placed on this node"}}
	default:
		message := "KVM does not work (" + s.Report.KVMProblem +
			"): no virtual machines are placed on this node unless emulation is allowed"
		return []contract.Event{{Type: "Warning", Reason: contract.ReasonKVMUnavailable, Message: message}}
	}
}

func (s *State) placementEvents(labels map[string]*string) []contract.Event {
	v := labels[contract.LabelSchedulable]
	kind, why := s.obstacle()
	if v == nil || *v != "false" || kind == "" || s.Node.Labels[contract.LabelSchedulable] != "true" {
		return nil
	}
	return []contract.Event{{Type: kind, Reason: contract.ReasonNodeUnresponsive,
		Message: why + ": no virtual machines are placed on this node"}}
}

// labelChanges returns the labels that differ from the node's.
func (s *State) labelChanges() map[string]*string {
	out := map[string]*string{}
	//workflowcheck:ignore builds another map: the order has no effect
	for k, v := range s.labels() {
		if have, ok := s.Node.Labels[k]; v != nil && (!ok || have != *v) || v == nil && ok {
			out[k] = v
		}
	}
	return out
}
