//go:build e2e

package e2e

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

const (
	// examplesOf is the module with the examples, and examplesSum its sum in Go's checksum database.
	examplesOf  = "kubevirt.io/kubevirt@" + contract.KubeVirtVersion
	examplesSum = "h1:eauQfI39dRALNciMIQtR7UsbTUjUft5V6IBO57Icl/k="
	// examplesPage has their table. It is written if examplesEnv is set, else compared.
	examplesPage = "../../docs/examples.md"
	examplesEnv  = "VIRTFLOW_WRITE_EXAMPLES"
	// exampleTime is the limit for one example: some boot with UEFI, several at a time.
	exampleTime = 4 * bootTime
	// settles is how long an instance must keep the same reason to count as one that waits.
	settles = 15 * time.Second
)

// Verdicts on an example.
const (
	verdictRuns    = "runs"
	verdictMade    = "made"
	verdictWaits   = "waits"
	verdictRefused = "refused"
)

// verdict has the outcome of an example, and why it does not run.
type verdict struct{ what, why string }

// TestKubeVirtExamples applies each manifest that KubeVirt publishes as an example, with the test guest's image instead
// of theirs, starts what is halted, and compares the outcome with the table in docs. PVCs that they name have the same
// guest on their disks, and networks that any node can provide exist.
func TestKubeVirtExamples(t *testing.T) {
	suite.TakeTurn(t, 2)
	page, err := os.ReadFile(examplesPage)
	if write := os.Getenv(examplesEnv) != ""; errors.Is(err, fs.ErrNotExist) && !write {
		t.Skipf("%s is not written yet: run with %s=1", examplesPage, examplesEnv)
	} else if !write {
		require.NoError(t, err)
	}
	all, err := filepath.Glob(filepath.Join(examples(t), "*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(all), 40)
	require.False(t, hasCDI(t), "the table is that of a cluster without CDI: make cdi OFF=1 first")
	disk := guestDisk(t)
	withMultus(t)
	// Other examples refer to it.
	require.NoError(t, example{file: all[0]}.beside("non-preemtible.yaml").apply(t, "default"))
	t.Cleanup(func() { // cluster-scoped objects
		_, _ = try("delete", "priorityclass", "preemtible", "non-preemtible", "--ignore-not-found")
		_, _ = try("delete", "migrationpolicy", "example-migration-policy", "--ignore-not-found")
	})
	var mu sync.Mutex
	verdicts := map[string]verdict{}
	t.Run("each", func(t *testing.T) {
		for _, file := range all {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
				t.Parallel()
				v := example{file: file, disk: disk}.outcome(t)
				mu.Lock()
				defer mu.Unlock()
				verdicts[filepath.Base(file)] = v
			})
		}
	})
	require.Len(t, verdicts, len(all))
	if os.Getenv(examplesEnv) != "" {
		require.NoError(t, os.WriteFile(examplesPage, []byte(written(all, verdicts)), 0o644))
		return
	}
	require.Equal(t, rows(written(all, verdicts)), rows(string(page)), "run with "+examplesEnv+"=1")
}

// examples returns the folder of KubeVirt's examples: a part of its Go module.
func examples(t *testing.T) string {
	t.Helper()
	folder, sum := download(t, t.TempDir(), examplesOf) // outside this module
	require.Equal(t, examplesSum, sum)
	return filepath.Join(folder, "examples")
}

// example is one file.
type example struct{ file, disk string }

var (
	foreignImage = regexp.MustCompile(`registry:5000/kubevirt/[a-z-]+:devel`)
	claimName    = regexp.MustCompile(`claimName: (disk-[a-z]+)`)
	networkName  = regexp.MustCompile(`networkName: ptp-conf`)
)

// manifest returns the example with the test guest's image, kernel and initramfs.
func (e example) manifest(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(e.file)
	require.NoError(t, err)
	text := foreignImage.ReplaceAllString(string(b), image(t, "guest"))
	ours := strings.NewReplacer("/boot/initramfs-virt", "/boot/initrd", "/boot/vmlinuz-virt", "/boot/vmlinuz")
	return ours.Replace(text)
}

// beside returns another example of the same folder.
func (e example) beside(name string) example {
	return example{file: filepath.Join(filepath.Dir(e.file), name), disk: e.disk}
}

func (e example) apply(t *testing.T, namespace string) error {
	t.Helper()
	_, err := tryWith(e.manifest(t), "-n", namespace, "apply", "-f", "-")
	return err
}

// outcome applies the example in a namespace of its own, and waits for its verdict.
func (e example) outcome(t *testing.T) verdict {
	t.Helper()
	namespace := newNamespace(t)
	switch filepath.Base(e.file) {
	case "migration-job.yaml": // it migrates that instance
		require.Equal(t, verdict{what: verdictRuns}, e.beside("vmi-migratable.yaml").in(t, namespace))
	case "vmi-dra-pgpu.yaml": // it refers to that one
		require.NoError(t, e.beside("pgpu-resource-claim-tmpl.yaml").apply(t, namespace))
	}
	for _, found := range claimName.FindAllStringSubmatch(e.manifest(t), -1) {
		claimWith(t, namespace, found[1], "64Mi", e.disk)
	}
	if networkName.MatchString(e.manifest(t)) {
		networkOf(t, namespace, "ptp-conf", `{"cniVersion": "0.4.0", "type": "ptp", "ipam": {"type": "host-local", `+
			`"subnet": "10.78.0.0/24"}}`)
	}
	v := e.in(t, namespace)
	v.why = strings.ReplaceAll(v.why, namespace, "default") // as users have it
	t.Logf("%s %s", v.what, v.why)
	return v
}

