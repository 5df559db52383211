//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// networkOf creates a network of Multus with that configuration.
func networkOf(t *testing.T, namespace, name, config string) {
	t.Helper()
	apply(t, fmt.Sprintf("{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: %s, "+
		"namespace: %s}, spec: {config: '%s'}}", name, namespace, config))
}

// onFurtherNetworks applies the VM with interfaces on further networks ("name" or "name, field of the interface:
// value"; a bridge unless a binding plugin is among them), and a guest that runs these commands at boot.
func (m *machine) onFurtherNetworks(extra string, networks, commands []string) {
	m.t.Helper()
	manifest := m.manifest("Always", extra)
	add := func(after, line string) {
		require.Equal(m.t, 1, strings.Count(manifest, after), after)
		manifest = strings.Replace(manifest, after, after+line, 1)
	}
	for i := len(networks) - 1; i >= 0; i-- {
		name, fields, _ := strings.Cut(networks[i], ",")
		if !strings.Contains(fields, "binding:") {
			fields += ", bridge: {}"
		}
		add("          - {name: default, masquerade: {}}\n",
			fmt.Sprintf("          - {name: %s, %s}\n", name, strings.TrimPrefix(fields, ",")))
		add("      - {name: default, pod: {}}\n",
			fmt.Sprintf("      - {name: %s, multus: {networkName: %[1]s}}\n", name))
	}
	const user = "            chpasswd: {expire: false}\n"
	add(user, "            runcmd:\n            - "+strings.Join(commands, "\n            - ")+"\n")
	apply(m.t, manifest)
}

// nic is an interface in an instance's status.
type nic = kubevirt.VirtualMachineInstanceNetworkInterface

// interfaceNamed returns an interface in the status.
func interfaceNamed(vmi *kubevirt.VirtualMachineInstance, name string) (nic, error) {
	for _, f := range vmi.Status.Interfaces {
		if f.Name == name {
			return f, nil
		}
	}
	return nic{}, fmt.Errorf("the status has no interface %s: %+v", name, vmi.Status.Interfaces)
}

// withMultus installs Multus until the test ends.
func withMultus(t *testing.T) {
	t.Helper()
	_, err := os.Stat(filepath.Join(nodeState(t), "nodes/node1/cni-net.d/00-multus.conf"))
	dev(t, "multus")
	if err != nil { // an earlier installation stays
		t.Cleanup(func() { dev(t, "multus", "--off") })
	}
}

// TestSecondaryNetworks: a guest has two networks of Multus beside the pod's own: one on which it sets its address
// itself, and one whose plugin assigns an address, which the guest requests by DHCP. It keeps both when it moves to
// another node, and there it reaches the other guest on that network. The link of a third interface is down. A binding
// plugin connects a fourth, whose address the guest sets itself.
func TestSecondaryNetworks(t *testing.T) {
	suite.TakeTurn(t, 6)
	untilHealthy(t)
	withMultus(t)
	configured(t, `{"configuration": {"network": {"binding": {"l2": {"domainAttachmentType": "managedTap"}}}}}`)
	t.Cleanup(func() { configured(t, `{"configuration": {"network": {"binding": null}}}`) })
	m := &machine{t: t, namespace: newNamespace(t), name: "both", taps: taps()}
	// A bridge on each node, which nothing joins: guests reach each other only on one node.
	for name, config := range map[string]string{
		"lan": `{"cniVersion": "0.4.0", "type": "bridge", "bridge": "lan-e2e"}`,
		"served": `{"cniVersion": "0.4.0", "type": "bridge", "bridge": "served-e2e", "ipam": {"type": "host-local", ` +
			`"subnet": "10.77.0.0/24"}}`,
		"dark":    `{"cniVersion": "0.4.0", "type": "bridge", "bridge": "dark-e2e"}`,
		"plugged": `{"cniVersion": "0.4.0", "type": "bridge", "bridge": "plugged-e2e"}`,
	} {
		networkOf(t, m.namespace, name, config)
	}
	m.onFurtherNetworks("", []string{"lan", "served", "dark, state: down", "plugged, binding: {name: l2}"}, []string{
		"ip addr add 192.168.77.1/24 dev eth1", "ip link set eth1 up", "ip link set eth3 up",
		"ip addr add 192.168.78.1/24 dev eth4", "ip link set eth4 up",
		"udhcpc -b -S -i eth2 -t 5 -T 1 -A 2 -s /usr/lib/guest/dhcp"})
	vmi := m.untilBooted()
	elsewhere := m.otherNode()

	var lan, served nic
	shown := func() (err error) {
		if vmi, err = m.vmi(); err != nil {
			return err
		}
		if lan, err = interfaceNamed(vmi, "lan"); err != nil {
			return err
		}
		if served, err = interfaceNamed(vmi, "served"); err != nil {
			return err
		}
		if lan.IP != "192.168.77.1" || !strings.HasPrefix(served.IP, "10.77.0.") {
			return fmt.Errorf("lan is %+v, served %+v", lan, served)
		}
		return nil
	}
	until(t, 2*time.Minute, "the guest's addresses are in the status", shown)
	require.Equal(t, "eth1", lan.InterfaceName)
	require.Equal(t, "eth2", served.InterfaceName)
	given := m.kubectl("get", "pod", m.pod(), "-o",
		`jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}`)
	require.Contains(t, given, `"`+served.IP+`"`, "DHCP hands out what the plugin gave")
	m.untilAgentAnswers()
	require.Equal(t, "1\n0\n", m.runByAgent("cat /sys/class/net/eth1/carrier /sys/class/net/eth3/carrier"))

	other := &machine{t: t, namespace: m.namespace, name: "other", taps: m.taps}
	other.onFurtherNetworks("      nodeSelector: {kubernetes.io/hostname: "+elsewhere+"}", []string{"lan", "plugged"}, []string{
		"ip addr add 192.168.77.2/24 dev eth1", "ip link set eth1 up",
		"ip addr add 192.168.78.2/24 dev eth2", "ip link set eth2 up"})
	other.untilBooted()
	pages := []string{"/cgi-bin/fetch?192.168.77.2:80", "/cgi-bin/fetch?192.168.78.2:80"}
	apart := m.fromPod("apart", fetchCommand(vmi.Status.Interfaces[0].IP, 80, pages[0]))
	require.Contains(t, apart, "200 OK", "the guest itself answers")
	require.NotContains(t, apart, "hello from other", "they are on different nodes")

	before := []string{lan.MAC, served.MAC, served.IP}
	(&virtctl{t, m.namespace}).mustRun("migrate", m.name)
	require.Equal(t, elsewhere, m.untilMigrated().Status.NodeName)
	m.onePod()
	until(t, time.Minute, "the guest reaches the other on both networks", func() error {
		if err := shown(); err != nil {
			return err
		}
		for i, page := range pages {
			said := m.fromPod(fmt.Sprint("together-", i), fetchCommand(vmi.Status.Interfaces[0].IP, 80, page))
			if !strings.Contains(said, "hello from other") {
				return fmt.Errorf("%s: it got %q", page, said)
			}
		}
		return nil
	})
	require.Equal(t, before, []string{lan.MAC, served.MAC, served.IP}, "it is the same guest")
	m.remove()
	other.remove()
}
