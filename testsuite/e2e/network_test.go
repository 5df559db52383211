//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fromPod runs a shell command in a restricted pod of the machine's namespace and returns what it printed.
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

// get is a shell command that fetches a page.
func get(host string, port int, path string) string {
	return fmt.Sprintf(`printf 'GET %s HTTP/1.0\r\n\r\n' | nc -w 20 %s %d`, path, host, port)
}

// TestNetwork: a pod reaches the VM by its address and by a Service, and the VM reaches a pod.
func TestNetwork(t *testing.T) {
	m := newMachine(t, "net", "Always", "")
	vmi := m.untilBooted()
	ip := vmi.Status.Interfaces[0].IP
	require.Contains(t, m.fromPod("direct", get(ip, 80, "/")), "hello from net")

	apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: net, namespace: %s}, spec: {selector: `+
		`{app: net}, ports: [{port: 80}]}}`, m.namespace))
	until(t, time.Minute, "the Service has the VM as its endpoint", func() error {
		if eps := m.kubectl("get", "endpointslices", "-o",
			"jsonpath={.items[*].endpoints[*].addresses}"); !strings.Contains(eps, ip) {
			return fmt.Errorf("endpoints: %q", eps)
		}
		return nil
	})
	require.Contains(t, m.fromPod("service", get("net."+m.namespace+".svc.cluster.local", 80, "/")), "hello from net")

	// The other way: a pod serves, the guest fetches.
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
		out := m.fromPod("relay", get(ip, 80, "/cgi-bin/fetch?"+server+":8080"))
		if !strings.Contains(out, "hello from a pod") {
			return fmt.Errorf("the guest got %q", out)
		}
		return nil
	})
	m.remove()
}
