package instance

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
)

// What Kubernetes makes the end of a generated name of: five letters and digits that spell no words.
const (
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength  = 5
	maxBase       = 63 - suffixLength
)

// ReplicaName returns the name of a replica. It looks like one that the API server generates for KubeVirt, but the same
// set and ordinal always have the same. Like there, the base is the template's name, its generateName or the set's
// name, and nothing comes between.
func ReplicaName(set *kubevirt.VirtualMachineInstanceReplicaSet, ordinal int) string {
	base := set.Name
	if t := set.Spec.Template; t != nil && t.ObjectMeta.Name != "" {
		base = t.ObjectMeta.Name
	} else if t != nil && t.ObjectMeta.GenerateName != "" {
		base = t.ObjectMeta.GenerateName
	}
	if len(base) > maxBase {
		base = base[:maxBase]
	}
	sum := sha256.Sum256([]byte(string(set.UID) + "/" + strconv.Itoa(ordinal)))
	n := binary.BigEndian.Uint64(sum[:8])
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = suffixLetters[n%uint64(len(suffixLetters))]
		n /= uint64(len(suffixLetters))
	}
	return base + string(suffix)
}

// NewReplica makes the instance of that ordinal of a replica set.
func NewReplica(
	set *kubevirt.VirtualMachineInstanceReplicaSet, ordinal int, s settings.Settings, r Request,
) (*kubevirt.VirtualMachineInstance, error) {
	if set.Spec.Template == nil {
		return nil, fmt.Errorf("spec.template of VirtualMachineInstanceReplicaSet %s/%s is missing", set.Namespace,
			set.Name)
	}
	template := set.Spec.Template.DeepCopy()
	vmi := &kubevirt.VirtualMachineInstance{
		TypeMeta: metav1.TypeMeta{APIVersion: kubevirt.GroupVersion.String(), Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{
			Name: ReplicaName(set, ordinal), Namespace: set.Namespace, Labels: template.ObjectMeta.Labels,
			Annotations: maps.Clone(template.ObjectMeta.Annotations),
			Finalizers:  template.ObjectMeta.Finalizers,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(set, kubevirt.VirtualMachineInstanceReplicaSetGroupVersionKind)},
		},
		Spec: template.Spec,
	}
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[contract.AnnotationReplica] = strconv.Itoa(ordinal)
	// What a template says about who asked is not to be believed.
	delete(vmi.Annotations, contract.AnnotationRequestedBy)
	if r.Actor != "" {
		vmi.Annotations[contract.AnnotationRequestedBy] = r.Actor
	}
	return vmi, complete(vmi, s, "", r.Now)
}
