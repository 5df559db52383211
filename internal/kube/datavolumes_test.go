package kube_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/internal/kube"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// TestFollowsDataVolumesOnceCDIIsInstalled: the informer follows DataVolumes once CDI is installed, without repeated
// requests until then.
func TestFollowsDataVolumesOnceCDIIsInstalled(t *testing.T) {
	server := fakekube.New(fakekube.Options{NoImporter: true})
	client, err := kube.New(server.Config())
	require.NoError(t, err)
	_, err = client.DataVolumes("default").Get(t.Context(), "a", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), err)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	informer := cache.NewSharedIndexInformer(client.DataVolumesListWatch(), &cdi.DataVolume{}, 0, nil)
	go informer.RunWithContext(ctx)
	require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
	require.Eventually(t, func() bool {
		return slices.Contains(server.Calls(), "GET customresourcedefinitions")
	}, 20*time.Second, time.Millisecond)

	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: kube.DefinitionDataVolume},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1", Served: true}}},
	}
	_, err = fakekube.Put(server, definition)
	require.NoError(t, err)
	_, err = fakekube.Edit(server, "", kube.DefinitionDataVolume, "status",
		func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		})
	require.NoError(t, err)
	_, err = fakekube.Put(server, &cdi.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(informer.GetStore().ListKeys()) == 1 }, 20*time.Second,
		time.Millisecond)
	require.Less(t, len(server.Calls()), 20, "there are no repeated requests")
}
