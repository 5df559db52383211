//go:build e2e

package e2e

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestClusterAPI: Cluster API and its provider for KubeVirt make a cluster of two VMs. When the worker's pod is to be
// evicted, the provider drains the worker's node in that cluster, and deletes the instance. The VM then runs on another
// node, as the same machine. A machine that is scaled away leaves nothing, and neither does the deleted cluster.
func TestClusterAPI(t *testing.T) {
	suite.TakeTurn(t, 1)
	untilHealthy(t)
	provider := startClusterAPI(t)
	c := newWorkloadCluster(t)
	control, worker := c.machine("workload-control-plane"), c.machine(c.worker())
	c.untilReady(control, "workload-control-plane")
	c.untilReady(worker, "workload-workers")
	address := control.mustVMI().Status.Interfaces[0].IP
	until(t, time.Minute, "the Service of the control plane leads to its machine", func() error {
		out, err := try("-n", c.namespace, "get", "endpointslice", "-l", "kubernetes.io/service-name=workload-lb", "-o",
			"jsonpath={.items[*].endpoints[*].addresses[*]}")
		if err == nil && out != address {
			err = fmt.Errorf("it leads to %q instead of %s", out, address)
		}
		return err
	})
	c.join(control)
	c.join(worker)

	before, log := worker.mustVMI(), worker.follow()
	bystander(t, c.namespace, worker.name, "workload")
	c.evict(worker, before.Status.NodeName)
	require.Contains(t, provider.String(), "Drain successful")
	require.Equal(t, "true", kubectl(t, "get", "node", worker.name, "-o", "jsonpath={.spec.unschedulable}"))
	_, err := try("-n", c.namespace, "get", "pod", "bystander")
	require.ErrorContains(t, err, "not found")
	<-log.done
	require.Contains(t, log.String(), "guest: clean shutdown")
	after := worker.untilReplaced(before)
	require.NotEqual(t, before.Status.NodeName, after.Status.NodeName)
	c.untilReady(worker, "workload-workers")
	kubectl(t, "uncordon", before.Status.NodeName)

	c.kubectl("scale", "machinedeployment", "workload-workers", "--replicas=0")
	c.untilGone(worker.name)
	_, err = try("get", "node", worker.name)
	require.ErrorContains(t, err, "not found")
	c.kubectl("delete", "cluster", "workload", "--timeout=110s")
	c.untilGone("")
}

// workloadManifest is the cluster, and workloadMachine the spec of its machines.
var (
	//go:embed testdata/workloadcluster.yaml
	workloadManifest string
	workloadMachine  = `{virtualMachineBootstrapCheck: {checkStrategy: none}, virtualMachineTemplate: {spec: {` +
		`runStrategy: Always, template: {spec: {evictionStrategy: External, terminationGracePeriodSeconds: 60, ` +
		`domain: {cpu: {cores: 1}, memory: {guest: 128Mi}, devices: {disks: [{name: root, disk: {bus: virtio}}], ` +
		`interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}], ` +
		`volumes: [{name: root, containerDisk: {image: "IMAGE"}}]}}}}}`
)

// workloadLabel is on the nodes that a test has created, with its namespace.
const workloadLabel = "e2e.virtflow.io/workload"

// workloadCluster is Cluster API's cluster "workload". Its guests run no Kubernetes: its kubeconfig is of the cluster
// that runs the VMs, and there the test creates the nodes of the machines.
type workloadCluster struct {
	t         *testing.T
	namespace string
}

func newWorkloadCluster(t *testing.T) workloadCluster {
	t.Helper()
	c := workloadCluster{t: t, namespace: newNamespace(t)}
	t.Cleanup(c.cleanUp)
	config := kubectl(t, "config", "view", "--raw", "--flatten", "--minify")
	manifest := strings.NewReplacer("MACHINE", strings.ReplaceAll(workloadMachine, "IMAGE", image(t, "guest")),
		"KUBECONFIG", base64.StdEncoding.EncodeToString([]byte(config))).Replace(workloadManifest)
	until(t, time.Minute, "the managers' webhooks answer", func() error {
		_, err := tryWith(manifest, "-n", c.namespace, "apply", "--server-side", "-f", "-")
		return err
	})
	return c
}

