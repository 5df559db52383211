package parts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConcurrentEnsureBuildsOnce(t *testing.T) {
	repo := module(t, map[string]string{
		"go.mod":  "module example.org/hello\n\ngo 1.26.0\n",
		"main.go": "package main\n\nvar word = \"none\"\n\nfunc main() { println(word) }\n",
	})
	part := Part{Name: "hello", Dir: "nested", Packages: []string{"."}, Output: "greet", LDFlags: "-X main.word=good"}
	cache := t.TempDir()
	var out safeBuffer
	builder := Builder{Repo: repo, Cache: cache, Out: &out}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			folder, err := builder.Ensure(t.Context(), part)
			if err != nil {
				t.Error(err)
				return
			}
			said, err := exec.CommandContext(t.Context(), filepath.Join(folder, "greet")).CombinedOutput()
			if err != nil || string(said) != "good\n" {
				t.Errorf("the program says %q, %v", said, err)
			}
		})
	}
	both.Wait()
	require.Equal(t, 1, bytes.Count([]byte(out.String()), []byte("Built hello")), out.String())
}

func TestEnsureBuildsTestProgram(t *testing.T) {
	repo := module(t, map[string]string{"go.mod": "module example.org/hello\n\ngo 1.26.0\n",
		"sub/hello_test.go": "package hello\n\nimport \"testing\"\n\nfunc TestHello(t *testing.T) { println(\"good\") }\n"})
	builder := Builder{Repo: repo, Cache: t.TempDir(), Out: &safeBuffer{}}
	part := Part{Name: "hello", Dir: "nested", Packages: []string{"./sub"}, Test: true}
	folder, err := builder.Ensure(t.Context(), part)
	require.NoError(t, err)
	printed, err := exec.CommandContext(t.Context(), filepath.Join(folder, "sub.test")).CombinedOutput()
	require.NoError(t, err, "%s", printed)
	require.Contains(t, string(printed), "good\n")
}

func TestEnsureNamesFailedBuildsLog(t *testing.T) {
	repo := module(t, map[string]string{"go.mod": "module example.org/broken\n\ngo 1.26.0\n",
		"main.go": "package main\n\nfunc main() { nothing() }\n"})
	cache := t.TempDir()
	builder := Builder{Repo: repo, Cache: cache, Out: &safeBuffer{}}
	part := Part{Name: "broken", Dir: "nested", Packages: []string{"."}}
	_, err := builder.Ensure(t.Context(), part)
	require.ErrorContains(t, err, "undefined: nothing")
	require.ErrorContains(t, err, filepath.Join(cache, "broken.log"))
	folder, err := builder.Folder(part)
	require.NoError(t, err)
	_, err = os.Stat(folder)
	require.ErrorIs(t, err, os.ErrNotExist, "a failed build must not look finished")
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
