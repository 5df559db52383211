package clients

import (
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/world"
)

// sample is one version of an object, as clients read it.
type sample struct {
	story  string
	state  string
	object *unstructured.Unstructured
}

// kinds returns the kinds of the objects that clients judge, by resource.
func kinds() map[string]schema.GroupVersionKind {
	return map[string]schema.GroupVersionKind{
		"virtualmachines":                   kubevirt.VirtualMachineGroupVersionKind,
		"virtualmachineinstances":           kubevirt.VirtualMachineInstanceGroupVersionKind,
		"virtualmachineinstancemigrations":  kubevirt.VirtualMachineInstanceMigrationGroupVersionKind,
		"virtualmachineinstancereplicasets": kubevirt.VirtualMachineInstanceReplicaSetGroupVersionKind,
		"datavolumes":                       cdi.SchemeGroupVersion.WithKind("DataVolume"),
	}
}

// stories returns the first version of an object in each state, by kind and state, and all objects at the ends of the
// stories.
var stories = sync.OnceValues(func() (map[string]sample, []sample) {
	log.SetLogger(logr.Discard())
	seen := map[string]sample{}
	var atEnd []sample
	for _, s := range slices.Concat(world.Scenarios(), world.Handovers(), world.Failures()) {
		w, err := world.New(s.Options)
		if err != nil {
			panic(err)
		}
		current := map[string]sample{}
		w.Kube.OnChange(func(c kube.Change) {
			gvk, is := kinds()[c.Resource]
			id := c.Resource + "/" + c.Namespace + "/" + c.Name
			if delete(current, id); !is || c.Type == kube.Deleted {
				return
			}
			o := sample{story: s.Name, state: stateOf(c.New), object: asRead(gvk, c.New)}
			current[id] = o
			if _, known := seen[gvk.Kind+" "+o.state]; !known {
				seen[gvk.Kind+" "+o.state] = o
			}
		})
		want := s.Want
		var settled []sample
		s.Want = func(w *world.World) error {
			if err := want(w); err != nil {
				return err
			}
			settled = settled[:0]
			for _, o := range current {
				settled = append(settled, o)
			}
			return nil
		}
		s.Play(w)
		atEnd = append(atEnd, settled...)
	}
	return seen, atEnd
})

// asRead returns an object as the API server answers with it.
func asRead(gvk schema.GroupVersionKind, o runtime.Object) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u
}
