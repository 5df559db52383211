package validation

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// maxSMBIOS bounds a string in the SMBIOS tables of a guest's firmware, in bytes.
const maxSMBIOS = 256

// MachineConfiguration checks the settings of the KubeVirt object for all machines. Otherwise a VM would be refused, or
// find no node, because of a setting that its user has not made.
func MachineConfiguration(c *kubevirtv1.KubeVirtConfiguration) []metav1.StatusCause {
	path := specPath().Child("configuration")
	var causes []metav1.StatusCause
	if q := c.CPURequest; q != nil && q.Sign() <= 0 {
		causes = append(causes, invalid(path.Child("cpuRequest"), "must be greater than 0")...)
	}
	if m := c.CPUModel; m != "" {
		if problems := validation.IsQualifiedName(kubevirtv1.CPUModelLabel + m); len(problems) > 0 {
			causes = append(causes, invalid(path.Child("cpuModel"), "is a part of a node's label: %s", problems[0])...)
		}
	}
	if class := c.DefaultRuntimeClass; class != "" {
		if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
			causes = append(causes, invalid(path.Child("defaultRuntimeClass"), "%s", problems[0])...)
		}
	}
	if n := len(c.ObsoleteCPUModels); n > contract.MostObsoleteModels {
		causes = append(causes, invalid(path.Child("obsoleteCPUModels"), "has %d models: at most %d are supported", n,
			contract.MostObsoleteModels)...)
	}
	for _, model := range slices.Sorted(maps.Keys(c.ObsoleteCPUModels)) {
		if model == "" || len(model) > contract.LongestCapability {
			at := path.Child("obsoleteCPUModels").Key(contract.Cut(model, contract.LongestCapability))
			causes = append(causes, invalid(at,
				"a name must have from 1 to %d bytes", contract.LongestCapability)...)
			break // one shows the problem; a list can be of any length
		}
	}
	causes = append(causes, causesOf(metavalidation.ValidateLabelSelector(c.AutoCPULimitNamespaceLabelSelector,
		metavalidation.LabelSelectorValidationOptions{}, path.Child("autoCPULimitNamespaceLabelSelector")))...)
	if n := c.NetworkConfiguration; n != nil {
		causes = append(causes, bindingPlugins(path.Child("network", "binding"), n.Binding)...)
	}
	causes = append(causes, seccomp(path.Child("seccompConfiguration"), c.SeccompConfiguration)...)
	if d := c.DeveloperConfiguration; d != nil {
		causes = append(causes, claimFiles(path.Child("developerConfiguration"), d)...)
	}
	if s := c.SMBIOSConfig; s != nil {
		for _, f := range []struct{ name, value string }{
			{"manufacturer", s.Manufacturer}, {"product", s.Product}, {"version", s.Version}, {"sku", s.Sku},
			{"family", s.Family},
		} {
			if len(f.value) > maxSMBIOS || strings.ContainsFunc(f.value, unicode.IsControl) {
				causes = append(causes, invalid(path.Child("smbios", f.name),
					"must have at most %d bytes, and no control characters", maxSMBIOS)...)
			}
		}
	}
	return causes
}

// claimFiles checks how launchers make files on PVCs, and read images.
func claimFiles(path *field.Path, d *kubevirtv1.DeveloperConfiguration) []metav1.StatusCause {
	const all = 100
	var causes []metav1.StatusCause
	if n := d.LessPVCSpaceToleration; n < 0 || n > all {
		causes = append(causes, invalid(path.Child("pvcTolerateLessSpaceUpToPercent"), "must be from 0 to %d", all)...)
	}
	if d.MinimumReservePVCBytes > math.MaxInt64 {
		causes = append(causes, invalid(path.Child("minimumReservePVCBytes"), "must be at most %d", math.MaxInt64)...)
	}
	if v := d.DiskVerification; v != nil && v.MemoryLimit != nil && v.MemoryLimit.Sign() <= 0 {
		causes = append(causes, invalid(path.Child("diskVerification", "memoryLimit"), "must be greater than 0")...)
	}
	return causes
}
