package node

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/internal/pki"
)

//go:embed files
var files embed.FS

// Programs are the folders that have the programs a node runs.
type Programs struct {
	// Kubernetes has kube, the multi-call program.
	Kubernetes string `json:"kubernetes"`
	// Containerd has containerd, its shim, and ctr.
	Containerd string `json:"containerd"`
}

// Config has the settings for the inside of a node. It is written to a file, because the process inside is started by
// its name alone.
type Config struct {
	Node     layout.Node   `json:"node"`
	Peers    []layout.Node `json:"peers"`
	Layout   layout.Layout `json:"layout"`
	Programs Programs      `json:"programs"`
	// PauseImage is the image of the process that holds a pod's namespaces.
	PauseImage string `json:"pauseImage"`
	// Images are the archives that every node has from the start, by reference.
	Images map[string]string `json:"images"`
}

// templates are the files that are written for a node: the name of the template and where in the node's folder it goes.
func templates() map[string]string {
	return map[string]string{
		"containerd.toml": "etc/containerd.toml",
		"cni.conflist":    "cni-net.d/" + ownNetworkFile,
		"kubelet.yaml":    "etc/kubelet.yaml",
		"kube-proxy.yaml": "etc/kube-proxy.yaml",
	}
}

// render fills in one template.
func (c Config) render(name string) ([]byte, error) {
	t, err := template.ParseFS(files, "files/"+name)
	if err != nil {
		return nil, fmt.Errorf("read the template %s: %w", name, err)
	}
	l, n := c.Layout, c.Node
	var out bytes.Buffer
	err = t.Option("missingkey=error").Execute(&out, map[string]any{
		"Node": n, "Socket": l.ContainerdSocket(n), "PauseImage": c.PauseImage,
		"CA": l.PKI("kubernetes", "ca.crt"), "Cert": l.PKI("kubernetes", n.Name+".crt"),
		"Key":           l.PKI("kubernetes", n.Name+".key"),
		"ClusterDomain": layout.ClusterDomain, "ServiceDNS": layout.ServiceDNS, "PodCIDR": layout.PodCIDR,
		"ResolvConf": l.Dir(n, "etc", "resolv.conf"), "VolumePlugins": l.Dir(n, "volume-plugins"),
		"ProxyKubeconfig": l.Kubeconfig("kube-proxy"), "CNIPlugins": l.CNIPlugins(),
	})
	if err != nil {
		return nil, fmt.Errorf("fill in the template %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// Write writes the node's files and returns a fingerprint of them: a node that runs with another one must be started
// again.
func (c Config) Write() (string, error) {
	sum := sha256.New()
	own, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode the configuration of %s: %w", c.Node.Name, err)
	}
	contents := map[string][]byte{"etc/node.json": own}
	for name, path := range templates() {
		if contents[path], err = c.render(name); err != nil {
			return "", err
		}
	}
	// Names of the outside for pods that ask for the node's own resolver.
	if contents["etc/resolv.conf"], err = os.ReadFile("/etc/resolv.conf"); err != nil {
		contents["etc/resolv.conf"] = []byte("# the host has no /etc/resolv.conf\n")
	}
	for _, path := range sortedKeys(contents) {
		fmt.Fprintf(sum, "%s %x\n", path, sha256.Sum256(contents[path]))
		if err := pki.WriteFile(c.Layout.Dir(c.Node, filepath.FromSlash(path)), contents[path], 0o644); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), renewMultus(c.Layout, c.Node)
}

// Read reads what Write wrote.
func Read(l layout.Layout, n layout.Node) (Config, error) {
	var c Config
	data, err := os.ReadFile(l.Dir(n, "etc", "node.json"))
	if err != nil {
		return c, fmt.Errorf("read the configuration of %s: %w", n.Name, err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read the configuration of %s: %w", n.Name, err)
	}
	return c, nil
}
