package controlplane

import (
	"path/filepath"

	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

// storage returns the CSI driver that makes and deletes volumes, and its controllers; nothing in a cluster without
// storage.
func (c Cluster) storage() []supervise.Spec {
	if c.Storage == "" {
		return nil
	}
	program := func(name string) string { return filepath.Join(c.Storage, name) }
	socket, kubeconfig := c.Layout.Path("run", "csi.sock"), c.Layout.Kubeconfig("storage")
	specs := []supervise.Spec{{
		Name: "csi-driver",
		Args: []string{program("driver"), "--socket", socket, "--folder", c.Layout.Storage()},
	}}
	const copying = "30m" // a disk of many GiB; a copy that takes longer is begun again
	for _, controller := range [][]string{
		// Volumes can be used on every node.
		{"csi-provisioner", "--csi-address", socket, "--timeout", copying, "--feature-gates", "Topology=false"},
		// A file system grows while it is in use.
		{"csi-resizer", "--csi-address", socket, "--handle-volume-inuse-error=false"},
		{"csi-snapshotter", "--csi-address", socket, "--timeout", copying},
		{"snapshot-controller"},
	} {
		specs = append(specs, supervise.Spec{
			Name: controller[0], Needs: c.apiserverReady,
			Args: append([]string{program(controller[0]), "--kubeconfig", kubeconfig}, controller[1:]...),
		})
	}
	return specs
}
