package validation

import (
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// Architectures by their Go names.
const (
	amd64 = "amd64"
	arm64 = "arm64"
	s390x = "s390x"
)

func (s subject) architecture() string {
	if s.spec.Architecture == "" {
		return s.cluster.Architecture
	}
	return s.spec.Architecture
}

func hostname(s subject) []metav1.StatusCause {
	if s.spec.Hostname == "" {
		return nil
	}
	p := s.path.Child("hostname")
	if errs := validation.IsDNS1123Label(s.spec.Hostname); len(errs) > 0 {
		return invalid(p, "%s does not conform to the kubernetes DNS_LABEL rules : %s", p, strings.Join(errs, ", "))
	}
	return nil
}

func subdomain(s subject) []metav1.StatusCause {
	if s.spec.Subdomain == "" {
		return nil
	}
	p := s.path.Child("subdomain")
	if errs := validation.IsDNS1123Subdomain(s.spec.Subdomain); len(errs) > 0 {
		return invalid(p, "%s does not conform to the kubernetes DNS_SUBDOMAIN rules : %s", p, strings.Join(errs, ", "))
	}
	return nil
}

func machineType(s subject) []metav1.StatusCause {
	m := s.spec.Domain.Machine
	if m == nil || m.Type == "" {
		return nil
	}
	allowed := s.cluster.EmulatedMachines(s.spec.Architecture)
	for _, pattern := range allowed {
		if ok, err := path.Match(pattern, m.Type); err == nil && ok {
			return nil
		}
	}
	p := s.domain("machine", "type")
	return invalid(p, "%s is not supported: %s (allowed values: %v)", p, m.Type, allowed)
}

func ioThreadsPolicy(s subject) []metav1.StatusCause {
	policy := s.spec.Domain.IOThreadsPolicy
	if policy == nil {
		return nil
	}
	switch *policy {
	case kubevirtv1.IOThreadsPolicyShared, kubevirtv1.IOThreadsPolicyAuto:
		return nil
	case kubevirtv1.IOThreadsPolicySupplementalPool:
		t := s.spec.Domain.IOThreads
		if t == nil || t.SupplementalPoolThreadCount == nil || *t.SupplementalPoolThreadCount < 1 {
			return invalid(s.domain("ioThreads", "count"),
				"the number of iothreads needs to be set and positive for the dedicated policy")
		}
		return nil
	default:
		return invalid(s.domain("ioThreadsPolicy"), "Invalid IOThreadsPolicy (%s)", *policy)
	}
}

func startStrategy(s subject) []metav1.StatusCause {
	if s.spec.StartStrategy == nil {
		return nil
	}
	p := s.path.Child("startStrategy")
	if *s.spec.StartStrategy != kubevirtv1.StartStrategyPaused {
		return invalid(p, "%s is set with an unrecognized option: %s", p, *s.spec.StartStrategy)
	}
	if s.spec.LivenessProbe != nil {
		return invalid(p, "either %s or %s should be provided.Pausing VMI with LivenessProbe is not supported", p,
			s.path.Child("livenessProbe"))
	}
	return nil
}

func evictionStrategy(s subject) []metav1.StatusCause {
	if s.spec.EvictionStrategy == nil {
		return nil
	}
	switch *s.spec.EvictionStrategy {
	case kubevirtv1.EvictionStrategyNone, kubevirtv1.EvictionStrategyLiveMigrate,
		kubevirtv1.EvictionStrategyLiveMigrateIfPossible, kubevirtv1.EvictionStrategyExternal:
		return nil
	default:
		p := s.path.Child("evictionStrategy")
		return invalid(p, "%s is set with an unrecognized option: %s", p, *s.spec.EvictionStrategy)
	}
}

// serviceAccount: the pod has one account, in whichever way it is named.
func serviceAccount(s subject) []metav1.StatusCause {
	name := s.spec.ServiceAccountName
	if name == "" {
		return nil
	}
	p := s.path.Child("serviceAccountName")
	var causes []metav1.StatusCause
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		causes = invalid(p, "%s is not a valid service account name: %s", p, strings.Join(errs, "; "))
	}
	for _, v := range s.spec.Volumes {
		if v.ServiceAccount != nil && v.ServiceAccount.ServiceAccountName != name {
			return append(causes, invalid(p,
				"spec.serviceAccountName %q and serviceAccount volume %q must reference the same service account",
				name, v.ServiceAccount.ServiceAccountName)...)
		}
	}
	return causes
}

