package parts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// module makes a checkout with one nested module.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	repo := t.TempDir()
	for name, content := range files {
		path := filepath.Join(repo, "nested", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return repo
}

func TestKeyFollowsContent(t *testing.T) {
	files := map[string]string{"go.mod": "module x\n", "go.sum": "", "main.go": "package main\n",
		"sub/a.go": "package sub\n"}
	part := Part{Name: "x", Dir: "nested", Packages: []string{"."}}
	key := func(change func(map[string]string), p Part) string {
		changed := map[string]string{}
		for name, content := range files {
			changed[name] = content
		}
		change(changed)
		k, err := p.Key(module(t, changed))
		require.NoError(t, err)
		return k
	}
	same := func(map[string]string) {}
	first := key(same, part)
	require.Len(t, first, 12)
	require.Equal(t, first, key(same, part), "the same content in another folder")
	require.Equal(t, first, key(func(f map[string]string) {
		f["main_test.go"] = "package main\n"
	}, part), "a test changes no program")
	require.Equal(t, first, key(func(f map[string]string) {
		f["README.md"] = "words"
	}, part), "words change no program")

	for name, change := range map[string]func(map[string]string){
		"a file's content": func(f map[string]string) { f["sub/a.go"] = "package sub // changed\n" },
		"a dependency":     func(f map[string]string) { f["go.sum"] = "x v1 h1:\n" },
		"a new file":       func(f map[string]string) { f["b.go"] = "package main\n" },
		"a file's name":    func(f map[string]string) { f["c.go"] = f["main.go"]; delete(f, "main.go") },
	} {
		require.NotEqual(t, first, key(change, part), name)
	}
	for name, other := range map[string]Part{
		"tags":     {Name: "x", Dir: "nested", Packages: []string{"."}, Tags: "y"},
		"ldflags":  {Name: "x", Dir: "nested", Packages: []string{"."}, LDFlags: "-X y=z"},
		"packages": {Name: "x", Dir: "nested", Packages: []string{"./sub"}},
		"output":   {Name: "x", Dir: "nested", Packages: []string{"."}, Output: "y"},
		"cgo":      {Name: "x", Dir: "nested", Packages: []string{"."}, Cgo: true},
		"test":     {Name: "x", Dir: "nested", Packages: []string{"."}, Test: true},
	} {
		require.NotEqual(t, first, key(same, other), name)
	}
}

func TestKeyNeedsModule(t *testing.T) {
	_, err := Part{Name: "x", Dir: "absent", Packages: []string{"."}}.Key(t.TempDir())
	require.ErrorContains(t, err, "x")
}

// TestKubeVirtIsOfItsVersion compares the module of KubeVirt's programs with the version whose API virtflow has.
func TestKubeVirtIsOfItsVersion(t *testing.T) {
	module, err := os.ReadFile(filepath.Join("kubevirt", "go.mod"))
	require.NoError(t, err)
	for _, line := range []string{"kubevirt.io/kubevirt ", "kubevirt.io/api => kubevirt.io/api ",
		"kubevirt.io/client-go => kubevirt.io/client-go "} {
		require.Contains(t, string(module), "\t"+line+contract.KubeVirtVersion+"\n")
	}
}

func TestCatalog(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All() {
		require.False(t, seen[p.Name], "%s twice", p.Name)
		seen[p.Name] = true
		require.NotEmpty(t, p.Packages, p.Name)
		require.NotZero(t, p.Cold, p.Name)
		key, err := p.Key("../../..")
		require.NoError(t, err, "the nested module of %s is missing", p.Name)
		require.NotEmpty(t, key)
		found, err := Named(p.Name)
		require.NoError(t, err)
		require.Equal(t, p, found)
	}
	_, err := Named("nothing")
	require.Error(t, err)
}
