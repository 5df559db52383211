package launcher

import "github.com/virtflow/virtflow/internal/claims"

// hasState reports whether the machine has a PVC for its persistent state.
func (l *Launcher) hasState() bool {
	_, needed := claims.State(l.vmi)
	return needed
}

// prepareState prepares the PVC of the persistent state for a guest that starts here.
func (l *Launcher) prepareState() error {
	if !l.hasState() {
		return nil
	}
	return l.cfg.state().Take()
}

// prepareIncomingState prepares the PVC of the persistent state for a guest that comes from another node.
func (l *Launcher) prepareIncomingState() error {
	if !l.hasState() {
		return nil
	}
	return l.cfg.state().Expect()
}

// adoptState makes the state that came with a guest from another node the current one.
func (l *Launcher) adoptState() error {
	if !l.hasState() {
		return nil
	}
	return l.cfg.state().Adopt()
}
