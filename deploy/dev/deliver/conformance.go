package deliver

import "context"

// Conformance builds the images that KubeVirt's functional tests use, and gives every node those that it lacks.
func (d Delivery) Conformance(ctx context.Context) error {
	images, err := d.build(ctx, "conformance")
	if err != nil {
		return err
	}
	return d.distribute(ctx, images)
}
