package render

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// suffixLength is that of the hash that ends a derived name: five characters, as Kubernetes' own generated names have.
const suffixLength = 5

// PodName is the name of the launcher pod of a VMI: derived from its UID, so that there is never a second one.
func PodName(vmiName, vmiUID string) string {
	base := "virt-launcher-" + vmiName + "-"
	if limit := validation.DNS1123LabelMaxLength - suffixLength; len(base) > limit {
		base = base[:limit]
	}
	return base + hash(vmiUID)
}

// SecretName is the name of the Secret with the inline cloud-init data of a launcher pod.
func SecretName(podName string) string { return podName + "-cloud-init" }

// safeName refuses names that would not be one directory each: where a user's volume is mounted is made of them.
// Kubernetes takes a mount path with ".." as it is, and so one over the launcher's own program.
func safeName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%.64q is no name of a volume: %s", name, problems[0])
	}
	return nil
}

// volumeName is the pod's name for a volume of the VMI: apart from the pod's own volumes, and never too long.
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

// hostname is that of the guest: as given, or the VMI's name up to its first dot, as a DNS label.
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

// instanceID is the label that a launcher pod is found by: the VMI's name, or where that is too long for a label, what
// KubeVirt makes of it.
func instanceID(vmiName string) string {
	if len(vmiName) <= validation.LabelValueMaxLength {
		return vmiName
	}
	sum := fmt.Sprintf("%x", sha1.Sum([]byte(vmiName)))[:8]
	return vmiName[:validation.LabelValueMaxLength-len(sum)-1] + "-" + sum
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:suffixLength]
}
