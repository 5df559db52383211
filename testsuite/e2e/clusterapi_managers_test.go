//go:build e2e

package e2e

import (
	"encoding/base64"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/virtflow/virtflow/internal/pki"
)

// startClusterAPI installs Cluster API and its provider for KubeVirt from their modules: the kinds and webhooks as in
// their manifests, and the managers as processes beside the cluster. All is gone when the test ends. It returns the log
// of the provider's manager.
func startClusterAPI(t *testing.T) *output {
	t.Helper()
	programs, certificates := built(t, "cluster-api"), t.TempDir()
	authority, err := pki.OpenAuthority(certificates, "webhooks")
	require.NoError(t, err)
	const host = "127.0.0.1" // the API server runs on this machine, too
	require.NoError(t, authority.Ensure(pki.Request{Name: "tls", CommonName: host, IPs: []string{host}}))
	ca, err := os.ReadFile(filepath.Join(certificates, "ca.crt"))
	require.NoError(t, err)
	start := func(name string, more ...string) *output {
		port := freePort(t)
		install(t, webhooks{address: "https://" + host + ":" + port, ca: ca}.definitions(t, "sigs.k8s.io/"+name))
		return startManager(t, filepath.Join(programs, name), append(more, "--webhook-port="+port,
			"--webhook-cert-dir="+certificates, "--health-addr=0", "--diagnostics-address=0")...)
	}
	start("cluster-api")
	// It does not watch VMs, and of v0.11.2's watches of Cluster API's objects none has an effect: it converts them as
	// objects of a newer version. All that it does not request of itself it notices when it lists its own objects.
	return start("cluster-api-provider-kubevirt", "--sync-period=5s")
}

// webhooks has the address at which the API server reaches a manager's webhooks, and the CA of its certificate.
type webhooks struct {
	address string
	ca      []byte
}

// definitions returns the kinds and the webhooks of a module's manifests. They are called at the address instead of the
// Service that the manifests have.
func (w webhooks) definitions(t *testing.T, module string) string {
	t.Helper()
	folder, _ := download(t, "../../deploy/dev/parts/clusterapi", module)
	manifests := strings.NewReader(kubectl(t, "kustomize", filepath.Join(folder, "config", "default")))
	list := unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for decoder := yaml.NewYAMLOrJSONDecoder(manifests, 4096); ; {
		var o unstructured.Unstructured
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch o.GetKind() {
		case "CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			w.redirect(o.Object)
			list.Items = append(list.Items, o)
		}
	}
	require.NotEmpty(t, list.Items)
	out, err := list.MarshalJSON()
	require.NoError(t, err)
	return string(out)
}

// redirect replaces the Services in a part of an object by the address.
func (w webhooks) redirect(part any) {
	switch v := part.(type) {
	case []any:
		for _, item := range v {
			w.redirect(item)
		}
	case map[string]any:
		for _, item := range v {
			w.redirect(item)
		}
		client, _ := v["clientConfig"].(map[string]any)
		if path, found, _ := unstructured.NestedString(client, "service", "path"); found {
			v["clientConfig"] = map[string]any{
				"url": w.address + path, "caBundle": base64.StdEncoding.EncodeToString(w.ca)}
		}
	}
}

// install applies definitions until the test ends, and waits until their kinds are served.
func install(t *testing.T, definitions string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := tryWith(definitions, "delete", "--ignore-not-found", "--timeout=90s", "-f", "-"); err != nil {
			t.Errorf("the definitions are not deleted: %v", err)
		}
	})
	// Client-side, the annotation with the last applied configuration would be too long.
	_, err := tryWith(definitions, "apply", "--server-side", "--force-conflicts", "-f", "-")
	require.NoError(t, err)
	kubectl(t, "wait", "crd", "-l", "cluster.x-k8s.io/provider", "--for=condition=Established", "--timeout=60s")
}

// startManager starts a program that runs while the test and its later cleanups do. If the test fails, it logs what the
// program has written last.
func startManager(t *testing.T, program string, args ...string) *output {
	t.Helper()
	log := &output{}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also when the test itself is killed
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the log of %s ends with:\n%s", filepath.Base(program), tail(log.String(), 300))
		}
	})
	return log
}
