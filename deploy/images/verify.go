package main

import (
	"context"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/deploy/images/recipes"
)

// verify proves the two images that are more than a binary: the test guest boots, answers and ends under the launcher's
// own libvirt and QEMU, as the launcher's user, on both disk buses.
func verify(ctx context.Context) error {
	builder, err := newBuilder()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := recipes.Verify(ctx, builder); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	fmt.Printf("The test guest boots, reboots and shuts down in the launcher's root (%s).\n",
		time.Since(started).Round(time.Second))
	return nil
}
