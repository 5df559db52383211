package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/dev/controlplane"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/deploy/dev/parts"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

//go:embed files/storage.yaml
var storageManifest []byte

// snapshotModule has the definitions of the snapshots' kinds.
const snapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v8"

// hasStorage reports whether the cluster of the state folder was given storage.
func (c Cluster) hasStorage() bool {
	d, err := controlplane.Load(c.Layout)
	return err == nil && d.Storage != ""
}

// linkDriver puts the CSI driver of a folder where nodes expect it. Nodes that run another build are restarted with
// this one.
func (c Cluster) linkDriver(ctx context.Context, folder string) error {
	if folder == "" {
		return nil
	}
	target := filepath.Join(folder, "driver")
	had, _ := os.Readlink(c.Layout.CSIDriver())
	if err := link(target, c.Layout.CSIDriver()); err != nil || had == "" || had == target {
		return err
	}
	for _, n := range layout.Nodes() {
		if _, err := supervise.NewClient(c.Layout.Control(n.Name)).Report(ctx); err != nil {
			continue // it is starting, and finds the new one
		}
		if err := c.Restart(ctx, n.Name+"-"+node.CSIDriver); err != nil {
			return err
		}
	}
	return nil
}

// applyStorage registers the kinds of snapshots and the driver with Kubernetes, and makes a default StorageClass and a
// default VolumeSnapshotClass.
func (c Cluster) applyStorage(ctx context.Context) error {
	definitions, err := c.definitions(ctx, parts.Storage(), snapshotModule, "config/crd/snapshot.storage.k8s.io_*")
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, definitions); err != nil {
		return err
	}
	return c.Apply(ctx, storageManifest)
}

// definitions returns the definitions of kinds in the files of a part's module that match a pattern.
func (c Cluster) definitions(ctx context.Context, of parts.Part, module, pattern string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = filepath.Join(c.Layout.Repo, of.Dir)
	out, err := cmd.Output()
	var downloaded struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &downloaded)
	}
	if err != nil {
		return nil, fmt.Errorf("download the module %s: %w", module, err)
	}
	files, _ := filepath.Glob(filepath.Join(downloaded.Dir, pattern))
	if len(files) == 0 {
		return nil, fmt.Errorf("the module %s has no definitions of kinds in %s", module, downloaded.Dir)
	}
	var all []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the definition of a kind: %w", err)
		}
		all = append(append(all, "\n---\n"...), data...)
	}
	return all, nil
}

// driversRegistered returns an error until every node can use the driver's volumes.
func (c Cluster) driversRegistered(ctx context.Context) error {
	var nodes struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				Drivers []struct {
					Name string `json:"name"`
				} `json:"drivers"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := c.Get(ctx, &nodes, "csinodes"); err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, n := range layout.Nodes() {
		missing[n.Name] = true
	}
	for _, n := range nodes.Items {
		for _, d := range n.Spec.Drivers {
			if d.Name == layout.StorageDriver {
				delete(missing, n.Metadata.Name)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the CSI driver is missing on %d nodes", len(missing))
	}
	return nil
}

// detachVolumes detaches the loop devices of the driver's volumes, which outlive the processes that attached them.
func (c Cluster) detachVolumes(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").Output()
	if err != nil {
		return fmt.Errorf("list the loop devices: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		device, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(strings.TrimSpace(file), c.Layout.Storage()+"/") {
			continue
		}
		if out, err := exec.CommandContext(ctx, "losetup", "--detach", device).CombinedOutput(); err != nil {
			return fmt.Errorf("detach %s: %w: %s", device, err, out)
		}
	}
	return nil
}
