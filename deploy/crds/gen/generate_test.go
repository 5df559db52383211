package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"
)

// The committed definitions are those that would be generated, and an API server takes each of them.
func TestCommittedDefinitionsAreCurrentAndValid(t *testing.T) {
	require.NoError(t, run("verify", "../../..", ".."))

	files, err := generate("../../..")
	require.NoError(t, err)
	require.Len(t, files, len(kinds()))
	for name, content := range files {
		t.Run(name, func(t *testing.T) {
			var external apiextensionsv1.CustomResourceDefinition
			require.NoError(t, yaml.UnmarshalStrict(content, &external))
			apiextensionsv1.SetDefaults_CustomResourceDefinition(&external)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
			external.Status.StoredVersions = []string{external.Spec.Versions[0].Name}
			var internal apiextensions.CustomResourceDefinition
			convert := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition
			require.NoError(t, convert(&external, &internal, nil))
			require.Empty(t, validation.ValidateCustomResourceDefinition(context.Background(), &internal))
		})
	}
}

func TestOnlyTwoModes(t *testing.T) {
	require.ErrorContains(t, run("check", "../../..", ".."), `"check" is neither generate nor verify`)
}
