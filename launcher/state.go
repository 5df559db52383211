package launcher

import "github.com/virtflow/virtflow/internal/claims"

// remembers says that the machine has a claim with what it remembers.
func (l *Launcher) remembers() bool {
	_, needed := claims.State(l.vmi)
	return needed
}

// takeState prepares that claim for a guest that starts here.
func (l *Launcher) takeState() error {
	if !l.remembers() {
		return nil
	}
	return l.cfg.state().Take()
}

// expectState prepares it for a guest that comes from another node.
func (l *Launcher) expectState() error {
	if !l.remembers() {
		return nil
	}
	return l.cfg.state().Expect()
}

// adoptState lets what came with that guest count.
func (l *Launcher) adoptState() error {
	if !l.remembers() {
		return nil
	}
	return l.cfg.state().Adopt()
}
