package launcher

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtflow/virtflow/internal/claims"
)

// prepareState makes the directories for what the machine remembers, in the claim that is there for it. The files are
// libvirt's to make.
func (l *Launcher) prepareState() error {
	spec := &l.vmi.Spec.Domain
	for _, part := range []struct {
		wanted bool
		dir    string
	}{
		{claims.PersistentEFI(spec), filepath.Dir(l.cfg.nvram())},
		{claims.PersistentTPM(spec), filepath.Dir(l.cfg.tpm())},
	} {
		if !part.wanted {
			continue
		}
		if err := os.Mkdir(part.dir, 0o700); err != nil && !os.IsExist(err) {
			return fmt.Errorf("using the claim with what the machine remembers: %w", err)
		}
	}
	return nil
}