// cleanUp deletes what a failed test has left, after logging it, while the managers still run.
func (c workloadCluster) cleanUp() {
	if c.t.Failed() {
		out, err := try("-n", c.namespace, "get", "cluster-api", "-o", "yaml")
		c.t.Logf("Cluster API's objects: %v\n%s", err, out)
	}
	for _, args := range [][]string{
		{"-n", c.namespace, "delete", "cluster", "workload", "--ignore-not-found", "--timeout=110s"},
		{"delete", "node", "-l", workloadLabel + "=" + c.namespace, "--timeout=60s"},
	} {
		if _, err := try(args...); err != nil {
			c.t.Error(err)
		}
	}
}

func (c workloadCluster) kubectl(args ...string) {
	c.t.Helper()
	kubectl(c.t, append([]string{"-n", c.namespace}, args...)...)
}

// machine returns the VM of a Machine, which has its name.
func (c workloadCluster) machine(name string) *machine {
	return &machine{t: c.t, namespace: c.namespace, name: name}
}

// worker returns the name of the only worker.
func (c workloadCluster) worker() (name string) {
	c.t.Helper()
	until(c.t, time.Minute, "the MachineDeployment has a Machine", func() (err error) {
		name, err = try("-n", c.namespace, "get", "machine", "-l",
			"cluster.x-k8s.io/deployment-name=workload-workers", "-o", "jsonpath={.items[*].metadata.name}")
		if err == nil && len(strings.Fields(name)) != 1 {
			err = fmt.Errorf("it has %q", name)
		}
		return err
	})
	return name
}

// untilField waits for the value of a field, or fields, of an object.
func (c workloadCluster) untilField(kind, name, path, want string) {
	c.t.Helper()
	until(c.t, time.Minute, fmt.Sprintf("%s %s has %q as %s", kind, name, want, path), func() error {
		out, err := try("-n", c.namespace, "get", kind, name, "-o", "jsonpath="+path)
		if err == nil && out != want {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
}

// untilReady waits until a machine's guest has applied the bootstrap data of a Secret, and the provider knows of the
// machine what Cluster API asks for.
func (c workloadCluster) untilReady(m *machine, secret string) {
	c.t.Helper()
	vmi := m.untilBooted()
	require.Contains(c.t, m.console(), "bootstrapped by "+secret)
	c.untilField("kubevirtmachine", m.name,
		`{.spec.providerID} {.status.ready} {.status.addresses[?(@.type=="InternalIP")].address}`,
		"kubevirt://"+m.name+" true "+strings.Join(vmi.Status.Interfaces[0].IPs, " "))
	c.untilField("kubevirtmachine", m.name, `{.status.conditions[?(@.status=="True")].type}`,
		"Ready BootstrapExecSucceeded VMLiveMigratable VMProvisioned")
}

// join creates a machine's node, as a kubelet in its guest would. Both managers find it.
func (c workloadCluster) join(m *machine) {
	c.t.Helper()
	c.untilField("machine", m.name, "{.status.phase}", "Provisioned")
	apply(c.t, fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s: %s}}}", m.name,
		workloadLabel, c.namespace))
	c.untilField("node", m.name, "{.spec.providerID}", "kubevirt://"+m.name)
	c.untilField("machine", m.name, "{.status.phase} {.status.nodeRef.name}", "Running "+m.name)
}

// evict drains a node of the cluster that runs the VMs, but only of the machine's pod, and waits until that is gone.
func (c workloadCluster) evict(m *machine, node string) {
	c.t.Helper()
	uncordon(c.t, node)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
		"--force", "--pod-selector", "vm.kubevirt.io/name="+m.name).CombinedOutput()
	require.NoError(c.t, err, "%s\n%s", out, landscape())
	require.Contains(c.t, string(out),
		fmt.Sprintf("Eviction triggered evacuation of VMI \"%s/%s\"", m.namespace, m.name))
}

// untilGone waits until no object is left that has part in its name, but for the Secrets that the test has created.
func (c workloadCluster) untilGone(part string) {
	c.t.Helper()
	own := []string{"secret/workload-kubeconfig", "secret/workload-control-plane", "secret/workload-workers"}
	until(c.t, 2*time.Minute, "nothing is left", func() error {
		out, err := try("-n", c.namespace, "get", "cluster-api,vm,vmi,pods,services,secrets,controllerrevisions", "-o",
			"name")
		left := slices.DeleteFunc(strings.Fields(out), func(o string) bool {
			return !strings.Contains(o, part) || slices.Contains(own, o)
		})
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("still there: %v", left)
		}
		return err
	})
}
