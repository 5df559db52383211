package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

//go:embed operator.yaml
var operator string

// settleTime limits each wait for what the tests require.
const settleTime = 2 * time.Minute

// rolloutStrategy is KubeVirt's default, which the tests rely on. virtflow's manifests set another one.
const rolloutStrategy = "LiveUpdate"

// cluster is the one that kubectl reaches.
type cluster struct {
	// namespace is the one that virtflow runs in.
	namespace string
	// rolloutStrategy is the one before the run.
	rolloutStrategy string
}

// kubectl runs kubectl and returns its output.
func kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out.String(), nil
}

// prepare makes what the tests require and virtflow does not have, until tidy, and waits until virtflow is available.
func (c *cluster) prepare(ctx context.Context) error {
	have, err := kubectl(ctx, "", "get", "customresourcedefinitions", "-o", "name")
	if err != nil {
		return err
	}
	manifest := operator
	wait := []string{"wait", "--for=condition=Established", "--timeout=" + settleTime.String()}
	lacking := missing(standIns(), have)
	for _, k := range lacking {
		definition, err := k.definition()
		if err != nil {
			return err
		}
		manifest += "---\n" + definition + "\n"
		wait = append(wait, "crd/"+k.name())
	}
	if _, err := kubectl(ctx, manifest, "-n", c.namespace, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	if len(lacking) > 0 {
		if _, err := kubectl(ctx, "", wait...); err != nil {
			return err
		}
	}
	if err := c.replaceRolloutStrategy(ctx); err != nil {
		return err
	}
	for _, until := range []string{"rollout status deployment/virt-operator",
		"wait kubevirt --all --for=condition=Available"} {
		args := append(strings.Fields(until), "-n", c.namespace, "--timeout="+settleTime.String())
		if _, err := kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// replaceRolloutStrategy sets KubeVirt's default, and keeps the strategy before.
func (c *cluster) replaceRolloutStrategy(ctx context.Context) error {
	before, err := kubectl(ctx, "", "-n", c.namespace, "get", "kubevirt", "kubevirt", "-o",
		"jsonpath={.spec.configuration.vmRolloutStrategy}")
	if err != nil {
		return err
	}
	c.rolloutStrategy = before
	return c.setRolloutStrategy(ctx, rolloutStrategy)
}

func (c *cluster) setRolloutStrategy(ctx context.Context, strategy string) error {
	patch := fmt.Sprintf(`{"spec":{"configuration":{"vmRolloutStrategy":%q}}}`, strategy)
	_, err := kubectl(ctx, "", "-n", c.namespace, "patch", "kubevirt", "kubevirt", "--type=merge", "--patch="+patch)
	return err
}

// missing returns the kinds whose definitions are not among the lines of have.
func missing(kinds []kind, have string) []kind {
	lines := strings.Split(have, "\n")
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		return slices.Contains(lines, "customresourcedefinition.apiextensions.k8s.io/"+k.name())
	})
}

// tidy undoes what prepare has done.
func (c *cluster) tidy(ctx context.Context) error {
	if c.rolloutStrategy != "" {
		if err := c.setRolloutStrategy(ctx, c.rolloutStrategy); err != nil {
			return err
		}
	}
	for _, kinds := range []string{"deployments", "customresourcedefinitions"} {
		_, err := kubectl(ctx, "", "-n", c.namespace, "delete", kinds, "--selector", standInLabel,
			"--timeout="+settleTime.String())
		if err != nil {
			return err
		}
	}
	return nil
}

// hasStorage reports whether the cluster has the StorageClass of make storage.
func (c *cluster) hasStorage(ctx context.Context) (bool, error) {
	out, err := kubectl(ctx, "", "get", "storageclass", sharedStorage, "--ignore-not-found", "-o", "name")
	return out != "", err
}
