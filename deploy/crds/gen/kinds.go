package main

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// group is an API group: where its Go types are, and the version that is stored.
type group struct {
	name, types, version string
	// deprecated is served with the same schema, as KubeVirt does, so that old manifests still work; "": none is.
	deprecated string
	scope      apiextensionsv1.ResourceScope
}

func core() group {
	return group{name: "kubevirt.io", types: "kubevirt.io/api/core/v1", version: "v1", deprecated: "v1alpha3",
		scope: apiextensionsv1.NamespaceScoped}
}

func migrations() group {
	return group{name: "migrations.kubevirt.io", types: "kubevirt.io/api/migrations/v1alpha1", version: "v1alpha1",
		scope: apiextensionsv1.ClusterScoped}
}

// kind is what KubeVirt says of a custom resource beyond its Go type.
type kind struct {
	group        group
	name         string
	plural       string
	shortNames   []string
	subresources *apiextensionsv1.CustomResourceSubresources
	columns      []apiextensionsv1.CustomResourceColumnDefinition
}

func (k kind) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.group.name, Kind: k.name}
}

// kinds lists the custom resources that virtflow serves, with KubeVirt's names and columns.
func kinds() []kind {
	age := apiextensionsv1.CustomResourceColumnDefinition{Name: "Age", Type: "date",
		JSONPath: ".metadata.creationTimestamp"}
	status := &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	return []kind{
		{
			group: core(), name: "VirtualMachine", plural: "virtualmachines", shortNames: []string{"vm", "vms"},
			subresources: status,
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				age,
				column("Status", ".status.printableStatus", "Human Readable Status"),
				column("Ready", condition("Ready"), ""),
			},
		},
		{
			// No status subresource: KubeVirt's clients write a VMI's status by a plain update.
			group: core(), name: "VirtualMachineInstance", plural: "virtualmachineinstances",
			shortNames: []string{"vmi", "vmis"},
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				age,
				column("Phase", ".status.phase", ""),
				column("IP", ".status.interfaces[0].ipAddress", ""),
				column("NodeName", ".status.nodeName", ""),
				column("Ready", condition("Ready"), ""),
				wide(column("Live-Migratable", condition("LiveMigratable"), "")),
				wide(column("Paused", condition("Paused"), "")),
				wide(reached("Scheduled")),
				wide(reached("Running")),
			},
		},
		{
			group: core(), name: "VirtualMachineInstanceReplicaSet", plural: "virtualmachineinstancereplicasets",
			shortNames:   []string{"vmirs", "vmirss"},
			subresources: scale(),
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				count("Desired", ".spec.replicas", "Number of desired VirtualMachineInstances"),
				count("Current", ".status.replicas",
					"Number of managed and not final or deleted VirtualMachineInstances"),
				count("Ready", ".status.readyReplicas",
					"Number of managed VirtualMachineInstances which are ready to receive traffic"),
				age,
			},
		},
		{
			group: core(), name: "VirtualMachineInstanceMigration", plural: "virtualmachineinstancemigrations",
			shortNames: []string{"vmim", "vmims"}, subresources: status,
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				column("Phase", ".status.phase", "The current phase of VM instance migration"),
				column("VMI", ".spec.vmiName", "The name of the VMI to perform the migration on"),
			},
		},
		{
			group: core(), name: "KubeVirt", plural: "kubevirts", shortNames: []string{"kv", "kvs"},
			subresources: status,
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				age,
				column("Phase", ".status.phase", ""),
			},
		},
		{group: migrations(), name: "MigrationPolicy", plural: "migrationpolicies"},
	}
}

func scale() *apiextensionsv1.CustomResourceSubresources {
	selector := ".status.labelSelector"
	return &apiextensionsv1.CustomResourceSubresources{
		Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		Scale: &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath:   ".spec.replicas",
			StatusReplicasPath: ".status.replicas",
			LabelSelectorPath:  &selector,
		},
	}
}

// reached is how long ago an instance came to a phase; KubeVirt has no such column. Beside its age they tell where the
// time of a slow start went.
func reached(phase string) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: phase, Type: "date",
		JSONPath: ".status.phaseTransitionTimestamps[?(@.phase=='" + phase + "')].phaseTransitionTimestamp"}
}

func condition(name string) string { return ".status.conditions[?(@.type=='" + name + "')].status" }

func column(name, path, description string) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: "string", JSONPath: path,
		Description: description}
}

func count(name, path, description string) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: "integer", JSONPath: path,
		Description: description}
}

// wide columns are shown by kubectl get -o wide only.
func wide(c apiextensionsv1.CustomResourceColumnDefinition) apiextensionsv1.CustomResourceColumnDefinition {
	c.Priority = 1
	return c
}
