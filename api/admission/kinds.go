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

// kind is one of KubeVirt's kinds: its resource, and the schema of its objects.
type kind[T any] struct {
	name, resource string
	document       schema.Document
}

// kinds are compiled once, which takes some milliseconds and megabytes, and never changed.
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

// read checks that a request is about this kind, and decodes its object, and the old object of an update. A non-nil
// answer is final.
func (k kind[T]) read(req admission.Request) (object, old *T, answer *admission.Response) {
	return k.readAs(req, false)
}

// readDecoding is read for the webhooks in which KubeVirt decodes an object before it checks it: there the decoder
// reports a value of another type.
func (k kind[T]) readDecoding(req admission.Request) (object, old *T, answer *admission.Response) {
	return k.readAs(req, true)
}

func (k kind[T]) readAs(req admission.Request, decodingFirst bool) (object, old *T, answer *admission.Response) {
	end := func(r admission.Response) (*T, *T, *admission.Response) { return nil, nil, &r }
	if !k.isAbout(req.Resource) {
		return end(badRequest(fmt.Errorf("expect resource to be '%s'", k.resource)))
	}
	document, err := parse(req.Object.Raw)
	if err != nil {
		return end(badRequest(err))
	}
	found := k.document.Check(document)
	if len(found) > 0 && !decodingFirst {
		return end(refusal(texts(found)))
	}
	if object, old, err = k.decode(req); err != nil {
		return end(badRequest(err))
	}
	if len(found) > 0 {
		return end(refusal(texts(found)))
	}
	return object, old, nil
}

func (k kind[T]) decode(req admission.Request) (object, old *T, err error) {
	object = new(T)
	if err := json.Unmarshal(req.Object.Raw, object); err != nil {
		return nil, nil, err // the text is passed on as it is
	}
	if req.Operation != admissionv1.Update {
		return object, nil, nil
	}
	old = new(T)
	if err := json.Unmarshal(req.OldObject.Raw, old); err != nil {
		return nil, nil, err // the text is passed on as it is
	}
	return object, old, nil
}

func parse(raw []byte) (map[string]any, error) {
	var document map[string]any
	return document, json.Unmarshal(raw, &document)
}

// isAbout reports whether a request's resource is this kind's, in a served version.
func (k kind[T]) isAbout(r metav1.GroupVersionResource) bool {
	return r.Group == kubevirtcore.GroupName && slices.Contains([]string{"v1", "v1alpha3"}, r.Version) &&
		r.Resource == k.resource
}
