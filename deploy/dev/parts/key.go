package parts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Key is a short hash of what the part's build depends on: Go's version, the flags, and the files of its module. The C
// compiler is not in it: a newer one causes no new build.
func (p Part) Key(repo string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s/%s\n%s\n%q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, p.Name, p.arguments("out"))
	if p.Cgo {
		fmt.Fprintln(h, "cgo")
	}
	if p.Dir != "" {
		if err := hashModule(h, filepath.Join(repo, p.Dir), p.Test); err != nil {
			return "", fmt.Errorf("compute the cache key of %s: %w", p.Name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// hashModule adds every file of the module that can change its commands, or its tests.
func hashModule(h io.Writer, dir string, tests bool) error {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		isTest := strings.HasSuffix(path, "_test.go")
		if d.Type().IsRegular() && (tests || !isTest) && !strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the files of the module: %w", err)
	}
	slices.Sort(files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a file of the module: %w", err)
		}
		name, _ := filepath.Rel(dir, file)
		fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(data))
	}
	return nil
}

// arguments returns the arguments of the go command that builds the part into the folder out.
func (p Part) arguments(out string) []string {
	args := []string{"build", "-o", out + "/" + p.Output, "-v"}
	switch {
	case p.Dir == "":
		args = []string{"install", "-v"}
	case p.Test:
		args = []string{"test", "-c", "-o", out + "/"} // whose -v is not the build's
	}
	args = append(args, "-trimpath", "-buildvcs=false", "-ldflags", strings.TrimSpace("-s -w "+p.LDFlags))
	if p.Tags != "" {
		args = append(args, "-tags", p.Tags)
	}
	return append(args, p.Packages...)
}
