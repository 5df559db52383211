package main

import (
	"encoding/json"
	"fmt"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// standInLabel marks the objects that exist for the tests only.
const standInLabel = "virtflow.io/conformance-stand-in"

// kind is a kind of KubeVirt's API that the tests list or delete objects of after each spec.
type kind struct{ group, version, plural, singular, kind string }

// name returns the name of the kind's definition.
func (k kind) name() string { return k.plural + "." + k.group }

// standIns returns the kinds that have to exist. Those that virtflow lacks get empty definitions.
func standIns() []kind {
	const instancetypes, snapshots, backups = "instancetype.kubevirt.io", "snapshot.kubevirt.io", "backup.kubevirt.io"
	return []kind{
		{instancetypes, "v1beta1", "virtualmachineinstancetypes", "virtualmachineinstancetype",
			"VirtualMachineInstancetype"},
		{instancetypes, "v1beta1", "virtualmachineclusterinstancetypes", "virtualmachineclusterinstancetype",
			"VirtualMachineClusterInstancetype"},
		{instancetypes, "v1beta1", "virtualmachinepreferences", "virtualmachinepreference", "VirtualMachinePreference"},
		{instancetypes, "v1beta1", "virtualmachineclusterpreferences", "virtualmachineclusterpreference",
			"VirtualMachineClusterPreference"},
		{"pool.kubevirt.io", "v1beta1", "virtualmachinepools", "virtualmachinepool", "VirtualMachinePool"},
		{"clone.kubevirt.io", "v1beta1", "virtualmachineclones", "virtualmachineclone", "VirtualMachineClone"},
		{snapshots, "v1beta1", "virtualmachinesnapshots", "virtualmachinesnapshot", "VirtualMachineSnapshot"},
		{snapshots, "v1beta1", "virtualmachinesnapshotcontents", "virtualmachinesnapshotcontent",
			"VirtualMachineSnapshotContent"},
		{snapshots, "v1beta1", "virtualmachinerestores", "virtualmachinerestore", "VirtualMachineRestore"},
		{"export.kubevirt.io", "v1", "virtualmachineexports", "virtualmachineexport", "VirtualMachineExport"},
		{backups, "v1alpha1", "virtualmachinebackups", "virtualmachinebackup", "VirtualMachineBackup"},
		{backups, "v1alpha1", "virtualmachinebackuptrackers", "virtualmachinebackuptracker",
			"VirtualMachineBackupTracker"},
		{"kubevirt.io", "v1", "virtualmachineinstancepresets", "virtualmachineinstancepreset",
			"VirtualMachineInstancePreset"},
	}
}

// isClusterScoped reports whether the kind's objects have no namespace.
func (k kind) isClusterScoped() bool {
	return slices.Contains([]string{"VirtualMachineClusterInstancetype", "VirtualMachineClusterPreference"}, k.kind)
}

// definition returns a definition that accepts any object of the kind, for kubectl.
func (k kind) definition() (string, error) {
	scope := apiextensions.NamespaceScoped
	if k.isClusterScoped() {
		scope = apiextensions.ClusterScoped
	}
	data, err := json.Marshal(apiextensions.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: k.name(), Labels: map[string]string{standInLabel: ""}},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: k.group, Scope: scope,
			Names: apiextensions.CustomResourceDefinitionNames{
				Plural: k.plural, Singular: k.singular, Kind: k.kind, ListKind: k.kind + "List"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: k.version, Served: true, Storage: true,
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true)}},
			}},
		},
	})
	if err != nil {
		return "", fmt.Errorf("define the kind %s: %w", k.kind, err)
	}
	return string(data), nil
}
