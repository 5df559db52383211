package validation

import (
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// maxSMBIOS bounds a string that a guest's firmware shows, in bytes.
const maxSMBIOS = 256

// MachineConfiguration checks what the KubeVirt object says of all machines. Otherwise a VM would be refused, or find
// no node, for something that its user has not said.
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
