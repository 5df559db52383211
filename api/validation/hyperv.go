package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// hyperv: Hyper-V enlightenments depend on other ones. The doubled path is KubeVirt's.
func hyperv(s subject) []metav1.StatusCause {
	p := s.domain("features", "hyperv")
	f := s.spec.Domain.Features
	if f == nil || f.Hyperv == nil {
		return nil
	}
	var causes []metav1.StatusCause
	doubled := field.NewPath(p.String()).Child("domain", "features", "hyperv")
	for _, d := range defaults.HypervDependencies(f.Hyperv) {
		if d.Wanted() && !d.Met() {
			at := doubled.Child(d.Name)
			causes = append(causes, invalid(at, "'%s' requires '%s', which was disabled.", at,
				doubled.Child(d.Requires))...)
		}
	}
	causes = append(causes, s.evmcs()...)
	if f.HypervPassthrough != nil {
		causes = append(causes, invalid(p,
			"Cannot explicitly set hyperV features if HypervPassthrough is being used. Please use either HyperV or "+
				"HypervPassthrough.")...)
	}
	return causes
}

// evmcs needs a CPU that can run guests itself.
func (s subject) evmcs() []metav1.StatusCause {
	e := s.spec.Domain.Features.Hyperv.EVMCS
	if e == nil || isFalse(e.Enabled) {
		return nil
	}
	p := field.NewPath("spec", "domain", "cpu", "features")
	cpu := s.spec.Domain.CPU
	if cpu == nil || len(cpu.Features) == 0 {
		return required(p, "%s cpu feature is required when evmcs is set", defaults.VMXFeature)
	}
	var causes []metav1.StatusCause
	for i, c := range cpu.Features {
		if c.Name == defaults.VMXFeature && c.Policy != defaults.RequirePolicy {
			causes = append(causes, invalid(p.Index(i).Child("policy"), "%s cpu feature has to be set to %s policy",
				defaults.VMXFeature, defaults.RequirePolicy)...)
		}
	}
	return causes
}
