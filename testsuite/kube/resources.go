package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirt "kubevirt.io/api/core/v1"
	"kubevirt.io/api/migrations/v1alpha1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// kind is a resource and the rules that hold for its objects.
type kind struct {
	schema.GroupVersionResource
	name       string // as in objects: Pod
	namespaced bool
	// custom: defined by a CRD. Its objects are stored as written, and refuse strategic merge patches.
	custom bool
	// foreign: its definition belongs to another project. Its objects are stored without pruning.
	foreign bool
	// status: there is a status subresource, and the main resource ignores the status.
	status bool
	scale  bool
	// generation counts changes of the specification (of everything but metadata, where a custom resource has no status
	// subresource).
	generation bool
	// unconditional: an update may omit the resourceVersion.
	unconditional bool
	// graceful: a deletion waits for the kubelet.
	graceful bool
	// uncollected: the garbage collector does not know it.
	uncollected bool
	empty       func() runtime.Object
}

func (k *kind) groupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.name} }

func (k *kind) apiVersion() string { return k.GroupVersion().String() }

func core(resource, name string, empty func() runtime.Object) kind {
	return kind{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource), name: name, namespaced: true,
		unconditional: true, empty: empty,
	}
}

func custom(resource, name string, status bool, empty func() runtime.Object) kind {
	return kind{
		GroupVersionResource: kubevirt.SchemeGroupVersion.WithResource(resource), name: name, namespaced: true,
		custom: true, status: status, generation: true, empty: empty,
	}
}

// kinds returns all resources that the server serves, by name.
func kinds() map[string]*kind {
	pods := core("pods", "Pod", func() runtime.Object { return &corev1.Pod{} })
	pods.status, pods.generation, pods.graceful = true, true, true
	nodes := core("nodes", "Node", func() runtime.Object { return &corev1.Node{} })
	nodes.status, nodes.namespaced = true, false
	namespaces := core("namespaces", "Namespace", func() runtime.Object { return &corev1.Namespace{} })
	namespaces.status, namespaces.namespaced = true, false
	claims := core("persistentvolumeclaims", "PersistentVolumeClaim", func() runtime.Object {
		return &corev1.PersistentVolumeClaim{}
	})
	claims.status = true
	events := core("events", "Event", func() runtime.Object { return &corev1.Event{} })
	events.uncollected = true
	revisions := core("controllerrevisions", "ControllerRevision", func() runtime.Object {
		return &appsv1.ControllerRevision{}
	})
	revisions.GroupVersionResource = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
	leases := core("leases", "Lease", func() runtime.Object { return &coordinationv1.Lease{} })
	leases.GroupVersionResource = coordinationv1.SchemeGroupVersion.WithResource("leases")
	leases.unconditional = false
	sets := custom("virtualmachineinstancereplicasets", "VirtualMachineInstanceReplicaSet", true,
		func() runtime.Object { return &kubevirt.VirtualMachineInstanceReplicaSet{} })
	sets.scale = true
	policies := custom("migrationpolicies", "MigrationPolicy", false, func() runtime.Object {
		return &v1alpha1.MigrationPolicy{}
	})
	policies.GroupVersionResource = v1alpha1.SchemeGroupVersion.WithResource("migrationpolicies")
	policies.namespaced = false
	volumes := custom("datavolumes", "DataVolume", false, func() runtime.Object { return &cdi.DataVolume{} })
	volumes.GroupVersionResource, volumes.foreign = cdi.SchemeGroupVersion.WithResource("datavolumes"), true
	definitions := custom("customresourcedefinitions", "CustomResourceDefinition", true, func() runtime.Object {
		return &apiextensionsv1.CustomResourceDefinition{}
	})
	definitions.GroupVersionResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	definitions.foreign, definitions.namespaced = true, false
	out := map[string]*kind{}
	for _, k := range []kind{
		pods, nodes, namespaces, claims, events, revisions, leases, sets, policies, volumes,
		definitions,
		core("secrets", "Secret", func() runtime.Object { return &corev1.Secret{} }),
		core("resourcequotas", "ResourceQuota", func() runtime.Object { return &corev1.ResourceQuota{} }),
		core("configmaps", "ConfigMap", func() runtime.Object { return &corev1.ConfigMap{} }),
		core("serviceaccounts", "ServiceAccount", func() runtime.Object { return &corev1.ServiceAccount{} }),
		custom("virtualmachines", "VirtualMachine", true, func() runtime.Object { return &kubevirt.VirtualMachine{} }),
		custom("virtualmachineinstances", "VirtualMachineInstance", false, func() runtime.Object {
			return &kubevirt.VirtualMachineInstance{}
		}),
		custom("virtualmachineinstancemigrations", "VirtualMachineInstanceMigration", true,
			func() runtime.Object { return &kubevirt.VirtualMachineInstanceMigration{} }),
		custom("kubevirts", "KubeVirt", true, func() runtime.Object { return &kubevirt.KubeVirt{} }),
	} {
		out[k.Resource] = &k
	}
	return out
}
