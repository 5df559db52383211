//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// fromPod runs a shell command in a restricted pod of the machine's namespace and returns its output.
func (m *machine) fromPod(name, command string) string {
	m.t.Helper()
	name = fmt.Sprintf("%s-%d", name, time.Now().UnixNano()%1000000)
	apply(m.t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: tools
    image: "%s"
    imagePullPolicy: IfNotPresent
    command: [sh, -c, %q]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, name, m.namespace, image(m.t, "tools"), command))
	until(m.t, 2*time.Minute, "pod "+name+" has ended", func() error {
		phase := m.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")
		if phase != "Succeeded" && phase != "Failed" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	out := m.kubectl("logs", name)
	m.kubectl("delete", "pod", name, "--wait=false")
	return out
}

// fetchCommand returns a shell command that fetches a page.
func fetchCommand(host string, port int, path string) string {
	return fmt.Sprintf(`printf 'GET %s HTTP/1.0\r\n\r\n' | nc -w 15 %s %d`, path, host, port)
}

// TestNetwork: a pod reaches the VM by its address and by a Service, at the port that the VM names and at no other, and
// the VM reaches a pod, unless it uses an address that is not its own. Its interface has the address, the MAC, the
// queues and the DHCP options of its spec.
func TestNetwork(t *testing.T) {
	m := &machine{t: t, namespace: newNamespace(t), name: "net", taps: taps()}
	apply(t, strings.NewReplacer(
		"masquerade: {}", "masquerade: {}, macAddress: '02:00:00:0a:0b:0c', ports: [{port: 80}], dhcpOptions: "+
			"{bootFileName: boot.efi, tftpServerName: tftp.example, ntpServers: [192.0.2.7], "+
			"privateOptions: [{option: 240, value: private}]}",
		"pod: {}", "pod: {vmNetworkCIDR: 10.9.8.0/28}",
		"cores: 1", "cores: 2", "        devices:\n", "        devices:\n          networkInterfaceMultiqueue: true\n",
	).Replace(m.manifest("Always", "")))
	vmi := m.untilBooted()
	require.Regexp(t, `ip=10\.9\.8\.2\D`, m.console())
	m.checkNetwork()

	m.untilAgentAnswers()
	require.Equal(t, "02:00:00:0a:0b:0c", strings.TrimSpace(m.runByAgent("cat /sys/class/net/eth0/address")))
	require.Contains(t, m.runByAgent("ls /sys/class/net/eth0/queues"), "rx-1")
	options := m.runByAgent("printf '#!/bin/sh\\nenv\\n' >/tmp/env && chmod +x /tmp/env && udhcpc -f -n -q -i eth0 " +
		"-O bootfile -O tftp -O ntpsrv -O 240 -s /tmp/env") // it changes nothing
	for _, want := range []string{
		"boot.efi", "tftp.example", "ntpsrv=192.0.2.7", "opt240=" + fmt.Sprintf("%x", "private"),
	} {
		require.Contains(t, options, want)
	}
	m.runByAgent("mkdir -p /tmp/w && echo hello there >/tmp/w/index.html && httpd -p 8081 -h /tmp/w")
	require.Contains(t, m.runByAgent(fetchCommand("127.0.0.1", 8081, "/")), "hello there")
	require.NotContains(t, m.fromPod("unnamed", fetchCommand(vmi.Status.Interfaces[0].IP, 8081, "/")), "hello there")

	server := m.kubectl("get", "pod", "server", "-o", "jsonpath={.status.podIP}")
	fetch := fetchCommand(server, 8080, "/")
	require.Contains(t, m.runByAgent(fetch), "hello from a pod")
	m.runByAgent("ip addr add 10.9.8.5/28 dev eth0 && ip route add " + server +
		"/32 via 10.9.8.1 dev eth0 src 10.9.8.5")
	_, err := m.tryByAgent(fetch)
	require.Error(t, err, "from an address that is not its own")
	m.runByAgent("ip route del " + server + "/32")
	require.Contains(t, m.runByAgent(fetch), "hello from a pod")
	m.remove()
}

// TestBridge: a guest that has its pod's address is reachable, and reaches pods. Its status has the address, its probe
// finds it there, and it cannot migrate. Its interface has another model.
func TestBridge(t *testing.T) {
	suite.TakeTurn(t, 2)
	m := &machine{t: t, namespace: newNamespace(t), name: "net", taps: taps()}
	apply(t, strings.Replace(m.manifest("Always", "      readinessProbe: {httpGet: {port: 80}, periodSeconds: 2}"),
		"masquerade: {}", "bridge: {}, model: e1000e", 1))
	vmi := m.untilBooted()
	ip := m.kubectl("get", "pod", m.pod(), "-o", "jsonpath={.status.podIP}")
	require.Equal(t, ip, vmi.Status.Interfaces[0].IP)
	require.Regexp(t, `ip=`+regexp.QuoteMeta(ip)+`\D`, m.console())
	m.kubectl("wait", "vmi/net", "--for=condition=Ready", "--timeout=60s")
	require.Equal(t, "False InterfaceNotLiveMigratable cannot migrate VMI which does not use masquerade or a migratable "+
		"plugin to connect to the pod network", m.kubectl("get", "vmi", "net", "-o", `jsonpath={range `+
		`.status.conditions[?(@.type=="LiveMigratable")]}{.status} {.reason} {.message}{end}`))
	m.checkNetwork()
	m.untilAgentAnswers()
	require.Contains(t, m.runByAgent("readlink /sys/class/net/eth0/device/driver"), "/e1000e")
	m.remove()
}

// checkNetwork checks that pods reach the VM, which is called net, and the VM reaches a pod, unless its node forbids
// it.
func (m *machine) checkNetwork() {
	t := m.t
	t.Helper()
	vmi, err := m.vmi()
	require.NoError(t, err)
	ip := vmi.Status.Interfaces[0].IP
	require.Contains(t, m.fromPod("direct", fetchCommand(ip, 80, "/")), "hello from net")

	apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: net, namespace: %s}, spec: {selector: `+
		`{app: net}, ports: [{port: 80}]}}`, m.namespace))
	until(t, time.Minute, "the Service has the VM as its endpoint", func() error {
		if eps := m.kubectl("get", "endpointslices", "-o",
			"jsonpath={.items[*].endpoints[*].addresses}"); !strings.Contains(eps, `"`+ip+`"`) {
			return fmt.Errorf("endpoints: %q", eps)
		}
		return nil
	})
	// The node's proxy learns the endpoint from its own watch.
	until(t, time.Minute, "the Service answers", func() error {
		said := m.fromPod("service", fetchCommand("net."+m.namespace+".svc.cluster.local", 80, "/"))
		if !strings.Contains(said, "hello from net") {
			return fmt.Errorf("%q", said)
		}
		return nil
	})

	// A network policy is enforced on the node, by the addresses of pods. This one denies ingress:
	const refused = "counter reject with tcp reset"
	end := filters(t, vmi.Status.NodeName, "ip daddr "+ip+" tcp dport 80 "+refused)
	require.NotContains(t, m.fromPod("denied", fetchCommand(ip, 80, "/")), "hello")
	require.Positive(t, end(), "packets to the guest, with its pod's address")
	require.Contains(t, m.fromPod("again", fetchCommand(ip, 80, "/")), "hello from net")

	// The other direction: a pod serves, the guest fetches.
	apply(t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: server, namespace: %s}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: tools
    image: "%s"
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "mkdir -p /tmp/www && echo hello from a pod > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, m.namespace, image(t, "tools")))
	m.kubectl("wait", "pod/server", "--for=condition=Ready", "--timeout=60s")
	server := m.kubectl("get", "pod", "server", "-o", "jsonpath={.status.podIP}")
	until(t, time.Minute, "the guest reaches the pod", func() error {
		out := m.fromPod("relay", fetchCommand(ip, 80, "/cgi-bin/fetch?"+server+":8080"))
		if !strings.Contains(out, "hello from a pod") {
			return fmt.Errorf("the guest got %q", out)
		}
		return nil
	})

	// And a policy that denies egress.
	end = filters(t, vmi.Status.NodeName, "ip saddr "+ip+" tcp dport 8080 "+refused)
	require.NotContains(t, m.fromPod("relay", fetchCommand(ip, 80, "/cgi-bin/fetch?"+server+":8080")),
		"hello from a pod")
	require.Positive(t, end(), "packets from the guest, with its pod's address")
}
