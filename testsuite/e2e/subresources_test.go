//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// pathOf returns the path of a subresource, of the machine or of its instance.
func (m *machine) pathOf(resource, name string) string {
	return "/apis/subresources.kubevirt.io/v1/namespaces/" + m.namespace + "/" + resource + "/" + m.name + "/" + name
}

// put calls a subresource, as kubectl's own user or as the user in flags.
func (m *machine) put(resource, name, body string, flags ...string) (string, error) {
	return tryWith(body, append([]string{"replace", "--raw", m.pathOf(resource, name), "-f", "-"}, flags...)...)
}

func (m *machine) mustPut(resource, name, body string) {
	m.t.Helper()
	out, err := m.put(resource, name, body)
	require.NoError(m.t, err, out)
}

// refusedPut calls a subresource and requires a refusal with these words.
func (m *machine) refusedPut(resource, name, body, words string) {
	m.t.Helper()
	_, err := m.put(resource, name, body)
	require.ErrorContains(m.t, err, words, "%s/%s", resource, name)
}

const (
	vms  = "virtualmachines"
	vmis = "virtualmachineinstances"
)

// TestStartStopRestartBySubresource: the life of a machine with run strategy Manual, by virtctl's requests, including
// refused ones.
func TestStartStopRestartBySubresource(t *testing.T) {
	suite.TakeTurn(t, 5)
	m := newMachine(t, "manual", "Manual", "")
	m.untilStatus("Stopped")
	m.refusedPut(vms, "stop", "{}", `virtualmachine.kubevirt.io "manual": VM is not running`)
	m.refusedPut(vms, "restart", "{}", "VM is not running: Halted")
	m.refusedPut(vmis, "pause", "{}", `virtualmachineinstance.kubevirt.io "manual" not found`)
	m.mustPut(vms, "start", `{"dryRun":["All"]}`)
	m.mustPut(vms, "start", "{}")
	first := m.untilBooted()
	m.refusedPut(vms, "start", "{}", "VM is already running")
	m.refusedPut(vms, "restart", `{"gracePeriodSeconds":5}`, "only gracePeriod=0 is supported for now")
	m.mustPut(vms, "restart", "{}")
	second := m.untilReplaced(first)
	m.mustPut(vms, "restart", `{"gracePeriodSeconds":0}`)
	m.untilReplaced(second)
	m.mustPut(vms, "stop", `{"gracePeriod":0}`)
	m.untilStatus("Stopped")

	m.mustPut(vms, "start", `{"paused":true}`)
	m.untilStatus("Paused")
	m.mustPut(vmis, "unpause", "{}")
	m.untilBooted()
	m.remove()
	_, err := m.put(vms, "start", "{}")
	require.ErrorContains(t, err, `virtualmachine.kubevirt.io "manual" not found`)
}

