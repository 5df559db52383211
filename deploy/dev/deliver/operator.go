package deliver

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/parts"
)

// fromSource builds a project's programs and their images, which deploy/images knows as a group, and imports them on
// the nodes.
func (d Delivery) fromSource(
	ctx context.Context, part parts.Part, group string,
) (programs string, images []Image, err error) {
	builder := parts.Builder{Repo: d.Cluster.Layout.Repo, Cache: d.Cluster.Layout.Cache, Out: d.Out}
	if programs, err = builder.Ensure(ctx, part); err != nil {
		return "", nil, err
	}
	if images, err = d.build(ctx, group, programs); err != nil {
		return "", nil, err
	}
	return programs, images, d.distribute(ctx, images)
}

// manifestOf returns the manifest of a project's operator, from the project's generator.
func manifestOf(ctx context.Context, project, generator string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, generator, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("write the manifest of %s's operator: %w: %s", project, err,
			strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// installation is a step of installing an operator: the objects to apply, and the kubectl commands that then wait, or
// do anything else, in the operator's namespace.
type installation struct {
	manifest string
	until    []string
}

// install runs one step after the other. Each command has that time limit.
func (d Delivery) install(ctx context.Context, namespace string, limit time.Duration, steps []installation) error {
	for _, step := range steps {
		if err := d.Cluster.Apply(ctx, []byte(step.manifest)); err != nil {
			return err
		}
		for _, until := range step.until {
			args := append(strings.Fields(until), "-n", namespace, "--timeout", limit.String())
			if _, err := d.Cluster.Run(ctx, nil, args...); err != nil {
				there, _ := d.Cluster.Run(ctx, nil, "-n", namespace, "get", "pods,events")
				return fmt.Errorf("%w\n%s", err, there)
			}
		}
	}
	return nil
}
