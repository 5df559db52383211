//go:build libvirt

package realtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirt"
)

// TestLibvirtTakesWhatIsBuilt has the image's libvirt read each golden domain: nothing of them is foreign to its
// schema, or to its QEMU. They are not started.
func TestLibvirtTakesWhatIsBuilt(t *testing.T) {
	golden, err := filepath.Glob("../domain/testdata/*.xml")
	require.NoError(t, err)
	require.NotEmpty(t, golden)
	p := newPod(t, vmi(nil))
	conn := p.connects()
	for _, file := range golden {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".xml"), func(t *testing.T) {
			document, err := os.ReadFile(file)
			require.NoError(t, err)
			d, err := conn.DomainDefineXMLFlags(withoutKVM(t, conn, string(document)), libvirt.DOMAIN_DEFINE_VALIDATE)
			require.NoError(t, err)
			defer d.Free() //nolint:errcheck // as elsewhere
			misspelt := strings.Replace(string(document), "<devices>", "<devices><diskk/>", 1)
			_, err = conn.DomainDefineXMLFlags(withoutKVM(t, conn, misspelt), libvirt.DOMAIN_DEFINE_VALIDATE)
			require.ErrorContains(t, err, "schemas/domain.rng", "the schema is looked at")
			require.NoError(t, d.UndefineFlags(libvirt.DOMAIN_UNDEFINE_NVRAM|libvirt.DOMAIN_UNDEFINE_TPM))
		})
	}
}

// withoutKVM makes a KVM guest's domain one that a libvirt without KVM can be asked about.
func withoutKVM(t *testing.T, conn *libvirt.Connect, document string) string {
	t.Helper()
	offered, err := conn.GetCapabilities()
	require.NoError(t, err)
	if strings.Contains(offered, "<domain type='kvm'") {
		return document
	}
	return strings.NewReplacer(
		`type="kvm"`, `type="qemu"`, `<cpu mode="host-passthrough"`, `<cpu mode="host-model"`).Replace(document)
}
