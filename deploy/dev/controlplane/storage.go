package controlplane

import (
	"path/filepath"

	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

// storage are the CSI driver, as far as it makes and deletes volumes, and the controllers that have it do so.
func (c Cluster) storage() []supervise.Spec {
	program := func(name string) string { return filepath.Join(c.Programs.Storage, name) }
	socket, kubeconfig := c.Layout.Path("run", "csi.sock"), c.Layout.Kubeconfig("storage")
	specs := []supervise.Spec{{
		Name: "csi-driver",
		Args: []string{program("driver"), "--socket", socket, "--folder", c.Layout.Storage()},
	}}
	const copying = "30m" // a disk of many GiB; what takes longer is begun anew
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
