package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
)

// Names of the resources of kubevirt.io in URLs.
const (
	ResourceVM       = "virtualmachines"
	ResourceVMI      = "virtualmachineinstances"
	ResourceVMIRS    = "virtualmachineinstancereplicasets"
	ResourceVMIM     = "virtualmachineinstancemigrations"
	ResourceKubeVirt = "kubevirts"
)

// VMClient reads and writes VirtualMachines of one namespace.
type VMClient = gentype.ClientWithList[*kubevirt.VirtualMachine, *kubevirt.VirtualMachineList]

// VMIClient reads and writes VirtualMachineInstances of one namespace.
type VMIClient = gentype.ClientWithList[*kubevirt.VirtualMachineInstance, *kubevirt.VirtualMachineInstanceList]

// ReplicaSetClient reads and writes VirtualMachineInstanceReplicaSets of one namespace.
type ReplicaSetClient = gentype.ClientWithList[*kubevirt.VirtualMachineInstanceReplicaSet,
	*kubevirt.VirtualMachineInstanceReplicaSetList]

// MigrationClient reads and writes VirtualMachineInstanceMigrations of one namespace.
type MigrationClient = gentype.ClientWithList[*kubevirt.VirtualMachineInstanceMigration,
	*kubevirt.VirtualMachineInstanceMigrationList]

// KubeVirtClient reads and writes KubeVirt objects, which hold the settings of the cluster's administrator, of one
// namespace.
type KubeVirtClient = gentype.ClientWithList[*kubevirt.KubeVirt, *kubevirt.KubeVirtList]

// Client is a typed client of kubevirt.io/v1, and of CDI's DataVolumes. It is safe for concurrent use.
type Client struct {
	rest  rest.Interface
	codec runtime.ParameterCodec
	cdi   importer
}

// New returns a Client.
func New(config *rest.Config) (*Client, error) {
	r, codec, err := restFor(config, kubevirt.GroupVersion, kubevirt.AddToScheme)
	if err != nil {
		return nil, err
	}
	volumes, err := newImporter(config)
	if err != nil {
		return nil, err
	}
	return &Client{rest: r, codec: codec, cdi: volumes}, nil
}

// VMs reads and writes VirtualMachines.
func (c *Client) VMs(namespace string) *VMClient {
	return gentype.NewClientWithList(ResourceVM, c.rest, c.codec, namespace,
		func() *kubevirt.VirtualMachine { return &kubevirt.VirtualMachine{} },
		func() *kubevirt.VirtualMachineList { return &kubevirt.VirtualMachineList{} })
}

// VMIs reads and writes VirtualMachineInstances.
func (c *Client) VMIs(namespace string) *VMIClient {
	return gentype.NewClientWithList(ResourceVMI, c.rest, c.codec, namespace,
		func() *kubevirt.VirtualMachineInstance { return &kubevirt.VirtualMachineInstance{} },
		func() *kubevirt.VirtualMachineInstanceList { return &kubevirt.VirtualMachineInstanceList{} })
}

// ReplicaSets reads and writes VirtualMachineInstanceReplicaSets.
func (c *Client) ReplicaSets(namespace string) *ReplicaSetClient {
	return gentype.NewClientWithList(ResourceVMIRS, c.rest, c.codec, namespace,
		func() *kubevirt.VirtualMachineInstanceReplicaSet { return &kubevirt.VirtualMachineInstanceReplicaSet{} },
		func() *kubevirt.VirtualMachineInstanceReplicaSetList {
			return &kubevirt.VirtualMachineInstanceReplicaSetList{}
		})
}

// Migrations reads and writes VirtualMachineInstanceMigrations.
func (c *Client) Migrations(namespace string) *MigrationClient {
	return gentype.NewClientWithList(ResourceVMIM, c.rest, c.codec, namespace,
		func() *kubevirt.VirtualMachineInstanceMigration { return &kubevirt.VirtualMachineInstanceMigration{} },
		func() *kubevirt.VirtualMachineInstanceMigrationList {
			return &kubevirt.VirtualMachineInstanceMigrationList{}
		})
}

// KubeVirts reads and writes KubeVirt objects.
func (c *Client) KubeVirts(namespace string) *KubeVirtClient {
	return gentype.NewClientWithList(ResourceKubeVirt, c.rest, c.codec, namespace,
		func() *kubevirt.KubeVirt { return &kubevirt.KubeVirt{} },
		func() *kubevirt.KubeVirtList { return &kubevirt.KubeVirtList{} })
}

// ListWatch feeds an informer with all objects of a resource, or with the one of that name.
func (c *Client) ListWatch(resource, namespace, name string) cache.ListerWatcher {
	selector := fields.Everything()
	if name != "" {
		selector = fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	}
	return cache.NewListWatchFromClient(c.rest, resource, namespace, selector)
}
