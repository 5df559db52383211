package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const deploy = "../../deploy"

// rendered is what "kubectl kustomize" prints for a folder beneath deploy/, object by object.
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

// walk calls each for every string within a value, with the field where it stands.
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

// TestEveryImageOfAnExistingClusterIsRemapped, wherever its name stands: no registry has those of the development
// cluster.
func TestEveryImageOfAnExistingClusterIsRemapped(t *testing.T) {
	image := regexp.MustCompile(`^registry[.]example[.]com/virtflow/[a-z-]+:v0[.]1[.]0$`)
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
				require.Contains(t, value, "/launcher:", "%s of %s", flag, field)
			}
		})
	}
	require.Len(t, images, 6, "crdwatch, control-worker, node-worker, node-gateway, api-server and launcher")
}

// TestWhatIsCommentedOutCanBeUncommented: the credentials and the patches of the overlay to copy.
func TestWhatIsCommentedOutCanBeUncommented(t *testing.T) {
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
	require.Len(t, k.SecretGenerator, 1)
	require.Equal(t, "virtflow-temporal-tls", k.SecretGenerator[0].Name)
	env, err := os.ReadFile(filepath.Join(deploy, "existing", "temporal.env"))
	require.NoError(t, err)
	for _, file := range k.SecretGenerator[0].FileSources {
		require.Contains(t, string(env), "/etc/virtflow/temporal/"+file)
	}
	require.Len(t, k.SecretGenerator[0].FileSources, strings.Count(string(env), "/etc/virtflow/temporal/"))
	require.Len(t, k.Patches, 2)
}

// TestTheLauncherOfPodsIsThatOfTheNodeWorker: what the node worker finds out about libvirt and QEMU holds for the
// launchers of the node.
func TestTheLauncherOfPodsIsThatOfTheNodeWorker(t *testing.T) {
	for _, overlay := range []string{"existing", "dev-overlay"} {
		launchers := map[string]int{}
		for _, o := range rendered(t, overlay) {
			walk("", o, func(_, text string) {
				if reference := strings.Trim(strings.TrimPrefix(text, "--launcher-image="),
					`"`); strings.Contains(reference, "/virtflow/launcher:") {
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

// TestMonitoringIsOneFolder: what is scraped, the alerts, and the dashboard with the label that Grafana's sidecar looks
// for.
func TestMonitoringIsOneFolder(t *testing.T) {
	kinds := map[string]map[string]any{}
	for _, o := range rendered(t, "monitoring") {
		kind, _ := o["kind"].(string)
		kinds[kind] = o
		require.Equal(t, "virtflow", o["metadata"].(map[string]any)["namespace"])
	}
	require.Len(t, kinds, 3)
	require.Contains(t, kinds, "PodMonitor")
	require.Contains(t, kinds, "PrometheusRule")
	config := kinds["ConfigMap"]
	require.Equal(t, map[string]any{"grafana_dashboard": "1"}, config["metadata"].(map[string]any)["labels"])
	require.Contains(t, config["data"], "virtflow.json")
}
