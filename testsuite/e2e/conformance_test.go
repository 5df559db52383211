//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/testsuite/kube/conformance"
)

// TestConformance runs the cases to which the in-memory API server of the tests is held against the real
// kube-apiserver. It installs virtflow's own custom resource definitions once more, in a group of their own.
func TestConformance(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	require.NoError(t, err)
	config.QPS = -1
	clients, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	definitions := clients.Resource(
		schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
			Resource: "customresourcedefinitions"})
	files, err := filepath.Glob("../../deploy/crds/virtual*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		definition := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(bytes.ReplaceAll(text, []byte("kubevirt.io"), []byte(conformance.Group)),
			&definition.Object))
		unstructured.RemoveNestedField(definition.Object, "spec", "names", "categories")
		unstructured.RemoveNestedField(definition.Object, "spec", "names", "shortNames")
		name := definition.GetName()
		_, err = definitions.Create(t.Context(), definition, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(t, err)
		}
		t.Cleanup(func() { _ = definitions.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	for _, file := range files {
		resource := filepath.Base(file[:len(file)-len(".yaml")])
		until(t, time.Minute, resource+" are served", func() error {
			_, err := clients.Resource(
				schema.GroupVersionResource{Group: conformance.Group, Version: "v1", Resource: resource}).
				List(t.Context(), metav1.ListOptions{})
			return err
		})
	}
	conformance.Run(t, config, "real apiserver")
}
