package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"kubevirt.io/api/migrations"
	"kubevirt.io/api/migrations/v1alpha1"
)

// PoliciesListWatch feeds an informer with the cluster's MigrationPolicies.
func PoliciesListWatch(config *rest.Config) (cache.ListerWatcher, error) {
	r, _, err := restFor(config, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return cache.NewListWatchFromClient(r, migrations.ResourceMigrationPolicies, "", fields.Everything()), nil
}

// restFor makes a client of an API group's version, whose objects are custom resources.
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
