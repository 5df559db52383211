package tables

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unusedNames returns KubeVirt's names that virtflow neither reads nor writes, by reason. All others of kubevirt.io/api
// must be in the code: read, written, or refused.
func unusedNames() map[string][]string {
	return map[string][]string{
		"switches of KubeVirt's own tests": {
			"kubevirt.io/func-test-force-launcher-migration-failure",
			"kubevirt.io/func-test-block-migration-target-preparation",
			"kubevirt.io/func-test-migration-target-image-override", "kubevirt.io/func-test-virt-launcher-fail-fast",
			"kubevirt.io/func-test-ignore-migration-backoff", "kubevirt.io/func-test-memory-hotplug-fail",
			"kubevirt.io/testWorkloadUpdateMigrationAbortion",
		},
		"state of KubeVirt's operator, which virtflow does not have": {
			"kubevirt.io/install-strategy-version", "kubevirt.io/install-strategy-registry",
			"kubevirt.io/install-strategy-identifier", "kubevirt.io/install-strategy-cm-encoding",
			"kubevirt.io/customizer-identifier", "kubevirt.io/generation", "kubevirt.io/ephemeral-backup-object",
			"kubevirt.io/virtOperatorFinalizer",
		},
		"written by KubeVirt's components for each other, and read by no user": {
			"kubevirt.io/migrationName", "kubevirt.io/heartbeat", "kubevirt.io/nonroot",
			"kubevirt.io/migrationTransportUnix", "kubevirt.io/migration-target-ready-timestamp",
			"kubevirt.io/memory-overhead-bytes",
		},
		"network policies for KubeVirt's components": {"np.kubevirt.io/allow-access-cluster-services"},
		"labels of nodes for features that are refused: confidential guests, realtime, other architectures": {
			"kubevirt.io/realtime", "kubevirt.io/sev", "kubevirt.io/sev-es", "kubevirt.io/sev-snp", "kubevirt.io/tdx",
			"kubevirt.io/s390-pv", "kubevirt.io/vm-arch-", "pr.kubevirt.io/", "hyperv.node.kubevirt.io/",
		},
		"nodes' memory deduplication, which the configuration cannot request": {
			"kubevirt.io/ksm-enabled", "kubevirt.io/ksm-handler-managed", "kubevirt.io/ksm-pages-boost-override",
			"kubevirt.io/ksm-pages-decay-override", "kubevirt.io/ksm-pages-min-override",
			"kubevirt.io/ksm-pages-max-override", "kubevirt.io/ksm-pages-init-override",
			"kubevirt.io/ksm-sleep-ms-baseline-override", "kubevirt.io/ksm-free-percent-override",
		},
		"pools, preferences, restores, dumps, and hotplugged or copied volumes, which admission refuses": {
			"kubevirt.io/vm-pool-revision-name", "kubevirt.io/preference-name", "kubevirt.io/cluster-preference-name",
			"kubevirt.io/restore-run-strategy", "kubevirt.io/memory-dump", "kubevirt.io/volume-update-migration",
			"kubevirt.io/ephemeral-provisioning", "kubevirt.io/migrationUtilityVolumesTimeoutSeconds",
		},
		"KubeVirt's state of hotplugged CPUs and memory, which restart a VM here": {
			"kubevirt.io/vmi-pod-cpu-resource-limits", "kubevirt.io/vmi-pod-memory-resource-requests",
			"kubevirt.io/memory-hotplug-overhead-ratio",
		},
		"debugging aids for launchers: docs/differences.md": {
			"kubevirt.io/keep-launcher-alive-after-failure", "kubevirt.io/libvirt-log-filters",
		},
	}
}

// TestKubeVirtNamesAreUsedOrListed: an annotation or label that is accepted and ignored misleads the user who sets it.
func TestKubeVirtNamesAreUsedOrListed(t *testing.T) {
	listed := map[string]bool{}
	for _, names := range unusedNames() {
		for _, name := range names {
			require.False(t, listed[name], name)
			listed[name] = true
		}
	}
	known, source := namesOfKubeVirt(t), ownSource(t)
	for identifier, name := range known {
		used := strings.Contains(source, name) || regexp.MustCompile(`\.`+identifier+`\b`).MatchString(source)
		require.NotEqual(t, used, listed[name], "%s (%s) is used: %t", name, identifier, used)
		delete(listed, name)
	}
	require.Empty(t, listed, "kubevirt.io/api has no such names")
	require.Greater(t, len(known), 90)
}

// namesOfKubeVirt returns the constants of kubevirt.io/api with the name of an annotation, a label or a finalizer.
func namesOfKubeVirt(t *testing.T) map[string]string {
	t.Helper()
	where, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "kubevirt.io/api/core/v1").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(where)), "*.go"))
	require.NoError(t, err)
	out := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING || i >= len(spec.Names) {
					continue
				}
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				if domain, _, named := strings.Cut(text, "/"); named && strings.HasSuffix(domain, "kubevirt.io") {
					out[spec.Names[i].Name] = text
				}
			}
			return true
		})
	}
	return out
}

// ownSource returns the code of the processes and their manifests.
func ownSource(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "testsuite", "testdata", "dev":
				return fs.SkipDir
			}
			return nil
		}
		isGo := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
		if !isGo && !strings.HasSuffix(path, ".yaml") {
			return nil
		}
		text, err := os.ReadFile(path)
		b.Write(text)
		return err
	}))
	return b.String()
}
