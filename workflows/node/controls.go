package node

import (
	"errors"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a node entity.
func (e *instance) controls(l *entity.Loop) []entity.Control {
	s := &e.state
	return []entity.Control{
		{
			Name: contract.ControlRetryNow, Does: "Do not wait for the next attempt to write the labels.",
			Check: func(contract.ControlRequest) error {
				if s.Failure == nil {
					return errors.New("nothing failed: no attempt is being waited for")
				}
				return nil
			},
			Apply: func(now time.Time, _ contract.ControlRequest) (string, error) {
				s.Failure = s.Failure.RetryAfter(now)
				return "The next attempt is made now.", nil
			},
		},
		entity.Repair(l, s, sound),
	}
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
