package node

import (
	"errors"

	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a node entity.
func (e *instance) controls(l *entity.Loop) []entity.Control {
	s := &e.state
	return []entity.Control{entity.RetryNow(&s.Failure, nil, nil), entity.Repair(l, s, sound)}
}

// sound refuses a corrected state that cannot be meant.
func sound(was, now *State) error {
	switch {
	case now.Name != was.Name:
		return errors.New("name: a repair cannot make this the entity of another node")
	case now.Node == nil && was.Node != nil:
		return errors.New("node: what was seen of the Node cannot be forgotten; crdwatch would not tell it again")
	case now.Asking:
		return errors.New("asking: a question cannot be made up; only false is possible")
	}
	return nil
}
