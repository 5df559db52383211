package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"kubevirt.io/api/migrations"
	"kubevirt.io/api/migrations/v1alpha1"
)

// PoliciesListWatch feeds an informer with the cluster's MigrationPolicies. Where their definition is not installed,
// there are none.
func PoliciesListWatch(config *rest.Config) (cache.ListerWatcher, error) {
	r, _, err := restFor(config, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	source := cache.NewListWatchFromClient(r, migrations.ResourceMigrationPolicies, "", fields.Everything())
	list := source.ListWithContextFunc
	source.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		found, err := list(ctx, o)
		if apierrors.IsNotFound(err) {
			return &v1alpha1.MigrationPolicyList{}, nil
		}
		return found, err
	}
	return source, nil
}

// restFor returns a client for a version of an API group, whose objects are custom resources.
func restFor(
	config *rest.Config, version schema.GroupVersion, register func(*runtime.Scheme) error,
) (rest.Interface, runtime.ParameterCodec, error) {
	scheme := runtime.NewScheme()
	if err := register(scheme); err != nil {
		return nil, nil, fmt.Errorf("registering the types of %s: %w", version.Group, err)
	}
	c := rest.CopyConfig(config)
	c.GroupVersion = &version
	c.APIPath = "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType = runtime.ContentTypeJSON // custom resources have no protobuf form
	c.AcceptContentTypes = runtime.ContentTypeJSON
	r, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for %s: %w", version.Group, err)
	}
	return r, runtime.NewParameterCodec(scheme), nil
}
