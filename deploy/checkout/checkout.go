package checkout

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// module is the first line of go.mod at the repository's root; folders in it have other ones.
const module = "module github.com/virtflow/virtflow\n"

// Root returns the repository's folder, at or above the working directory.
func Root() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		switch {
		case err == nil && strings.HasPrefix(string(data), module):
			return dir, nil
		case dir == filepath.Dir(dir):
			return "", fmt.Errorf("no checkout of virtflow at or above %s: run this in one", wd)
		}
	}
}
