package validation

import (
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// seccomp checks the profile of launchers. As in KubeVirt it is one of the two, and has a place of its own; the path of
// a file is one that the API server accepts in a pod. Otherwise no launcher would be created.
func seccomp(at *field.Path, c *kubevirtv1.SeccompConfiguration) []metav1.StatusCause {
	if c == nil || c.VirtualMachineInstanceProfile == nil {
		return nil
	}
	at = at.Child("virtualMachineInstanceProfile", "customProfile")
	custom := c.VirtualMachineInstanceProfile.CustomProfile
	if custom == nil {
		return invalid(at, "%s needs to be set", at)
	}
	if custom.LocalhostProfile == nil {
		return nil
	}
	file, standard := at.Child("localhostProfile"), at.Child("runtimeDefaultProfile")
	var causes []metav1.StatusCause
	if custom.RuntimeDefaultProfile {
		causes = append(causes, invalid(file, "%s cannot be set when %s is set", file, standard)...)
		causes = append(causes, invalid(standard, "%s cannot be set when %s is set", standard, file)...)
	}
	switch p := *custom.LocalhostProfile; {
	case p == "":
		causes = append(causes, invalid(file, "names no file: write its path below the kubelet's folder seccomp")...)
	case path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), ".."):
		causes = append(causes, invalid(file, "must be a path below the kubelet's folder seccomp: neither absolute, "+
			"nor with '..'")...)
	}
	return causes
}
