package virttemplate

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"kubevirt.io/virt-template-api/core"
	"kubevirt.io/virt-template-api/core/subresourcesv1beta1"
	"kubevirt.io/virt-template-api/core/v1beta1"
)

// ErrLeftOut is the error of subresources.
var ErrLeftOut = errors.New("this program is built without the subresources of virtual machine templates")

// Interface is a client of all versions.
type Interface interface{ TemplateV1beta1() *V1beta1 }

// Clientset is a client of all versions.
type Clientset struct{ v1beta1 V1beta1 }

// V1beta1 is a client of the version v1beta1.
type V1beta1 struct {
	client rest.Interface
	codec  runtime.ParameterCodec
}

// NewForConfig returns a client that uses the API server of a configuration.
func NewForConfig(config *rest.Config) (*Clientset, error) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	ours := rest.CopyConfig(config)
	ours.GroupVersion, ours.APIPath = &v1beta1.GroupVersion, "/apis"
	ours.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(ours)
	if err != nil {
		return nil, err
	}
	return &Clientset{V1beta1{client: client, codec: runtime.NewParameterCodec(scheme)}}, nil
}

// TemplateV1beta1 returns the client of the version v1beta1.
func (c *Clientset) TemplateV1beta1() *V1beta1 { return &c.v1beta1 }

// RESTClient returns the client of the requests.
func (c *V1beta1) RESTClient() rest.Interface { return c.client }

// VirtualMachineTemplates returns the templates of a namespace.
func (c *V1beta1) VirtualMachineTemplates(namespace string) Templates {
	return Templates{gentype.NewClient(core.PluralResourceName, c.client, c.codec, namespace,
		func() *v1beta1.VirtualMachineTemplate { return &v1beta1.VirtualMachineTemplate{} })}
}

// VirtualMachineTemplateRequests returns the requests of a namespace.
func (c *V1beta1) VirtualMachineTemplateRequests(
	namespace string,
) *gentype.Client[*v1beta1.VirtualMachineTemplateRequest] {
	return gentype.NewClient(core.PluralRequestResourceName, c.client, c.codec, namespace,
		func() *v1beta1.VirtualMachineTemplateRequest { return &v1beta1.VirtualMachineTemplateRequest{} })
}

// Templates are the templates of a namespace.
type Templates struct {
	*gentype.Client[*v1beta1.VirtualMachineTemplate]
}

// Process fails with ErrLeftOut.
func (Templates) Process(
	context.Context, string, subresourcesv1beta1.ProcessOptions,
) (*subresourcesv1beta1.ProcessedVirtualMachineTemplate, error) {
	return nil, ErrLeftOut
}

// CreateVirtualMachine fails with ErrLeftOut.
func (Templates) CreateVirtualMachine(
	context.Context, string, subresourcesv1beta1.ProcessOptions,
) (*subresourcesv1beta1.ProcessedVirtualMachineTemplate, error) {
	return nil, ErrLeftOut
}
