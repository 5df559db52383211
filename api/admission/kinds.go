package admission

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtcore "kubevirt.io/api/core"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/schema"
)

// kind is one of KubeVirt's kinds: its resource, and what its objects may look like.
type kind[T any] struct {
	name, resource string
	document       schema.Document
}

// kinds are compiled once: it takes some milliseconds and megabytes. They are only read.
type kinds struct {
	vm    kind[kubevirtv1.VirtualMachine]
	vmi   kind[kubevirtv1.VirtualMachineInstance]
	vmirs kind[kubevirtv1.VirtualMachineInstanceReplicaSet]
	vmim  kind[kubevirtv1.VirtualMachineInstanceMigration]
}

var compiledKinds = sync.OnceValue(func() kinds {
	return kinds{
		vm: kind[kubevirtv1.VirtualMachine]{"VirtualMachine", "virtualmachines",
			schema.Document{Spec: schema.Compile(kubevirtv1.VirtualMachineSpec{}),
				Status: schema.Compile(kubevirtv1.VirtualMachineStatus{})}},
		vmi: kind[kubevirtv1.VirtualMachineInstance]{"VirtualMachineInstance", "virtualmachineinstances",
			schema.Document{Spec: schema.Compile(kubevirtv1.VirtualMachineInstanceSpec{}),
				Status: schema.Compile(kubevirtv1.VirtualMachineInstanceStatus{})}},
		vmirs: kind[kubevirtv1.VirtualMachineInstanceReplicaSet]{"VirtualMachineInstanceReplicaSet",
			"virtualmachineinstancereplicasets",
			schema.Document{Spec: schema.Compile(kubevirtv1.VirtualMachineInstanceReplicaSetSpec{}),
				Status: schema.Compile(kubevirtv1.VirtualMachineInstanceReplicaSetStatus{})}},
		vmim: kind[kubevirtv1.VirtualMachineInstanceMigration]{"VirtualMachineInstanceMigration",
			"virtualmachineinstancemigrations",
			schema.Document{Spec: schema.Compile(kubevirtv1.VirtualMachineInstanceMigrationSpec{}),
				Status: schema.Compile(kubevirtv1.VirtualMachineInstanceMigrationStatus{})}},
	}
})

// read checks that a request is about this kind, and decodes its object, and the object as it was in an update. An
// answer that is not nil ends the matter.
func (k kind[T]) read(req admission.Request) (object, old *T, answer *admission.Response) {
	return k.readAs(req, false)
}

// readDecoding is read for the webhooks in which KubeVirt decodes an object before it checks it: there it is decoding
// that reports a value of another type.
func (k kind[T]) readDecoding(req admission.Request) (object, old *T, answer *admission.Response) {
	return k.readAs(req, true)
}

func (k kind[T]) readAs(req admission.Request, decodingFirst bool) (object, old *T, answer *admission.Response) {
	end := func(r admission.Response) (*T, *T, *admission.Response) { return nil, nil, &r }
	if !k.concerns(req.Resource) {
		return end(bad(fmt.Errorf("expect resource to be '%s'", k.resource)))
	}
	document, err := parse(req.Object.Raw)
	if err != nil {
		return end(bad(err))
	}
	found := k.document.Check(document)
	if len(found) > 0 && !decodingFirst {
		return end(refused(texts(found)))
	}
	if object, old, err = k.decode(req); err != nil {
		return end(bad(err))
	}
	if len(found) > 0 {
		return end(refused(texts(found)))
	}
	return object, old, nil
}

func (k kind[T]) decode(req admission.Request) (object, old *T, err error) {
	object = new(T)
	if err := json.Unmarshal(req.Object.Raw, object); err != nil {
		return nil, nil, err //nolint:wrapcheck // the text is passed on as it is
	}
	if req.Operation != admissionv1.Update {
		return object, nil, nil
	}
	old = new(T)
	if err := json.Unmarshal(req.OldObject.Raw, old); err != nil {
		return nil, nil, err //nolint:wrapcheck // the text is passed on as it is
	}
	return object, old, nil
}

func parse(raw []byte) (map[string]any, error) {
	var document map[string]any
	return document, json.Unmarshal(raw, &document)
}

// concerns says whether a request's resource is this kind's, in a version that there is.
func (k kind[T]) concerns(r metav1.GroupVersionResource) bool {
	return r.Group == kubevirtcore.GroupName && slices.Contains([]string{"v1", "v1alpha3"}, r.Version) &&
		r.Resource == k.resource
}
