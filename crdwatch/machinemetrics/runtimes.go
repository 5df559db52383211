package machinemetrics

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// isVulnerableRuntime reports whether a node's container runtime (its status.nodeInfo.containerRuntimeVersion) is a
// containerd in which a tenant's pod can replace an image's tag on the node: CVE-2026-50195, and CVE-2026-53492, which
// are fixed in 2.1.9, 2.2.5 and 2.3.2. It knows containerd's own version numbers, but neither fixes that a distribution
// has backported to an older version, nor other runtimes.
func isVulnerableRuntime(runtime string) bool {
	number, is := strings.CutPrefix(runtime, "containerd://")
	if !is {
		return false
	}
	v, err := version.ParseGeneric(number)
	if err != nil {
		return false
	}
	for _, fixed := range []string{"2.1.9", "2.2.5", "2.3.2"} {
		m := version.MustParseGeneric(fixed)
		if v.Major() == m.Major() && v.Minor() == m.Minor() {
			return v.LessThan(m)
		}
	}
	return v.LessThan(version.MustParseGeneric("2.1"))
}
