package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Run runs kubectl as the administrator and returns what it prints.
func (c Cluster) Run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.Kubectl(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Layout.Kubeconfig("admin"))
	cmd.Stdin = stdin
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out.Bytes(), nil
}

// Get reads one object or list into out.
func (c Cluster) Get(ctx context.Context, out any, args ...string) error {
	data, err := c.Run(ctx, nil, append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("read what kubectl get %s says: %w", strings.Join(args, " "), err)
	}
	return nil
}

// Apply applies manifests from the server's side.
func (c Cluster) Apply(ctx context.Context, manifests []byte) error {
	_, err := c.Run(ctx, bytes.NewReader(manifests), "apply", "--server-side", "--force-conflicts", "--field-manager",
		"virtflow-dev", "-f", "-")
	return err
}
