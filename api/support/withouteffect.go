package support

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/internal/defaults"
)

// WithoutEffect returns the paths of the fields of a KubeVirt object that are set and have no effect, or not all of it:
// those that admission accepts with a warning, and those that it refuses, of an object that was written before it was
// asked. Most invalid values count as not set, and too long a list is cut. With an invalid network for migrations, or
// path of a seccomp profile, nothing migrates or starts.
func WithoutEffect(kv *kubevirtv1.KubeVirt) ([]string, error) {
	unlisted, err := Check(kv.Spec, Configuration(), "spec")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, cause := range append(unlisted, InvalidConfiguration(&kv.Spec.Configuration)...) {
		if !slices.Contains(out, cause.Field) {
			out = append(out, cause.Field)
		}
	}
	return append(out, gatesWithoutEffect(kv.Spec.Configuration.DeveloperConfiguration)...), nil
}

// InvalidConfiguration returns a cause for each invalid value of a configuration.
func InvalidConfiguration(c *kubevirtv1.KubeVirtConfiguration) []metav1.StatusCause {
	return slices.Concat(HostDevices(c.PermittedHostDevices), BindingPlugins(c),
		validation.MigrationConfiguration(c.MigrationConfiguration), validation.MachineConfiguration(c))
}

// gatesWithoutEffect returns the paths of the known feature gates of which admission warns. The unknown ones are
// unlisted values.
func gatesWithoutEffect(d *kubevirtv1.DeveloperConfiguration) []string {
	if d == nil {
		return nil
	}
	var out []string
	add := func(list string, gates []string, warning func(string) string) {
		for i, gate := range gates {
			if isKnownGate(gate) && warning(gate) != "" {
				out = append(out, fmt.Sprintf("spec.configuration.developerConfiguration.%s[%d]", list, i))
			}
		}
	}
	add("featureGates", d.FeatureGates, defaults.GateWarning)
	add("disabledFeatureGates", d.DisabledFeatureGates, defaults.DisabledGateWarning)
	return out
}

func isKnownGate(gate string) bool { return slices.Contains(defaults.KnownGates(), gate) }
