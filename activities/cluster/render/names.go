package render

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// suffixLength is the length of the hash that ends a derived name: five characters, as Kubernetes' own generated names
// have.
const suffixLength = 5

// PodName returns the name of the launcher pod of a VMI: derived from its UID, so that there is never a second one.
func PodName(vmiName, vmiUID string) string {
	base := "virt-launcher-" + vmiName + "-"
	if limit := validation.DNS1123LabelMaxLength - suffixLength; len(base) > limit {
		base = base[:limit]
	}
	return base + hash(vmiUID)
}

// SecretName returns the name of the Secret with the inline cloud-init data of a launcher pod.
func SecretName(podName string) string { return podName + "-cloud-init" }

// safeName returns an error for a name that is not a single element of a path, since mount paths contain the names of
// volumes and Secrets. Kubernetes permits ".." in a mount path: a volume could hide the launcher's program.
func safeName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%.64q is not a valid name: %s", name, problems[0])
	}
	return nil
}

// volumeName returns the pod's name for a volume of the VMI: apart from the pod's own volumes, and never too long.
func volumeName(kind, name string) string {
	full := kind + "-" + strings.ReplaceAll(name, ".", "-")
	if len(full) <= validation.DNS1123LabelMaxLength && !strings.Contains(name, ".") {
		return full
	}
	if limit := validation.DNS1123LabelMaxLength - suffixLength - 1; len(full) > limit {
		full = full[:limit]
	}
	return full + "-" + hash(name)
}

// hostname returns the guest's hostname as a DNS label: the given one, or the VMI's name up to its first dot.
func hostname(given, vmiName string) string {
	h := given
	if h == "" {
		h = vmiName
	}
	h, _, _ = strings.Cut(h, ".")
	if len(h) > validation.DNS1123LabelMaxLength {
		h = h[:validation.DNS1123LabelMaxLength]
	}
	return strings.TrimRight(h, "-")
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:suffixLength]
}
