package main

import (
	"context"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/deploy/images/recipes"
)

// verify proves the images that are more than a binary: guests boot, answer and end under the launcher's own libvirt
// and QEMU, as the launcher's user. The test guest does so on both disk buses, the stand-ins answer on their consoles.
func verify(ctx context.Context) error {
	builder, err := newBuilder()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := recipes.Verify(ctx, builder); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	fmt.Printf("The guests boot and shut down in the launcher's root (%s).\n",
		time.Since(started).Round(time.Second))
	return nil
}
