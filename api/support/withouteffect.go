package support

import kubevirtv1 "kubevirt.io/api/core/v1"

// WithoutEffect returns the paths of the fields of a KubeVirt object that are set and have no effect: those that
// admission accepts with a warning, and those that it refuses, of an object that was written before it was asked.
// Invalid values, and known feature gates, are not among them.
func WithoutEffect(kv *kubevirtv1.KubeVirt) []string {
	unlisted, err := Check(kv.Spec, Configuration(), "spec")
	if err != nil {
		return nil // what was read as JSON can be written as JSON
	}
	var out []string
	for _, c := range append(unlisted, HostDevices(kv.Spec.Configuration.PermittedHostDevices)...) {
		out = append(out, c.Field)
	}
	return out
}
