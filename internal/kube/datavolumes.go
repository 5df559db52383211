package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// ResourceDataVolume is the name of CDI's resource in URLs.
const ResourceDataVolume = "datavolumes"

// DefinitionDataVolume is the name of its CustomResourceDefinition.
const DefinitionDataVolume = "datavolumes.cdi.kubevirt.io"

// DataVolumeClient reads and writes DataVolumes of one namespace. Where CDI is not installed, every request is answered
// with NotFound.
type DataVolumeClient = gentype.ClientWithList[*cdi.DataVolume, *cdi.DataVolumeList]

// importer has the clients for CDI's objects, and for their definition.
type importer struct {
	volumes, definitions rest.Interface
	codec                runtime.ParameterCodec
}

func newImporter(config *rest.Config) (i importer, err error) {
	if i.volumes, i.codec, err = restFor(config, cdi.SchemeGroupVersion, cdi.AddToScheme); err != nil {
		return i, err
	}
	i.definitions, _, err = restFor(config, apiextensionsv1.SchemeGroupVersion, apiextensionsv1.AddToScheme)
	return i, err
}

// DataVolumes reads and writes DataVolumes.
func (c *Client) DataVolumes(namespace string) *DataVolumeClient {
	return gentype.NewClientWithList(ResourceDataVolume, c.cdi.volumes, c.cdi.codec, namespace,
		func() *cdi.DataVolume { return &cdi.DataVolume{} },
		func() *cdi.DataVolumeList { return &cdi.DataVolumeList{} })
}

// DataVolumesListWatch feeds an informer with all DataVolumes. Where CDI is not installed the list is empty, and the
// watch is one of their definition: it expires once they are served, so that the informer lists again. So the API
// server gets no repeated requests.
func (c *Client) DataVolumesListWatch() cache.ListerWatcher {
	source := cache.NewListWatchFromClient(c.cdi.volumes, ResourceDataVolume, "", fields.Everything())
	definition := cache.NewListWatchFromClient(c.cdi.definitions, "customresourcedefinitions", "",
		fields.OneTermEqualSelector(metav1.ObjectNameField, DefinitionDataVolume))
	var absent atomic.Bool
	list, follow := source.ListWithContextFunc, source.WatchFuncWithContext
	source.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		found, err := list(ctx, o)
		absent.Store(apierrors.IsNotFound(err))
		if absent.Load() {
			return &cdi.DataVolumeList{}, nil
		}
		return found, err
	}
	source.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if o.SendInitialEvents != nil { // a streaming list; if it is refused, the informer lists
			events, err := follow(ctx, o)
			absent.Store(err != nil)
			return events, err
		}
		if !absent.Load() {
			return follow(ctx, o)
		}
		// Without a version, an existing definition comes first.
		events, err := definition.WatchFuncWithContext(ctx, metav1.ListOptions{TimeoutSeconds: o.TimeoutSeconds})
		if err != nil {
			return nil, fmt.Errorf("watching for the definition of DataVolumes: %w", err)
		}
		return watch.Filter(events, untilServed), nil
	}
	return source
}

// untilServed drops events of the definition until DataVolumes are served. Then it returns that the list has expired.
func untilServed(e watch.Event) (watch.Event, bool) {
	if e.Type == watch.Error {
		return e, true
	}
	definition, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || e.Type == watch.Deleted || !isServed(definition, cdi.SchemeGroupVersion.Version) {
		return e, false
	}
	expired := apierrors.NewResourceExpired("DataVolumes are now served").Status()
	expired.Code = http.StatusGone
	return watch.Event{Type: watch.Error, Object: &expired}, true
}

// isServed reports whether the API server serves that version of a CustomResourceDefinition.
func isServed(definition *apiextensionsv1.CustomResourceDefinition, version string) bool {
	return slices.ContainsFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	}) && slices.ContainsFunc(definition.Status.Conditions,
		func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
}
