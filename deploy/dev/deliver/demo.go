package deliver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/cluster"
	"github.com/virtflow/virtflow/deploy/dev/layout"
)

const (
	// demoManifest is the manifest of the demonstration's virtual machine.
	demoManifest = "deploy/examples/vm-demo.yaml"
	// guestMarker begins the line that the test guest writes to its serial console when it is up.
	guestMarker = "virtflow-guest ready"
	// demoTime is how long the machine may take from its creation to the marker.
	demoTime = 3 * time.Minute
	// vmLabel has the name of a launcher pod's VMI.
	vmLabel = "vm.kubevirt.io/name"
)

type virtualMachine struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Status struct {
		PrintableStatus string `json:"printableStatus"`
		Conditions      []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// Demo applies the example of a virtual machine, waits until its guest is up, and shows where to look.
func (d Delivery) Demo(ctx context.Context) error {
	manifest := filepath.Join(d.Cluster.Layout.Repo, demoManifest)
	d.printLine("Applying %s.", demoManifest)
	start := time.Now()
	// If the machine was halted meanwhile, it must run now.
	if _, err := d.Cluster.Run(ctx, nil, "apply", "--server-side", "--force-conflicts", "-f", manifest); err != nil {
		return err
	}
	vm, err := d.demoMachine(ctx, manifest)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	if err := cluster.Until(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		return d.checkRunning(ctx, &vm)
	}); err != nil {
		return fmt.Errorf("the virtual machine %s does not get to Running: %w\n%s", vm.Metadata.Name, err, d.story(vm))
	}
	d.printLine("  %5.1f s  the virtual machine is Running", time.Since(start).Seconds())
	var line string
	if err := cluster.Until(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		line, err = d.guestUp(ctx, vm)
		return err
	}); err != nil {
		return fmt.Errorf("the guest of %s does not come up: %w\n%s", vm.Metadata.Name, err, d.story(vm))
	}
	d.printLine("  %5.1f s  the guest says on its serial line: %s", time.Since(start).Seconds(), line)
	return d.printMachine(ctx, vm)
}

// demoMachine is the VM in the manifest as the apiserver knows it.
func (d Delivery) demoMachine(ctx context.Context, manifest string) (virtualMachine, error) {
	var got struct {
		virtualMachine
		Items []virtualMachine `json:"items"`
	}
	if err := d.Cluster.Get(ctx, &got, "-f", manifest); err != nil {
		return virtualMachine{}, err
	}
	for _, vm := range append(got.Items, got.virtualMachine) {
		if vm.Kind == "VirtualMachine" {
			return vm, nil
		}
	}
	return virtualMachine{}, fmt.Errorf("%s has no VirtualMachine", demoManifest)
}

// checkRunning reads the machine, and fails unless it is Running.
func (d Delivery) checkRunning(ctx context.Context, vm *virtualMachine) error {
	if err := d.Cluster.Get(ctx, vm, "-n", vm.Metadata.Namespace, "virtualmachine", vm.Metadata.Name); err != nil {
		return err
	}
	if vm.Status.PrintableStatus != "Running" {
		return fmt.Errorf("its status is %q", vm.Status.PrintableStatus)
	}
	return nil
}

// guestUp returns the line by which the guest reports that it is up. It reads the serial log where the pod writes it:
// on its node.
func (d Delivery) guestUp(ctx context.Context, vm virtualMachine) (string, error) {
	var pods podList
	if err := d.Cluster.Get(ctx, &pods, "-n", vm.Metadata.Namespace, "pods", "-l",
		vmLabel+"="+vm.Metadata.Name); err != nil {
		return "", err
	}
	for _, p := range pods.Items {
		n, err := layout.NodeNamed(p.Spec.NodeName)
		if err != nil {
			continue
		}
		private := d.Cluster.Layout.Dir(n, "kubelet", "pods", p.Metadata.UID, "volumes", "kubernetes.io~empty-dir",
			"private")
		logs, _ := filepath.Glob(filepath.Join(private, "*serial*log*"))
		for _, log := range logs {
			data, err := os.ReadFile(log)
			if err != nil {
				continue
			}
			if line, ok := markerLine(data); ok {
				return line, nil
			}
		}
	}
	return "", fmt.Errorf("no serial log of its pods (%d) has %q yet", len(pods.Items), guestMarker)
}

// markerLine finds the last line with the marker: a guest may boot more than once.
func markerLine(log []byte) (string, bool) {
	i := bytes.LastIndex(log, []byte(guestMarker))
	if i < 0 {
		return "", false
	}
	line, _, _ := strings.Cut(string(log[i:]), "\n")
	return strings.TrimSpace(line), true
}

// printMachine prints the machine's objects, and what to try next.
func (d Delivery) printMachine(ctx context.Context, vm virtualMachine) error {
	out, err := d.Cluster.Run(ctx, nil, "-n", vm.Metadata.Namespace, "get", "vm,vmi,pods", "-o", "wide")
	if err != nil {
		return err
	}
	d.printLine("\n$ kubectl -n %s get vm,vmi,pods -o wide\n%s", vm.Metadata.Namespace, out)
	d.printLine("%s", nextSteps(vm.Metadata.Namespace, vm.Metadata.Name))
	return nil
}

// nextSteps returns commands to try with the running machine.
func nextSteps(namespace, name string) string {
	return fmt.Sprintf(`Where to look next:
  eval "$(make env)"                     kubectl, and Temporal's clients, on this cluster
  http://%[1]s/namespaces/%[2]s/workflows/vm%%2F%[3]s%%2F%[4]s    its story in Temporal's web interface
  make tools && virtctl -n %[3]s migrate %[4]s    its guest moves to the other node and runs on
  kubectl -n %[3]s patch vm %[4]s --type merge -p '{"spec":{"runStrategy":"Halted"}}'    an orderly shutdown
  make status                            every process, and where its log is
The demonstration has succeeded: the virtual machine %[3]s/%[4]s runs.`,
		layout.UI, layout.TemporalNamespace, namespace, name)
}

// story returns the status of a machine that does not become ready.
func (d Delivery) story(vm virtualMachine) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var text strings.Builder
	for _, args := range [][]string{
		{"get", "vm,vmi,pods", "-o", "wide"},
		{"get", "events", "--sort-by", ".lastTimestamp"},
	} {
		out, err := d.Cluster.Run(ctx, nil, append([]string{"-n", vm.Metadata.Namespace}, args...)...)
		if err != nil {
			out = []byte(err.Error() + "\n")
		}
		text.Write(out)
	}
	for _, c := range vm.Status.Conditions {
		fmt.Fprintf(&text, "condition %s=%s %s %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	text.WriteString(d.diagnosis())
	return text.String()
}
