package domains

import (
	"regexp"
	"slices"
)

// Known is a known difference, with its reason.
type Known struct {
	// Subject is the subject of the difference. Facts match the lines in which KubeVirt's and virtflow's facts differ:
	// "-" for KubeVirt's, "+" for virtflow's.
	Subject, Facts string
	Reason         string
	// In is the only variant in which it is known; "": all.
	In Variant
	// Cases are the IDs of the only cases in which it is known; none: all.
	Cases []string
}

// knownDomains returns the differences of machines, one entry a reason.
func knownDomains() []Known {
	return []Known{
		{Subject: "cpu", In: Emulated, Facts: `-mode=host-passthrough|\+mode=host-model`,
			Reason: "an emulated CPU is not the host's"},
		{Subject: "disks", Facts: `\+vol/readonly`,
			Reason: "the disk on a read-only PVC is read-only for its guest; KubeVirt's accepts writes, which fail"},
		{Subject: "features", Facts: `\+apic@eoi=on`,
			Reason: "KubeVirt's domain lacks apic.endOfInterrupt, which the spec has"},
		{Subject: "features", In: Emulated, Facts: `-(hyperv(/.*)?|kvm/.*|pvspinlock@.*)`,
			Reason: "KVM's own features: QEMU's emulation has none of them, and refuses some"},
	}
}

// knownPods returns the differences of launcher pods.
func knownPods() []Known {
	return []Known{
		{Subject: "node selector", Facts: `-kubevirt\.io/schedulable=true`,
			Reason: "a restarted kubelet fails every pod whose node selector its node no longer matches; " +
				"virtflow prefers such nodes instead"},
		{Subject: "affinity", Facts: `\+nodeAffinity\.preferred.*`,
			Reason: "the preference for nodes that take VMs, in place of a node selector"},
		{Subject: "devices", Facts: `\+limit devices\.kubevirt\.io/tun=1`,
			Reason: "every launcher asks for it: nodes without a node worker do not have it"},
		{Subject: "affinity", Cases: []string{"881b1d82420e7cfd"},
			Facts: `-nodeAffinity\.required.*\.(key=node-labeller\.kubevirt\.io/obsolete-host-model|` +
				`operator=DoesNotExist)`,
			Reason: "a term without conditions matches no node, and stays unchanged"},
		{Subject: "annotations", Facts: `[-+](pre|post)\.hook\.backup\.velero\.io/command=.*`,
			Reason: "virtflow's launcher freezes a guest for Velero"},
		{Subject: "annotations", Facts: `-(istio\.io/reroute-virtual-interfaces|` +
			`traffic\.sidecar\.istio\.io/kubevirtInterfaces)=k6t-eth0`,
			Reason: "not done yet: Istio's sidecars"},
		{Subject: "annotations", Facts: `-kubevirt\.io/memory-overhead-bytes=\d+`,
			Reason: "KubeVirt stores the launcher's resources for itself"},
		{Subject: "annotations", Facts: `-kubevirt\.io/migrationTransportUnix=true`,
			Reason: "KubeVirt's launchers exchange a guest's migration settings"},
		{Subject: "memory", Cases: []string{"6adf612e5d9a1f49", "f7aeb2d4b8c7e085"}, Facts: `[-+]request memory=.*`,
			Reason: "virtiofsd runs in the launcher's container, and not in one of its own"},
		{Subject: "annotations", Facts: `\+virtflow\.io/vmi=.*`,
			Reason: "the instance as the launcher gets it"},
		{Subject: "service account", Facts: `-\[1\]=true|\+\[1\]=false`,
			Reason: "the token of a serviceAccount volume is in a volume of its own, and no container has another"},
	}
}

// matcher has the compiled patterns, and counts the differences that each explains.
type matcher struct {
	known   []Known
	pattern []*regexp.Regexp
	count   []int
}

// newMatcher compiles the patterns of known differences.
func newMatcher(known []Known) *matcher {
	e := &matcher{known: known, count: make([]int, len(known))}
	for _, k := range known {
		e.pattern = append(e.pattern, regexp.MustCompile("^(?:"+k.Facts+")$"))
	}
	return e
}

// isKnown reports whether a difference is known.
func (e *matcher) isKnown(r *Record, v Variant, subject, difference string) bool {
	for i, k := range e.known {
		if k.Subject == subject && (k.In == "" || k.In == v) &&
			(len(k.Cases) == 0 || slices.Contains(k.Cases, r.ID)) && e.pattern[i].MatchString(difference) {
			e.count[i]++
			return true
		}
	}
	return false
}
