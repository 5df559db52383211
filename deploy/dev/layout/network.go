package layout

import "fmt"

// The cluster's networks. They are unusual on purpose, so that they do not collide with the networks of the machine.
const (
	// Bridge joins the nodes and the host.
	Bridge = "vfnodes"
	// HostIP is the host's address on the bridge: the apiserver and Temporal.
	HostIP = "10.210.0.1"
	// NodePrefix is the length of the node network's prefix.
	NodePrefix = 24
	// PodCIDR has every pod; each node has a /24 of it.
	PodCIDR = "10.211.0.0/16"
	// ServiceCIDR has every ClusterIP.
	ServiceCIDR = "10.212.0.0/16"
	// ServiceAPI is the ClusterIP of the Service "kubernetes".
	ServiceAPI = "10.212.0.1"
	// ServiceDNS is the ClusterIP of the cluster's DNS.
	ServiceDNS = "10.212.0.10"
	// ClusterDomain is the suffix of the names of Services.
	ClusterDomain = "cluster.local"
	// APIServer is the apiserver's address.
	APIServer = "https://" + HostIP + ":6443"
	// Temporal is the address of Temporal's frontend.
	Temporal = HostIP + ":7233"
	// TemporalName is the name in the Temporal server's certificate that clients expect.
	TemporalName = "temporal.virtflow.internal"
	// TemporalNamespace is the Temporal namespace of virtflow.
	TemporalNamespace = "virtflow"
	// UI is the address of Temporal's web interface, on the host only.
	UI = "127.0.0.1:8233"
	// StorageDriver is the name of the CSI driver.
	StorageDriver = "storage.dev.virtflow.io"
	// TemporalMetrics is where Temporal's server shows its metrics, on the host only.
	TemporalMetrics = "127.0.0.1:7235"
	// TemporalPprof is where Temporal's server serves profiles, on the host only.
	TemporalPprof = "127.0.0.1:7237"
)

// Node is one of the cluster's nodes.
type Node struct {
	// Index counts from 1.
	Index int
	// Name is the node's name in Kubernetes, and its host name.
	Name string
	// IP is its address on the bridge.
	IP string
	// PodCIDR has the node's pods.
	PodCIDR string
}

// Nodes are the nodes of the cluster.
func Nodes() []Node {
	nodes := make([]Node, 2)
	for i := range nodes {
		n := i + 1
		nodes[i] = Node{
			Index:   n,
			Name:    fmt.Sprintf("node%d", n),
			IP:      fmt.Sprintf("10.210.0.%d", 10+n),
			PodCIDR: fmt.Sprintf("10.211.%d.0/24", n),
		}
	}
	return nodes
}

// NodeNamed finds a node.
func NodeNamed(name string) (Node, error) {
	for _, n := range Nodes() {
		if n.Name == name {
			return n, nil
		}
	}
	return Node{}, fmt.Errorf("there is no node %q", name)
}

// Link is the host's end of the node's veth.
func (n Node) Link() string { return "vf-" + n.Name }

// Cgroup is the group, in every hierarchy, that has the node's pods.
func (n Node) Cgroup() string { return "virtflow-" + n.Name }

// Dir is the node's folder, or a path in it.
func (l Layout) Dir(n Node, elem ...string) string {
	return l.Path(append([]string{"nodes", n.Name}, elem...)...)
}

// ContainerdSocket is where the node's containerd listens; host and node see it at the same path.
func (l Layout) ContainerdSocket(n Node) string { return l.Dir(n, "run", "containerd.sock") }
