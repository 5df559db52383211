package observe

import (
	"crypto/sha1"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// NameLabel returns the value of a label by which objects of an instance of that name are found: the name or, where
// that is too long for a label, the value that KubeVirt derives from it for launcher pods. Two names may have one
// value, so callers compare what they find with the name itself.
func NameLabel(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := fmt.Sprintf("%x", sha1.Sum([]byte(name)))[:8] // not used for security
	return name[:validation.LabelValueMaxLength-len(sum)-1] + "-" + sum
}