func (e example) in(t *testing.T, namespace string) verdict {
	t.Helper()
	if err := e.apply(t, namespace); err != nil {
		return verdict{what: verdictRefused, why: answer(err)}
	}
	objects := yaml.NewYAMLOrJSONDecoder(strings.NewReader(e.manifest(t)), 4096)
	out := verdict{what: verdictMade}
	for {
		var o unstructured.Unstructured
		if err := objects.Decode(&o); errors.Is(err, io.EOF) {
			return out
		} else {
			require.NoError(t, err)
		}
		switch o.GetKind() {
		case "VirtualMachine":
			if s, _, _ := unstructured.NestedString(o.Object, "spec", "runStrategy"); s == "Halted" {
				m := machine{t: t, namespace: namespace, name: o.GetName()}
				if _, err := m.put(vms, "start", "{}"); err != nil {
					return verdict{what: verdictRefused, why: answer(err)}
				}
			}
			out = exampleBoots(t, namespace, o.GetName())
		case "VirtualMachineInstance":
			out = exampleBoots(t, namespace, o.GetName())
		case "VirtualMachineInstanceReplicaSet":
			until(t, exampleTime, "all replicas are ready", func() error {
				said, err := try("-n", namespace, "get", "vmirs", o.GetName(), "-o",
					"jsonpath={.spec.replicas} {.status.readyReplicas}")
				if f := strings.Fields(said); err == nil && (len(f) != 2 || f[0] != f[1]) {
					err = fmt.Errorf("%q", said)
				}
				return err
			})
			out = verdict{what: verdictRuns}
		case "VirtualMachineInstanceMigration":
			until(t, exampleTime, "the migration has succeeded", func() error {
				said, err := try("-n", namespace, "get", "vmim", o.GetName(), "-o", "jsonpath={.status.phase}")
				if err == nil && said != string(kubevirt.MigrationSucceeded) {
					err = fmt.Errorf("%q", said)
				}
				return err
			})
			out = verdict{what: verdictRuns}
		}
	}
}

// exampleBoots waits until an instance's guest is up, or has waited long enough for the same reason.
func exampleBoots(t *testing.T, namespace, name string) (out verdict) {
	t.Helper()
	m := machine{t: t, namespace: namespace, name: name}
	said, since := "", time.Now()
	until(t, exampleTime, name+" runs, or has a reason why it waits", func() error {
		vmi, err := m.vmi()
		if err == nil && vmi.Status.Phase == kubevirt.Running && strings.Contains(guestLog(m), marker) {
			out = verdict{what: verdictRuns}
			return nil
		}
		why := m.waitsFor()
		if why != said {
			said, since = why, time.Now()
		}
		if why != "" && time.Since(since) > settles {
			out = verdict{what: verdictWaits, why: why}
			return nil
		}
		return fmt.Errorf("its reason is %q; %s", why, tail(guestLog(m), 5))
	})
	return out
}

// guestLog returns the guest's serial output from the log of the launchers of an instance without a VM's labels.
func guestLog(m machine) string {
	vmi, err := m.vmi()
	if err != nil {
		return ""
	}
	out, _ := try("-n", m.namespace, "logs", "-l", "kubevirt.io/created-by="+string(vmi.UID), "-c", "compute",
		"--tail=-1")
	return out
}

// waitsFor returns the reason in the conditions of the instance or its VM for which it does not run yet.
func (m machine) waitsFor() string {
	if vmi, err := m.vmi(); err == nil {
		for _, c := range vmi.Status.Conditions {
			hasReason := slices.Contains([]string{"PodScheduled", "DataVolumesReady", "Synchronized"}, string(c.Type))
			if hasReason && c.Status == "False" && c.Message != "" {
				return c.Message
			}
		}
	}
	if vm, err := m.vm(); err == nil {
		for _, c := range vm.Status.Conditions {
			if c.Type == kubevirt.VirtualMachineFailure && c.Status == "True" {
				return c.Message
			}
		}
	}
	return ""
}

var (
	prefix = regexp.MustCompile(`(?s)^.*?(exit status \d+: |denied the request: |The request is invalid: |error: |` +
		`Error from server[^:]*: |error when creating "STDIN": )`)
	spaces = regexp.MustCompile(`\s+`)
)

// answer returns the API server's message, without the client's prefix.
func answer(err error) string {
	text := spaces.ReplaceAllString(err.Error(), " ")
	for prefix.MatchString(text) {
		text = prefix.ReplaceAllString(text, "")
	}
	return strings.TrimSpace(text)
}

// pageBegins is the text before the table.
//
//go:embed testdata/examples.md
var pageBegins string

const tableBegins = "| manifest | verdict | why |\n|---|---|---|\n"

// written returns the page with the table of these verdicts.
func written(files []string, verdicts map[string]verdict) string {
	var b strings.Builder
	b.WriteString(pageBegins + tableBegins)
	for _, file := range files {
		name := filepath.Base(file)
		v := verdicts[name]
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, v.what, strings.ReplaceAll(v.why, "|", "\\|"))
	}
	return b.String()
}

// rows returns the manifests of a page with their verdicts, without the reasons, which vary: a scheduler counts its
// nodes.
func rows(page string) []string {
	_, table, _ := strings.Cut(page, tableBegins)
	var out []string
	for line := range strings.Lines(table) {
		if f := strings.Split(line, " | "); len(f) > 1 {
			out = append(out, f[0]+" | "+f[1])
		}
	}
	return out
}
