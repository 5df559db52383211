package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/virtflow/virtflow/internal/multus"
)

const deploy = "../../deploy"

// rendered returns the output of "kubectl kustomize" for a folder beneath deploy/, object by object.
func rendered(t *testing.T, folder string) []map[string]any {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(deploy, folder))
	require.NoError(t, err)
	var out []map[string]any
	for _, r := range resources.Resources() {
		o, err := r.Map()
		require.NoError(t, err)
		out = append(out, o)
	}
	require.NotEmpty(t, out)
	return out
}

// walk calls each for every string within a value, with its field.
func walk(field string, value any, each func(field, text string)) {
	switch v := value.(type) {
	case string:
		each(field, v)
	case map[string]any:
		for key, inner := range v {
			walk(field+"."+key, inner, each)
		}
	case []any:
		for _, inner := range v {
			walk(field+"[]", inner, each)
		}
	}
}

// TestOverlayRemapsEveryImage: every field is remapped, because no registry has the images of the development cluster.
// Each image is named by its digest, so that no image with the same tag on a node can replace it.
func TestOverlayRemapsEveryImage(t *testing.T) {
	image := regexp.MustCompile(`^registry[.]example[.]com/virtflow/[a-z-]+@sha256:0{64}$`)
	images := map[string]bool{}
	for _, o := range rendered(t, "existing") {
		kind, _ := o["kind"].(string)
		if kind == "CustomResourceDefinition" {
			continue // its descriptions name images as examples
		}
		walk(kind, o, func(field, text string) {
			require.NotContains(t, text, "localhost/", field)
			flag, value, _ := strings.Cut(text, "=")
			switch {
			case strings.HasSuffix(field, "ontainers[].image"):
				require.Regexp(t, image, text, field)
				images[text] = true
			case strings.HasPrefix(flag, "--") && strings.HasSuffix(flag, "-image"):
				require.Regexp(t, image, value, field)
				require.Contains(t, value, "/launcher@sha256:", "%s of %s", flag, field)
			}
		})
	}
	require.Len(t, images, 6, "crdwatch, control-worker, node-worker, node-gateway, api-server and launcher")
}

// TestCommentedPartsCanBeUncommented: the credentials and the patches of the overlay to copy.
func TestCommentedPartsCanBeUncommented(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(deploy, "existing", "kustomization.yaml"))
	require.NoError(t, err)
	var uncommented strings.Builder
	inside := false
	for line := range strings.Lines(string(raw)) {
		comment := strings.HasPrefix(line, "# ")
		if inside = comment && (inside || line == "# secretGenerator:\n" || line == "# patches:\n"); inside &&
			!strings.HasPrefix(line, "# CHANGE") {
			line = line[2:]
		}
		uncommented.WriteString(line)
	}
	var k types.Kustomization
	require.NoError(t, k.Unmarshal([]byte(uncommented.String())))
	env, err := os.ReadFile(filepath.Join(deploy, "existing", "temporal.env"))
	require.NoError(t, err)
	mounted := temporalSecrets(t, "existing")
	require.Len(t, mounted, 4, "control-worker, crdwatch, api-server and node-gateway")
	sources := map[string]bool{}
	for _, secret := range k.SecretGenerator {
		require.Contains(t, mounted, secret.Name)
		delete(mounted, secret.Name)
		for _, file := range secret.FileSources {
			key, source, renamed := strings.Cut(file, "=")
			require.Contains(t, string(env), "/etc/virtflow/temporal/"+key)
			require.True(t, key == "ca.crt" || renamed && !sources[source],
				"%s: no two processes share %s", secret.Name, file)
			sources[source] = true
		}
		require.Len(t, secret.FileSources, strings.Count(string(env), "/etc/virtflow/temporal/"))
	}
	require.Empty(t, mounted)
	require.Len(t, k.Patches, 2)
}

// temporalSecrets returns the Secrets with credentials for Temporal that pods mount, with their process. Each process
// has its own, so that it has only its own permissions in Temporal.
func temporalSecrets(t *testing.T, overlay string) map[string]string {
	t.Helper()
	mounted := map[string]string{}
	for _, o := range rendered(t, overlay) {
		name := o["metadata"].(map[string]any)["name"].(string)
		walk("", o, func(field, text string) {
			if strings.HasSuffix(field, ".secret.secretName") && strings.HasPrefix(text, "virtflow-temporal-tls") {
				require.Equal(t, "virtflow-temporal-tls-"+strings.TrimPrefix(name, "virtflow-"), text)
				mounted[text] = name
			}
		})
	}
	return mounted
}

// TestPodsAndNodeWorkerUseOneLauncherImage: the node worker's findings about libvirt and QEMU apply to the launchers of
// the node.
func TestPodsAndNodeWorkerUseOneLauncherImage(t *testing.T) {
	for _, overlay := range []string{"existing", "dev-overlay"} {
		launchers := map[string]int{}
		for _, o := range rendered(t, overlay) {
			walk("", o, func(_, text string) {
				if reference := strings.Trim(strings.TrimPrefix(text, "--launcher-image="),
					`"`); strings.Contains(reference, "/virtflow/launcher") {
					launchers[reference]++
				}
			})
		}
		require.Len(t, launchers, 1, overlay)
		for reference, uses := range launchers {
			require.Equal(t, 4, uses, "%s: the flags of the control worker and of crdwatch, the init container and the policy "+
				"for launcher pods name %s", overlay, reference)
		}
	}
}

// TestMigrationNetworkIsAComponent: node workers' pods get the network that the KubeVirt object then requires.
func TestMigrationNetworkIsAComponent(t *testing.T) {
	dir := t.TempDir()
	from, err := filepath.Abs(deploy)
	require.NoError(t, err)
	from, err = filepath.Rel(dir, from) // kustomize refuses absolute paths
	require.NoError(t, err)
	overlay := fmt.Sprintf("resources: [%[1]s/base]\ncomponents: [%[1]s/migration-network]\n", from)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	require.NoError(t, err)
	found := map[string]string{}
	for _, r := range resources.Resources() {
		o, err := r.Map()
		require.NoError(t, err)
		switch o["kind"] {
		case "DaemonSet":
			found["pods"], _, err = unstructured.NestedString(o, "spec", "template", "metadata", "annotations",
				multus.AnnotationNetworks)
		case "KubeVirt":
			found["object"], _, err = unstructured.NestedString(o, "spec", "configuration", "migrations", "network")
		}
		require.NoError(t, err)
	}
	require.Equal(t, map[string]string{"pods": "migration@migration0", "object": "migration"}, found)
	require.Equal(t, multus.QualifiedName(found["object"], "virtflow"),
		multus.Requested(found["pods"], "virtflow", "migration0"))
}

// TestMonitoringIsOneFolder: the scrape configuration, the Service, the alerts, and the dashboard with the label for
// Grafana's sidecar.
func TestMonitoringIsOneFolder(t *testing.T) {
	kinds := map[string]map[string]any{}
	for _, o := range rendered(t, "monitoring") {
		kind, _ := o["kind"].(string)
		kinds[kind] = o
		require.Equal(t, "virtflow", o["metadata"].(map[string]any)["namespace"])
	}
	require.Len(t, kinds, 4)
	require.Contains(t, kinds, "Service")
	require.Contains(t, kinds, "PodMonitor")
	require.Contains(t, kinds, "PrometheusRule")
	config := kinds["ConfigMap"]
	require.Equal(t, map[string]any{"grafana_dashboard": "1"}, config["metadata"].(map[string]any)["labels"])
	require.Contains(t, config["data"], "virtflow.json")
}
