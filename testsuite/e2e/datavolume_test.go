//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

func hasCDI(t *testing.T) bool {
	t.Helper()
	return kubectl(t, "get", "crd", "cdis.cdi.kubevirt.io", "--ignore-not-found", "-o", "name") != ""
}

// withCDI runs CDI, which fills the PVCs of DataVolumes, until the test ends.
func withCDI(t *testing.T) {
	t.Helper()
	if !hasCDI(t) {
		t.Cleanup(func() { dev(t, "cdi", "--off") }) // an earlier installation stays
	}
	dev(t, "cdi")
}

// serveFolder serves the files of a folder to pods until the test ends, and returns the address.
func serveFolder(t *testing.T, folder string) string {
	t.Helper()
	// Pods reach this machine at the address of the API server.
	api, err := url.Parse(kubectl(t, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"))
	require.NoError(t, err)
	listener, err := net.Listen("tcp", net.JoinHostPort(api.Hostname(), "0"))
	require.NoError(t, err)
	server := &http.Server{Handler: http.FileServer(http.Dir(folder)), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// onDataVolumes returns the manifest of a VM whose root disk CDI fetches from an address, and which has another disk
// with the content of the PVC "golden".
func (m *machine) onDataVolumes(address string) string {
	m.t.Helper()
	const last = "          - {name: cloudinit, disk: {bus: virtio}}\n"
	manifest := m.manifest("Always", "")
	for _, change := range [][2]string{
		{"        containerDisk: {image: \"" + image(m.t, "guest") + "\"}\n", "        dataVolume: {name: root}\n"},
		{"      volumes:\n", "      volumes:\n      - {name: data, dataVolume: {name: data}}\n"},
		{last, last + "          - {name: data, serial: data, disk: {bus: virtio}}\n"},
		{"  template:\n", fmt.Sprintf(`  dataVolumeTemplates:
  - metadata: {name: root}
    spec:
      source: {http: {url: "%s"}}
      storage: {resources: {requests: {storage: 128Mi}}}
  - metadata: {name: data}
    spec:
      source: {pvc: {namespace: %s, name: golden}}
      storage: {volumeMode: Filesystem, resources: {requests: {storage: 64Mi}}}
  template:
`, address, m.namespace)},
	} {
		require.Equal(m.t, 1, strings.Count(manifest, change[0]), change[0])
		manifest = strings.Replace(manifest, change[0], change[1], 1)
	}
	return manifest
}

// phase checks that CDI has set a phase of a DataVolume.
func (m *machine) phase(name, want string) func() error {
	return func() error {
		out, err := try("-n", m.namespace, "get", "dv", name, "-o", "jsonpath={.status.phase}")
		if err == nil && out != want {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	}
}

// TestDataVolume: CDI itself fills a VM's disks, one from a server and one from another PVC. At first the server has no
// such file: the VM has the reason in a condition, continues by itself once the file exists, and then waits for the
// PVC, which is created last. The guest boots from one disk and reads the content of the other. The VM's deletion
// deletes its DataVolumes and their PVCs.
func TestDataVolume(t *testing.T) {
	suite.TakeTurn(t, 0)
	withCDI(t)
	m := &machine{t: t, namespace: newNamespace(t), name: "filled", taps: taps()}
	folder := t.TempDir()
	address := serveFolder(t, folder)
	apply(t, m.onDataVolumes(address+"/disk.img"))
	until(t, bootTime, "the VM has the reason for which its disk cannot be filled", func() error {
		vm, err := m.vm()
		if err != nil {
			return err
		}
		for _, c := range vm.Status.Conditions {
			if c.Type == "Failure" && c.Reason == "FailedDataVolumeImport" && strings.Contains(c.Message, "404") &&
				vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusDataVolumeError {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %+v", vm.Status.PrintableStatus, vm.Status.Conditions)
	})
	until(t, time.Minute, "the other DataVolume reports that its source does not exist", func() error {
		out, err := try("-n", m.namespace, "get", "events", "-o",
			"jsonpath={range .items[*]}{.reason} {.message}{'\\n'}{end}")
		if err == nil && !strings.Contains(out, "CloneWithoutSource ") {
			err = fmt.Errorf("events: %s", out)
		}
		return err
	})

	require.NoError(t, os.Rename(guestDisk(t), filepath.Join(folder, "disk.img")))
	// The kubelet's back-off grows with each failure of the importer.
	until(t, 2*bootTime, "the root disk is filled", m.phase("root", "Succeeded"))
	m.untilStatus(string(kubevirt.VirtualMachineStatusProvisioning))
	_, err := m.vmi()
	require.ErrorContains(t, err, "not found", "the guest waits for all its disks")

	note := filepath.Join(folder, "note.img")
	require.NoError(t, os.WriteFile(note, []byte("of the source\n"), 0o600))
	require.NoError(t, os.Truncate(note, 1<<20))
	apply(t, fmt.Sprintf(`
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: golden
  namespace: %s
spec:
  source: {http: {url: "%s/note.img"}}
  storage: {volumeMode: Filesystem, resources: {requests: {storage: 64Mi}}}
`, m.namespace, address))
	m.untilBooted()
	require.NoError(t, m.phase("data", "Succeeded")())
	m.untilAgentAnswers()
	require.Equal(t, "of the source", strings.TrimSpace(m.runByAgent(bySerial+"head -n 1 /dev/$(d data)")))

	m.remove()
	until(t, time.Minute, "only objects that are not the VM's are left", func() error {
		out, err := try("-n", m.namespace, "get", "dv,pvc", "-o", "name")
		if left := strings.Fields(out); err == nil && (len(left) != 2 || strings.Count(out, "/golden") != 2) {
			err = fmt.Errorf("there are %v", left)
		}
		return err
	})
}