// gracePeriod is not one of KubeVirt's rules: a pod with such a value is refused when it is made, which the user would
// not see.
func gracePeriod(s subject) []metav1.StatusCause {
	if g := s.spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		p := s.path.Child("terminationGracePeriodSeconds")
		return invalid(p, "%s '%d': must be greater than or equal to 0.", p, *g)
	}
	return nil
}

func rebootPolicy(s subject) []metav1.StatusCause {
	if s.spec.Domain.RebootPolicy == nil || s.cluster.Enabled(defaults.GateRebootPolicy) {
		return nil
	}
	return invalid(s.domain("rebootPolicy"), "RebootPolicy is specified but the %s feature gate is not enabled",
		defaults.GateRebootPolicy)
}

// acpiTables come from Secrets.
func acpiTables(s subject) []metav1.StatusCause {
	if s.spec.Domain.Firmware == nil || s.spec.Domain.Firmware.ACPI == nil {
		return nil
	}
	acpi, p := s.spec.Domain.Firmware.ACPI, s.path.Child("acpi")
	if acpi.SlicNameRef == "" && acpi.MsdmNameRef == "" {
		return invalid(p, "ACPI was set but no SLIC nor MSDM volume reference was set")
	}
	return append(s.acpiTable(p, acpi.SlicNameRef, "slicNameRef"), s.acpiTable(p, acpi.MsdmNameRef, "msdmNameRef")...)
}

func (s subject) acpiTable(p *field.Path, volume, name string) []metav1.StatusCause {
	if volume == "" {
		return nil
	}
	i := slices.IndexFunc(s.spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == volume })
	switch {
	case i < 0:
		return invalid(p.Child(name), "%s does not have a matching Volume.", p)
	case s.spec.Volumes[i].Secret == nil:
		return invalid(p.Child(name), "%s refers to Volume of unsupported type.", p)
	}
	return nil
}

func bootloader(s subject) []metav1.StatusCause {
	f := s.spec.Domain.Firmware
	if f == nil || f.Bootloader == nil || f.Bootloader.EFI == nil || f.Bootloader.BIOS == nil {
		return nil
	}
	p := s.domain("firmware", "bootloader")
	return invalid(p, "%s has both EFI and BIOS configured, but they are mutually exclusive.", p)
}

func kernelBoot(s subject) []metav1.StatusCause {
	if s.spec.Domain.Firmware == nil || s.spec.Domain.Firmware.KernelBoot == nil {
		return nil
	}
	k, p := s.spec.Domain.Firmware.KernelBoot, s.domain("firmware", "kernelBoot")
	if k.Container == nil {
		if k.KernelArgs == "" {
			return nil
		}
		return invalid(p.Child("kernelArgs"), "kernel arguments cannot be provided without an external kernel")
	}
	c := p.Child("container")
	var causes []metav1.StatusCause
	if k.Container.Image == "" {
		causes = append(causes, required(c.Child("image"), "%s must be defined with an image", c)...)
	}
	if k.Container.InitrdPath == "" && k.Container.KernelPath == "" {
		causes = append(causes, required(c,
			"%s must be defined with at least one of the following: kernelPath, initrdPath", c)...)
	}
	causes = append(causes, filePath(c.Child("kernelPath"), k.Container.KernelPath)...)
	return append(causes, filePath(c.Child("initrdPath"), k.Container.InitrdPath)...)
}

// secureBoot keeps its variables in system management mode.
func secureBoot(s subject) []metav1.StatusCause {
	d := &s.spec.Domain
	secure := d.Firmware != nil && d.Firmware.Bootloader != nil && d.Firmware.Bootloader.EFI != nil &&
		on(d.Firmware.Bootloader.EFI.SecureBoot)
	smm := d.Features != nil && d.Features.SMM != nil && on(d.Features.SMM.Enabled)
	tdx := d.LaunchSecurity != nil && d.LaunchSecurity.TDX != nil
	if !secure || smm || tdx {
		return nil
	}
	p := s.domain()
	return invalid(p, "%s has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled.", p)
}
