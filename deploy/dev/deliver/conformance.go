package deliver

import (
	"context"
	"fmt"

	"github.com/virtflow/virtflow/deploy/dev/layout"
)

// Conformance builds the images that KubeVirt's functional tests use, and gives every node those that it lacks.
func (d Delivery) Conformance(ctx context.Context) error {
	images, err := d.build(ctx, "conformance")
	if err != nil {
		return err
	}
	if err := d.distribute(ctx, images); err != nil {
		return err
	}
	return d.tagLauncher(ctx, images)
}

// tagLauncher gives the launcher that has programs for the tests the name of the launcher's image: control workers may
// make pods of no other.
func (d Delivery) tagLauncher(ctx context.Context, images []Image) error {
	const name = registry + "launcher:with-shell"
	for _, image := range images {
		if image.Name != "launcher-with-shell" {
			continue
		}
		for _, n := range layout.Nodes() {
			if _, err := d.ctr(ctx, n, "images", "tag", "--force", image.Pinned(), name); err != nil {
				return fmt.Errorf("tag %s on %s: %w", image.Pinned(), n.Name, err)
			}
		}
	}
	return nil
}
