package domains

import (
	"regexp"
	"slices"
)

// Known is a difference that there is, with its reason.
type Known struct {
	// Subject is what it is about. Facts match the lines in which KubeVirt's and virtflow's facts differ: "-" and what
	// only KubeVirt's has, "+" and what only virtflow's has.
	Subject, Facts string
	Reason         string
	// In is the one variant in which it is known; "": in all.
	In Variant
	// Cases are the IDs of the only cases in which it is known; none: in all.
	Cases []string
}

// knownDomains are the differences of machines, one entry a reason.
func knownDomains() []Known {
	return []Known{
		{Subject: "cpu", In: Emulated, Facts: `-mode=host-passthrough|\+mode=host-model`,
			Reason: "an emulated CPU is no host's"},
		{Subject: "disks", Facts: `\+vol/readonly`,
			Reason: "the disk on a claim that is read-only says so to its guest; KubeVirt's takes writes, which fail"},
		{Subject: "features", Facts: `\+apic@eoi=on`,
			Reason: "KubeVirt's domain leaves out apic.endOfInterrupt, which was asked for"},
		{Subject: "features", In: Emulated, Facts: `-(hyperv(/.*)?|kvm/.*|pvspinlock@.*)`,
			Reason: "KVM's own features: QEMU's emulation has none of them, and refuses some"},
	}
}

// knownPods are those of launcher pods.
func knownPods() []Known {
	return []Known{
		{Subject: "node selector", Facts: `-kubevirt\.io/schedulable=true`,
			Reason: "a kubelet that starts again fails every pod whose node selector its node no longer meets; " +
				"virtflow prefers such nodes instead"},
		{Subject: "affinity", Facts: `\+nodeAffinity\.preferred.*`,
			Reason: "the preference for nodes that take VMs, in place of a node selector"},
		{Subject: "devices", Facts: `\+limit devices\.kubevirt\.io/tun=1`,
			Reason: "every launcher asks for it: nodes without a node worker do not have it"},
		{Subject: "affinity", Cases: []string{"881b1d82420e7cfd"},
			Facts: `-nodeAffinity\.required.*\.(key=node-labeller\.kubevirt\.io/obsolete-host-model|` +
				`operator=DoesNotExist)`,
			Reason: "a term without conditions matches no node, and is left so"},
		{Subject: "annotations", Facts: `[-+](pre|post)\.hook\.backup\.velero\.io/command=.*`,
			Reason: "a guest is frozen for Velero by virtflow's launcher"},
		{Subject: "annotations", Facts: `-(istio\.io/reroute-virtual-interfaces|` +
			`traffic\.sidecar\.istio\.io/kubevirtInterfaces)=k6t-eth0`,
			Reason: "not done yet: Istio's sidecars"},
		{Subject: "annotations", Facts: `-kubevirt\.io/memory-overhead-bytes=\d+`,
			Reason: "KubeVirt notes for itself what the launcher takes"},
		{Subject: "annotations", Facts: `-kubevirt\.io/migrationTransportUnix=true`,
			Reason: "KubeVirt's launchers tell each other how a guest moves"},
		{Subject: "memory", Cases: []string{"6adf612e5d9a1f49", "f7aeb2d4b8c7e085"}, Facts: `[-+]request memory=.*`,
			Reason: "virtiofsd runs in the launcher's container, and not in one of its own"},
		{Subject: "annotations", Facts: `\+virtflow\.io/vmi=.*`,
			Reason: "the instance as the launcher gets it"},
		{Subject: "service account", Facts: `-\[1\]=true|\+\[1\]=false`,
			Reason: "the token of a serviceAccount volume is in a volume of its own, and no container has another"},
	}
}

// explained compiles the lines, and counts what each explains.
type explained struct {
	known   []Known
	pattern []*regexp.Regexp
	count   []int
}

func explain(known []Known) *explained {
	e := &explained{known: known, count: make([]int, len(known))}
	for _, k := range known {
		e.pattern = append(e.pattern, regexp.MustCompile("^(?:"+k.Facts+")$"))
	}
	return e
}

// does says whether a difference is known.
func (e *explained) does(r *Record, v Variant, subject, difference string) bool {
	for i, k := range e.known {
		if k.Subject == subject && (k.In == "" || k.In == v) &&
			(len(k.Cases) == 0 || slices.Contains(k.Cases, r.ID)) && e.pattern[i].MatchString(difference) {
			e.count[i]++
			return true
		}
	}
	return false
}
