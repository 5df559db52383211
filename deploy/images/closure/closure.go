package closure

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/tree"
)

// defaultPath is the search path of Debian's dynamic linker without a cache, in this order.
var defaultPath = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"}

// Root is a directory with unpacked packages. Its /lib may or may not be merged into /usr.
type Root string

// Merged returns a path's path in an image whose /bin, /sbin, /lib and /lib64 are links into /usr.
func Merged(name string) string {
	for _, dir := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
		if strings.HasPrefix(name, dir) {
			return "/usr" + name
		}
	}
	return name
}

// Source returns the path of a file's content beneath the root. It follows links inside the root, never to the host.
func (r Root) Source(name string) (string, error) { return r.source(name, 0) }

func (r Root) source(name string, depth int) (string, error) {
	if depth > 10 {
		return "", fmt.Errorf("%s: too many links", name)
	}
	name = path.Clean("/" + name)
	candidates := []string{name}
	if merged := Merged(name); merged != name {
		candidates = append(candidates, merged)
	} else if split := strings.TrimPrefix(name, "/usr"); Merged(split) == name {
		candidates = append(candidates, split)
	}
	for _, candidate := range candidates {
		host := filepath.Join(string(r), candidate)
		info, err := os.Lstat(host)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return host, nil
		}
		target, err := os.Readlink(host)
		if err != nil {
			return "", err
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(candidate), target)
		}
		return r.source(target, depth+1)
	}
	return "", fmt.Errorf("%s: %w beneath %s", name, fs.ErrNotExist, r)
}

// Add adds the seeds and everything with which they are linked to the tree, at their merged paths.
func (r Root) Add(t *tree.Tree, seeds ...string) error {
	queue := slices.Clone(seeds)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		target := Merged(path.Clean("/" + name))
		if t.Has(target) {
			continue
		}
		source, err := r.Source(name)
		if err != nil {
			return fmt.Errorf("find the closure: %w", err)
		}
		if err := t.File(target, source); err != nil {
			return fmt.Errorf("find the closure: %w", err)
		}
		needed, err := r.Needed(source, target)
		if err != nil {
			return fmt.Errorf("find what %s needs: %w", name, err)
		}
		queue = append(queue, needed...)
	}
	return nil
}

// Needed lists the paths, inside the root, of the libraries and the interpreter that one ELF file names. source is
// where its bytes are on the host, target its path in the image (for $ORIGIN). A file that is not ELF needs nothing.
func (r Root) Needed(source, target string) ([]string, error) {
	file, err := elf.Open(source)
	var format *elf.FormatError
	if errors.As(err, &format) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var needed []string
	for _, segment := range file.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, segment.Filesz)
		if _, err := segment.ReadAt(name, 0); err != nil {
			return nil, err
		}
		needed = append(needed, strings.TrimRight(string(name), "\x00"))
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	search := append(runPath(file, path.Dir(target)), defaultPath...)
	for _, library := range libraries {
		found, err := r.find(library, search)
		if err != nil {
			return nil, err
		}
		needed = append(needed, found)
	}
	return needed, nil
}

func runPath(file *elf.File, origin string) []string {
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		values, err := file.DynString(tag)
		if err != nil {
			continue // no dynamic section
		}
		for _, value := range values {
			for dir := range strings.SplitSeq(value, ":") {
				dirs = append(dirs, strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir))
			}
		}
	}
	return dirs
}

func (r Root) find(library string, search []string) (string, error) {
	if strings.Contains(library, "/") {
		return library, nil
	}
	for _, dir := range search {
		if name := path.Join(dir, library); r.has(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("library %s is in none of the packages", library)
}

func (r Root) has(name string) bool {
	_, err := r.Source(name)
	return err == nil
}

// Libraries lists the names of the libraries that one program is linked with directly.
func Libraries(program string) ([]string, error) {
	file, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.ImportedLibraries()
}
