package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// standInProcesses are objects with the names and labels of KubeVirt's processes. IMAGE stands for their image.
//
//go:embed standins.yaml
var standInProcesses string

// settleTime limits each wait for what the tests require.
const settleTime = 2 * time.Minute

// testConfiguration changes the KubeVirt object for the tests: KubeVirt's default rollout strategy, and those feature
// gates of KubeVirt's own runs that virtflow has.
const testConfiguration = `{"spec":{"configuration":{"vmRolloutStrategy":"LiveUpdate",` +
	`"developerConfiguration":{"featureGates":["RebootPolicy","EnableVirtioFsStorageVolumes"]}}}}`

// cluster is the one that kubectl reaches.
type cluster struct {
	// namespace is the one that virtflow runs in.
	namespace string
	// image has a shell and ncat.
	image string
	// launcher is the launcher's image with the programs that the tests run in it.
	launcher string
	// spec is the KubeVirt object's before the run, as JSON, and launcherBefore the launcher's image.
	spec, launcherBefore string
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
	if err := isLocal(ctx); err != nil {
		return err
	}
	have, err := kubectl(ctx, "", "get", "customresourcedefinitions", "-o", "name")
	if err != nil {
		return err
	}
	manifest := strings.ReplaceAll(standInProcesses, "IMAGE", c.image)
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
	if err := awaitNamespaces(ctx); err != nil {
		return err
	}
	if err := labelControlPlane(ctx); err != nil {
		return err
	}
	if err := c.configure(ctx); err != nil {
		return err
	}
	if err := c.setLauncher(ctx, c.launcher); err != nil {
		return err
	}
	for _, until := range []string{"rollout status deployment/virt-operator",
		"rollout status daemonset/virt-handler",
		"wait kubevirt --all --for=condition=Available"} {
		args := append(strings.Fields(until), "-n", c.namespace, "--timeout="+settleTime.String())
		if _, err := kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// controlPlane is the label of nodes that the tests do not drain. They require one.
const controlPlane = "node-role.kubernetes.io/control-plane"

// labelControlPlane labels a node, until tidy. The local cluster's control plane runs on no node.
func labelControlPlane(ctx context.Context) error {
	node, err := kubectl(ctx, "", "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		return err
	}
	_, err = kubectl(ctx, "", "label", "--overwrite", "node", node, controlPlane+"=")
	return err
}

// launcherFlag begins the argument with the launcher's image.
const launcherFlag = "--launcher-image="

// setLauncher has the processes that know the image of new launchers take another one, and keeps what it was before the
// first call.
func (c *cluster) setLauncher(ctx context.Context, image string) error {
	names := []string{"deployment/virtflow-crdwatch", "deployment/virtflow-control-worker"}
	for _, name := range names {
		if err := c.setLauncherOf(ctx, name, image); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := kubectl(ctx, "", "-n", c.namespace, "rollout", "status", name,
			"--timeout="+settleTime.String()); err != nil {
			return err
		}
	}
	return nil
}

// setLauncherOf changes the argument of one deployment.
func (c *cluster) setLauncherOf(ctx context.Context, name, image string) error {
	const path = "/spec/template/spec/containers/0/args"
	out, err := kubectl(ctx, "", "-n", c.namespace, "get", name, "-o",
		"jsonpath={.spec.template.spec.containers[0].args}")
	if err != nil {
		return err
	}
	var args []string
	if err := json.Unmarshal([]byte(out), &args); err != nil {
		return fmt.Errorf("read the arguments of %s: %w", name, err)
	}
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, launcherFlag) })
	if i < 0 {
		return fmt.Errorf("%s has no argument %s", name, launcherFlag)
	}
	if c.launcherBefore == "" {
		c.launcherBefore = strings.TrimPrefix(args[i], launcherFlag)
	}
	patch := fmt.Sprintf(`[{"op":"replace","path":"%s/%d","value":%q}]`, path, i, launcherFlag+image)
	_, err = kubectl(ctx, "", "-n", c.namespace, "patch", name, "--type=json", "--patch="+patch)
	return err
}

// testNamespaces begins the names of the namespaces of KubeVirt's tests. Their preparation fails while one of an
// earlier run is there.
const testNamespaces = "namespace/kubevirt-test-"

// awaitNamespaces waits until the namespaces of an earlier run that ended early are gone.
func awaitNamespaces(ctx context.Context) error {
	out, err := kubectl(ctx, "", "get", "namespaces", "-o", "name")
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(strings.Fields(out), func(name string) bool {
		return !strings.HasPrefix(name, testNamespaces)
	})
	if len(left) == 0 {
		return nil
	}
	args := append([]string{"delete", "--ignore-not-found", "--timeout=" + endTime.String()}, left...)
	_, err = kubectl(ctx, "", args...)
	return err
}

// isLocal returns an error unless kubectl reaches an API server on this machine: a run changes the cluster, and starts
// privileged pods.
func isLocal(ctx context.Context) error {
	server, err := kubectl(ctx, "", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	if err != nil {
		return err
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list this machine's addresses: %w", err)
	}
	if !isOn(server, addresses) {
		return fmt.Errorf("the API server %q is not the local cluster's: run this with the environment of make env", server)
	}
	return nil
}

// isOn reports whether a URL's host is one of some addresses.
func isOn(server string, addresses []net.Addr) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	host := net.ParseIP(u.Hostname())
	return host != nil && slices.ContainsFunc(addresses, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(host)
	})
}

// configure changes the KubeVirt object, and keeps what it was.
func (c *cluster) configure(ctx context.Context) error {
	spec, err := kubectl(ctx, "", "-n", c.namespace, "get", "kubevirt", "kubevirt", "-o", "jsonpath={.spec}")
	if err != nil {
		return err
	}
	c.spec = spec
	return c.patch(ctx, "merge", testConfiguration)
}

// patch patches the KubeVirt object.
func (c *cluster) patch(ctx context.Context, kind, patch string) error {
	_, err := kubectl(ctx, "", "-n", c.namespace, "patch", "kubevirt", "kubevirt", "--type="+kind, "--patch="+patch)
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
	if c.launcherBefore != "" {
		if err := c.setLauncher(ctx, c.launcherBefore); err != nil {
			return err
		}
	}
	if c.spec != "" {
		if err := c.patch(ctx, "json", `[{"op":"replace","path":"/spec","value":`+c.spec+`}]`); err != nil {
			return err
		}
	}
	if _, err := kubectl(ctx, "", "label", "nodes", "--selector", controlPlane, controlPlane+"-"); err != nil {
		return err
	}
	for _, kinds := range []string{"deployments,daemonsets", "customresourcedefinitions"} {
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
