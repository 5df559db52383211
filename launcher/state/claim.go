package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	prefix  = "state-"
	current = "current"
)

// Claim is the PVC with a machine's persistent state. Other pods that mount it may have put anything there.
type Claim struct {
	// Root is its file system.
	Root string
	// Link is the path by which a domain refers to the directory of its launcher: the same at both ends of a migration.
	Link string
}

// NVRAM returns the file with the firmware's variables, and TPM the directory of the TPM. libvirt makes both.
func (c Claim) NVRAM() string { return filepath.Join(c.Link, "nvram", "VARS.fd") }

// TPM returns the directory of the TPM: see NVRAM.
func (c Claim) TPM() string { return filepath.Join(c.Link, "swtpm", "tpm2") }

// Take prepares for a guest that starts here: with the current state, or with none. It can be repeated.
func (c Claim) Take() error {
	if c.ownDir() != "" {
		return nil
	}
	name, err := c.currentDir()
	if err == nil && name == "" {
		if name, err = c.makeDir(); err == nil {
			err = c.makeCurrent(name)
		}
	}
	if err == nil {
		err = c.use(name)
	}
	return wrapError(err)
}

// Expect prepares to receive a guest with its state. The current state stays unchanged. It can be repeated until the
// guest has arrived.
func (c Claim) Expect() error {
	if err := os.Remove(c.Link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrapError(err)
	}
	name, err := c.makeDir()
	if err == nil {
		err = c.use(name)
	}
	return wrapError(err)
}

// Adopt makes the received state current. It is called once the guest has stopped at its source for good, and before it
// is resumed here. It can be repeated.
func (c Claim) Adopt() error {
	name := c.ownDir()
	if name == "" {
		return wrapError(errors.New("this launcher has no directory on it"))
	}
	if err := c.makeCurrent(name); err != nil {
		return wrapError(err)
	}
	c.removeUnused(name)
	return nil
}

// wrapError adds to an error that the PVC could not be used; nil stays nil.
func wrapError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("using the PVC with the machine's persistent state: %w", err)
}

// ownDir returns the name of this launcher's directory; "" if it has none.
func (c Claim) ownDir() string {
	to, err := os.Readlink(c.Link)
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// currentDir returns the name of the current directory; "" if there is none yet.
func (c Claim) currentDir() (string, error) {
	name, err := os.Readlink(filepath.Join(c.Root, current))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if filepath.Base(name) != name || !strings.HasPrefix(name, prefix) {
		return "", fmt.Errorf("%s leads to %s, which is not a launcher's directory", current, name)
	}
	// Neither the directories nor the file of the variables may lead to other files of this pod.
	for _, part := range []struct {
		path string
		dir  bool
	}{{"", true}, {"nvram", true}, {"nvram/VARS.fd", false}, {"swtpm", true}, {"swtpm/tpm2", true}} {
		info, err := os.Lstat(filepath.Join(c.Root, name, part.path))
		switch {
		case errors.Is(err, fs.ErrNotExist) && part.path != "":
		case err != nil:
			return "", err
		case part.dir && !info.IsDir(), !part.dir && !info.Mode().IsRegular():
			return "", fmt.Errorf("%s was not made by a launcher", filepath.Join(name, part.path))
		}
	}
	return name, nil
}

// makeDir makes an empty directory.
func (c Claim) makeDir() (string, error) {
	dir, err := os.MkdirTemp(c.Root, prefix)
	if err != nil {
		return "", err
	}
	for _, part := range []string{filepath.Dir(c.NVRAM()), filepath.Dir(c.TPM())} {
		if err := os.Mkdir(filepath.Join(dir, filepath.Base(part)), 0o700); err != nil {
			return "", err
		}
	}
	return filepath.Base(dir), nil
}

// use makes a directory this launcher's own, and removes unused ones.
func (c Claim) use(name string) error {
	if err := os.Symlink(filepath.Join(c.Root, name), c.Link); err != nil {
		return err
	}
	c.removeUnused(name)
	return nil
}

// makeCurrent makes a directory current, so that this also holds after a crash.
func (c Claim) makeCurrent(name string) error {
	next := filepath.Join(c.Root, name+"."+current)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(name, next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(c.Root, current)); err != nil {
		return err
	}
	dir, err := os.Open(c.Root)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// removeUnused removes the directories of moves that failed or have ended, but nothing of the current state. There is
// little space. What cannot be removed now may be the next time.
func (c Claim) removeUnused(own string) {
	counts, err := c.currentDir()
	if err != nil || counts == "" {
		return
	}
	all, _ := filepath.Glob(filepath.Join(c.Root, prefix+"*"))
	for _, path := range all {
		if name := filepath.Base(path); name != own && name != counts {
			_ = os.RemoveAll(path)
		}
	}
}