// TestOperationsOnRunningGuest: each operation is answered when it is done, is visible in the status, and is refused in
// a state that does not fit.
func TestOperationsOnRunningGuest(t *testing.T) {
	suite.TakeTurn(t, 2)
	m := newMachine(t, "live", "Always", "")
	instance := m.untilBooted()
	before := m.domains()
	m.refusedPut(vmis, "unpause", "{}", "VMI is not paused")
	m.mustPut(vmis, "pause", "{}")
	m.refusedPut(vmis, "pause", "{}", "VMI is already paused")
	m.refusedPut(vmis, "softreboot", "{}", "VMI is paused")
	vm := m.untilStatus("Paused")
	paused := vmCondition(vm, "Paused")
	require.NotNil(t, paused)
	require.Equal(t, "PausedByUser", paused.Reason)
	require.Equal(t, kubevirt.RunStrategyAlways, *vm.Spec.RunStrategy, "pausing is not stopping")
	m.mustPut(vmis, "unpause", "{}")
	m.untilStatus("Running")

	until(t, bootTime, "the guest's agent is connected", func() error {
		vm, err := m.vm()
		if err == nil && vmCondition(vm, "AgentConnected") == nil {
			err = fmt.Errorf("conditions %v", vm.Status.Conditions)
		}
		return err
	})
	// Without a file system on a disk there is nothing to freeze.
	types, leave := m.login(t)
	types("mke2fs /dev/vdb && mkdir -p /mnt && mount -t ext4 /dev/vdb /mnt && echo mounted-$((1+1))\n", "mounted-2")
	types("exit\n", "login: ")
	leave()
	m.mustPut(vmis, "freeze", `{"unfreezeTimeout":"5m"}`)
	m.untilFrozen("frozen")
	m.mustPut(vmis, "unfreeze", "{}")
	m.untilFrozen("")
	m.backupHook("pre")
	m.untilFrozen("frozen")
	m.backupHook("post")
	m.untilFrozen("")

	boots := func(n int) {
		t.Helper()
		until(t, bootTime, fmt.Sprintf("the guest has booted %d times", n), func() error {
			if is := strings.Count(m.console(), marker); is < n {
				return fmt.Errorf("%d boots so far", is)
			}
			return nil
		})
	}
	m.mustPut(vmis, "reset", "{}")
	boots(2)
	m.mustPut(vmis, "softreboot", "{}")
	boots(3)
	after, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, instance.UID, after.UID)
	require.Equal(t, before[0].pid, m.domains()[0].pid, "same QEMU")

	m.mustPut(vmis, "pause", "{}")
	m.untilStatus("Paused")
	m.mustPut(vms, "stop", "{}")
	m.untilStatus("Stopped")
	m.remove()
}

// backupHook runs the hook in the pod's annotations that Velero runs before or after a backup.
func (m *machine) backupHook(when string) {
	m.t.Helper()
	annotation := func(name string) string {
		return m.kubectl("get", "pod", m.pod(), "-o",
			"jsonpath={.metadata.annotations['"+when+`\.hook\.backup\.velero\.io/`+name+"']}")
	}
	var command []string
	require.NoError(m.t, json.Unmarshal([]byte(annotation("command")), &command))
	m.kubectl(append([]string{"exec", m.pod(), "-c", annotation("container"), "--"}, command...)...)
}

func (m *machine) untilFrozen(want string) {
	m.t.Helper()
	until(m.t, bootTime, fmt.Sprintf("the guest's file systems are %q", want), func() error {
		vmi, err := m.vmi()
		if err == nil && vmi.Status.FSFreezeStatus != want {
			err = fmt.Errorf("they are %q", vmi.Status.FSFreezeStatus)
		}
		return err
	})
}

// streamKinds returns all kinds of streams, as the last part of the path of a VMI.
func streamKinds() []string {
	return []string{"console", "vnc", "vnc/screenshot", "portforward/22", "portforward/22/tcp", "portforward/68/udp",
		"usbredir", "vsock?port=22"}
}

