package main

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// group is the API group of every kind here.
const group = "kubevirt.io"

// storageVersion is the version whose types are read, and the one that is stored.
const storageVersion = "v1"

// deprecatedVersion is served with the same schema, as KubeVirt does, so that old manifests still work.
const (
	deprecatedVersion  = "v1alpha3"
	deprecationWarning = "kubevirt.io/v1alpha3 is now deprecated and will be removed in a future release."
)

// kind is what KubeVirt says of a custom resource beyond its Go type.
type kind struct {
	name         string
	plural       string
	shortNames   []string
	subresources *apiextensionsv1.CustomResourceSubresources
	columns      []apiextensionsv1.CustomResourceColumnDefinition
}

// kinds lists the custom resources that virtflow serves, with KubeVirt's names and columns.
func kinds() []kind {
	age := apiextensionsv1.CustomResourceColumnDefinition{Name: "Age", Type: "date",
		JSONPath: ".metadata.creationTimestamp"}
	status := &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	return []kind{
		{
			name: "VirtualMachine", plural: "virtualmachines", shortNames: []string{"vm", "vms"}, subresources: status,
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				age,
				column("Status", ".status.printableStatus", "Human Readable Status"),
				column("Ready", condition("Ready"), ""),
			},
		},
		{
			// No status subresource: KubeVirt's clients write a VMI's status by a plain update.
			name: "VirtualMachineInstance", plural: "virtualmachineinstances", shortNames: []string{"vmi", "vmis"},
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				age,
				column("Phase", ".status.phase", ""),
				column("IP", ".status.interfaces[0].ipAddress", ""),
				column("NodeName", ".status.nodeName", ""),
				column("Ready", condition("Ready"), ""),
				wide(column("Live-Migratable", condition("LiveMigratable"), "")),
				wide(column("Paused", condition("Paused"), "")),
			},
		},
		{
			name: "VirtualMachineInstanceReplicaSet", plural: "virtualmachineinstancereplicasets",
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
			name: "VirtualMachineInstanceMigration", plural: "virtualmachineinstancemigrations",
			shortNames: []string{"vmim", "vmims"}, subresources: status,
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				column("Phase", ".status.phase", "The current phase of VM instance migration"),
				column("VMI", ".spec.vmiName", "The name of the VMI to perform the migration on"),
			},
		},
		{
			name: "KubeVirt", plural: "kubevirts", shortNames: []string{"kv", "kvs"}, subresources: status,
			columns: []apiextensionsv1.CustomResourceColumnDefinition{
				age,
				column("Phase", ".status.phase", ""),
			},
		},
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
