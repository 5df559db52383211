package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestDefinition(t *testing.T) {
	scopes := map[string]apiextensions.ResourceScope{}
	for _, k := range standIns() {
		text, err := k.definition()
		require.NoError(t, err)
		var d apiextensions.CustomResourceDefinition
		require.NoError(t, json.Unmarshal([]byte(text), &d))
		require.Equal(t, d.Spec.Names.Plural+"."+d.Spec.Group, d.Name)
		require.Contains(t, d.Labels, standInLabel)
		require.True(t, *d.Spec.Versions[0].Schema.OpenAPIV3Schema.XPreserveUnknownFields)
		scopes[d.Spec.Names.Kind] = d.Spec.Scope
	}
	require.Len(t, scopes, len(standIns()))
	require.Equal(t, apiextensions.ClusterScoped, scopes["VirtualMachineClusterPreference"])
	require.Equal(t, apiextensions.NamespaceScoped, scopes["VirtualMachinePreference"])
}

func TestMissing(t *testing.T) {
	const have = "customresourcedefinition.apiextensions.k8s.io/virtualmachinepools.pool.kubevirt.io\n"
	lacking := missing(standIns(), have)
	require.Len(t, lacking, len(standIns())-1)
	for _, k := range lacking {
		require.NotEqual(t, "VirtualMachinePool", k.kind)
	}
}