// TestSubresourceRBAC: Kubernetes' own roles, on the real API server, with a running guest: only RBAC denies access.
func TestSubresourceRBAC(t *testing.T) {
	suite.TakeTurn(t, 5)
	m := newMachine(t, "theirs", "Halted", "")
	m.untilStatus("Stopped")
	as := func(user string) []string { return []string{"--as=" + user, "--as-group=system:authenticated"} }
	for user, role := range map[string]string{"viewer": "view", "editor": "edit", "boss": "admin"} {
		m.kubectl("create", "rolebinding", role+"-them", "--clusterrole="+role, "--user="+user)
	}
	elsewhere := newNamespace(t)
	kubectl(t, "-n", elsewhere, "create", "rolebinding", "admin-here", "--clusterrole=admin", "--user=tenant")
	forbidden := func(flags []string, resource, name string) {
		t.Helper()
		_, err := m.put(resource, name, "{}", flags...)
		require.ErrorContains(t, err, "forbidden", "%v %s", flags, name)
	}
	anonymous := []string{"--as=" + anonymousUser, "--as-group=system:unauthenticated"}
	denied := [][]string{as("viewer"), as("tenant"), as("outsider"), anonymous}
	for _, flags := range denied {
		forbidden(flags, vms, "start")
	}
	forbidden(as("boss"), vms, "migrate")
	_, err := m.put(vms, "start", "{}", as("editor")...)
	require.NoError(t, err)
	m.untilBooted()
	for _, flags := range denied {
		forbidden(flags, vms, "stop")
		forbidden(flags, vms, "restart")
		for _, name := range []string{"pause", "unpause", "freeze", "unfreeze", "reset", "softreboot"} {
			forbidden(flags, vmis, name)
		}
	}
	_, err = try(append([]string{"get", "--raw", m.pathOf(vms, "expand-spec")}, as("viewer")...)...)
	require.NoError(t, err, "a user who may read a VM may read it expanded")
	for _, flags := range denied[1:] {
		_, err = try(append([]string{"get", "--raw", m.pathOf(vms, "expand-spec")}, flags...)...)
		require.ErrorContains(t, err, "forbidden")
	}

	kept := func(user, resource, kind string) {
		t.Helper()
		c, code, text := m.connectAs(m.pathOf(resource, kind), user)
		require.Nil(t, c, "%s opens %s", user, kind)
		require.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, code, "%s %s: %s", user, kind, text)
	}
	for _, user := range []string{"viewer", "tenant", "outsider", anonymousUser, withoutCredentials} {
		for _, kind := range streamKinds() {
			kept(user, vmis, kind)
		}
		kept(user, vms, "portforward/22")
	}
	for _, user := range []string{"editor", "boss"} {
		for _, path := range []string{m.pathOf(vmis, "console"), m.pathOf(vmis, "vnc"),
			m.pathOf(vmis, "portforward/22"), m.pathOf(vms, "portforward/22")} {
			c, code, text := m.connectAs(path, user)
			require.NotNil(t, c, "%s %s: %d %s", user, path, code, text)
			require.NoError(t, c.Close())
		}
		_, code, text := m.connectAs(m.pathOf(vmis, "usbredir"), user)
		require.Equal(t, http.StatusConflict, code, "%s is authorised, but there is no device: %s", user, text)
		kept(user, vmis, "vsock?port=22")
	}
	kept("editor", vmis, "vnc/screenshot")
	_, err = try(append([]string{"get", "--raw", m.pathOf(vmis, "vnc/screenshot")}, as("boss")...)...)
	require.NoError(t, err)

	_, err = m.put(vmis, "pause", "{}", as("boss")...)
	require.NoError(t, err)
	vm := m.untilStatus("Paused")
	require.Equal(t, "editor", vm.Annotations["virtflow.io/requested-by"], "the history has the user")
	m.remove()
}

// TestAggregatedAPI: discovery and OpenAPI, as kubectl reads them.
func TestAggregatedAPI(t *testing.T) {
	require.Contains(t, kubectl(t, "get", "apiservices", "v1.subresources.kubevirt.io",
		"v1alpha3.subresources.kubevirt.io"), "True")
	require.Contains(t, kubectl(t, "api-versions"), "subresources.kubevirt.io/v1alpha3")
	require.Contains(t, kubectl(t, "get", "--raw", "/apis/subresources.kubevirt.io/v1"),
		"virtualmachineinstances/softreboot")
	require.Contains(t, kubectl(t, "get", "--raw", "/apis/subresources.kubevirt.io/v1/version"), "gitVersion")
	require.Contains(t, kubectl(t, "get", "--raw", "/openapi/v3/apis/subresources.kubevirt.io/v1"), "v1.StartOptions")
	_, err := try("get", "--raw", "/apis/subresources.kubevirt.io/v1/start-cluster-profiler")
	require.ErrorContains(t, err, "ClusterProfiler")
}
