package cluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/cgroup"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
)

// The longest that an orderly stop, and then each step of sweeping, may take.
const (
	stopTime  = 30 * time.Second
	sweepTime = 20 * time.Second
)

// Down ends everything of the cluster and leaves nothing of it behind but the
// state folder's files; with purge, not those either. Finished builds stay.
func (c Cluster) Down(ctx context.Context, purge bool) error {
	if err := requireRoot(); err != nil {
		return err
	}
	if _, err := os.Stat(c.Layout.Path(marker)); err != nil {
		c.say("There is no cluster in %s.", c.Layout.State)
		return nil
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if report, err := c.supervisor().Report(ctx); err == nil {
		if err := c.supervisor().Finish(ctx, true); err != nil {
			return err
		}
		if err := waitForEnd(ctx, report.PID, stopTime); err != nil {
			c.say("The supervisor does not end (%v); ending everything without it.", err)
		}
	}
	if err := c.sweep(ctx); err != nil {
		return err
	}
	if !purge {
		c.say("The cluster is down; its state is kept in %s (make down PURGE=1 deletes it).", c.Layout.State)
		return nil
	}
	if err := c.purge(); err != nil {
		return err
	}
	c.say("The cluster is down and its state is deleted; finished builds are kept in %s.", c.Layout.Cache)
	return nil
}

// sweep removes what is left, however the supervisor ended.
func (c Cluster) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*sweepTime)
	defer cancel()
	groups := []string{hostCgroup} // first: it has what would start the others again
	for _, n := range layout.Nodes() {
		groups = append(groups, n.Cgroup())
	}
	for _, g := range groups {
		if err := cgroup.Kill(ctx, g); err != nil {
			return err
		}
	}
	for _, g := range groups {
		if err := cgroup.Remove(ctx, g); err != nil {
			return err
		}
	}
	if err := c.detachVolumes(ctx); err != nil {
		return err
	}
	if err := node.RemoveBridge(ctx); err != nil {
		return err
	}
	node.RemoveMountpoints(c.Layout.Path("mountpoints"))
	for _, pattern := range []string{"*.json", "*.sock", "*.lock"} {
		files, _ := filepath.Glob(c.Layout.Path("run", pattern))
		for _, f := range files {
			_ = os.Remove(f)
		}
	}
	return nil
}

// purge deletes the state folder, unless something is mounted in it: then the deletion would reach whatever that is.
func (c Cluster) purge() error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], c.Layout.State+"/") {
			return fmt.Errorf("%s is mounted: unmount it, then purge again", fields[4])
		}
	}
	if err := os.RemoveAll(c.Layout.State); err != nil {
		return fmt.Errorf("delete the state: %w", err)
	}
	return nil
}
