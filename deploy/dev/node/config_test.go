package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/deploy/dev/layout"
)

func testConfig(t *testing.T) Config {
	t.Helper()
	nodes := layout.Nodes()
	return Config{
		Node: nodes[1], Peers: nodes[:1], Layout: layout.Layout{State: t.TempDir()}, PauseImage: "localhost/pause:x",
		Programs: Programs{Kubernetes: "/k", Containerd: "/c"},
		Images:   map[string]string{"localhost/pause:x": "/k/pause.tar"},
	}
}

func TestRenderedFilesAreForTheirNode(t *testing.T) {
	c := testConfig(t)
	var kubelet struct {
		Address        string `json:"address"`
		CgroupRoot     string `json:"cgroupRoot"`
		FailCgroupV1   *bool  `json:"failCgroupV1"`
		ClusterDNS     []string
		Authentication struct {
			Anonymous struct{ Enabled *bool }
		}
		ContainerRuntimeEndpoint string
	}
	data, err := c.render("kubelet.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &kubelet))
	require.Equal(t, "10.210.0.12", kubelet.Address)
	require.Equal(t, "/virtflow-node2", kubelet.CgroupRoot)
	require.False(t, *kubelet.FailCgroupV1)
	require.False(t, *kubelet.Authentication.Anonymous.Enabled)
	require.Equal(t, []string{layout.ServiceDNS}, kubelet.ClusterDNS)
	require.Equal(t, "unix://"+c.Layout.ContainerdSocket(c.Node), kubelet.ContainerRuntimeEndpoint)

	data, err = c.render("cni.conflist")
	require.NoError(t, err)
	var cni struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &cni))
	require.Equal(t, "10.211.2.0/24", cni.Plugins[0].IPAM.Ranges[0][0].Subnet)

	data, err = c.render("kube-proxy.yaml")
	require.NoError(t, err)
	var proxy map[string]any
	require.NoError(t, yaml.UnmarshalStrict(data, &proxy))
	require.Equal(t, "node2", proxy["hostnameOverride"])

	data, err = c.render("containerd.toml")
	require.NoError(t, err)
	for _, line := range []string{
		`sandbox_image = "localhost/pause:x"`, `restrict_oom_score_adj = true`,
		`device_ownership_from_security_context = false`,
		`address = "` + c.Layout.ContainerdSocket(c.Node) + `"`,
	} {
		require.Contains(t, string(data), line)
	}
}

func TestFingerprintChangesWithConfig(t *testing.T) {
	c := testConfig(t)
	first, err := c.Write()
	require.NoError(t, err)
	again, err := c.Write()
	require.NoError(t, err)
	require.Equal(t, first, again)

	read, err := Read(c.Layout, c.Node)
	require.NoError(t, err)
	require.Equal(t, c, read)

	c.Programs.Containerd = "/another/build"
	changed, err := c.Write()
	require.NoError(t, err)
	require.NotEqual(t, first, changed)
}

// TestMultusComesBeforeNodesOwnNetwork: the configuration of Multus sorts first and contains that of the node's own
// network; once it is removed, the node no longer uses it.
func TestMultusComesBeforeNodesOwnNetwork(t *testing.T) {
	c := testConfig(t)
	require.ErrorIs(t, WriteMultus(c.Layout, c.Node), os.ErrNotExist, "the node has no network yet")
	_, err := c.Write()
	require.NoError(t, err)
	require.NoError(t, WriteMultus(c.Layout, c.Node))
	own, err := c.render("cni.conflist")
	require.NoError(t, err)
	folder := c.Layout.Dir(c.Node, "cni-net.d")
	names, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, names, 2)
	first, err := os.ReadFile(filepath.Join(folder, names[0].Name()))
	require.NoError(t, err)
	var multus struct {
		Type      string
		Delegates []json.RawMessage
	}
	require.NoError(t, json.Unmarshal(first, &multus))
	require.Equal(t, "multus", multus.Type)
	require.Len(t, multus.Delegates, 1)
	require.JSONEq(t, string(own), string(multus.Delegates[0]))
	require.NoError(t, os.WriteFile(filepath.Join(folder, names[0].Name()), nil, 0o600))
	_, err = c.Write()
	require.NoError(t, err)
	again, err := os.ReadFile(filepath.Join(folder, names[0].Name()))
	require.NoError(t, err)
	require.Equal(t, first, again, "it is written again with the rest")

	require.NoError(t, RemoveMultus(c.Layout, c.Node))
	require.NoError(t, RemoveMultus(c.Layout, c.Node), "once more")
	require.NoFileExists(t, filepath.Join(folder, names[0].Name()))
	require.FileExists(t, filepath.Join(folder, names[1].Name()))
}

func TestReadSaysWhichNodeHasNoConfiguration(t *testing.T) {
	_, err := Read(layout.Layout{State: t.TempDir()}, layout.Nodes()[0])
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "node1")
}
