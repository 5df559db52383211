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

// Claim is such a claim. Whoever else mounts it may have put anything there.
type Claim struct {
	// Root is its file system.
	Root string
	// Link is the path by which a domain knows the directory of its launcher: the same at both ends of a migration.
	Link string
}

// NVRAM is the file with the variables of the firmware, and TPM the directory of the TPM. libvirt makes both.
func (c Claim) NVRAM() string { return filepath.Join(c.Link, "nvram", "VARS.fd") }

// TPM: see NVRAM.
func (c Claim) TPM() string { return filepath.Join(c.Link, "swtpm", "tpm2") }

// Take prepares for a guest that starts here: with what is current, or with nothing. It may be done again.
func (c Claim) Take() error {
	if c.own() != "" {
		return nil
	}
	name, err := c.current()
	if err == nil && name == "" {
		if name, err = c.fresh(); err == nil {
			err = c.makeCurrent(name)
		}
	}
	if err == nil {
		err = c.use(name)
	}
	return failed(err)
}

// Expect prepares for a guest that is received, with what it remembers. What is current stays. It may be done again
// while no guest has come.
func (c Claim) Expect() error {
	if err := os.Remove(c.Link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err)
	}
	name, err := c.fresh()
	if err == nil {
		err = c.use(name)
	}
	return failed(err)
}

// Adopt makes what was received current: the guest has stopped at its source for good, and does not go on here before.
// It may be done again.
func (c Claim) Adopt() error {
	name := c.own()
	if name == "" {
		return failed(errors.New("this launcher has no directory there"))
	}
	if err := c.makeCurrent(name); err != nil {
		return failed(err)
	}
	c.tidy(name)
	return nil
}

func failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("using the claim with what the machine remembers: %w", err)
}

// own is the name of this launcher's directory; "": it has none.
func (c Claim) own() string {
	to, err := os.Readlink(c.Link)
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// current is the name of the directory that counts; "": there is none yet.
func (c Claim) current() (string, error) {
	name, err := os.Readlink(filepath.Join(c.Root, current))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if filepath.Base(name) != name || !strings.HasPrefix(name, prefix) {
		return "", fmt.Errorf("%s leads to %s, which is no directory of a launcher's", current, name)
	}
	// Neither they nor the variables' file may lead to something else of this pod's.
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
			return "", fmt.Errorf("%s is not what a launcher has made", filepath.Join(name, part.path))
		}
	}
	return name, nil
}

// fresh makes an empty directory.
func (c Claim) fresh() (string, error) {
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

// use makes a directory this launcher's, and tidies up.
func (c Claim) use(name string) error {
	if err := os.Symlink(filepath.Join(c.Root, name), c.Link); err != nil {
		return err
	}
	c.tidy(name)
	return nil
}

// makeCurrent lets a directory count from now on, for whoever looks after a crash, too.
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
	defer dir.Close() //nolint:errcheck // it is only read
	return dir.Sync()
}

// tidy removes what moves that failed, or were made, have left, but nothing of what is current. There is little space;
// what cannot be removed may be the next time.
func (c Claim) tidy(own string) {
	counts, err := c.current()
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
