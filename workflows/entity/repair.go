package entity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/virtflow/virtflow/contract"
)

// maxRepair bounds a repair's patch, in bytes.
const maxRepair = 64 << 10

// Repair returns the control that corrects an entity's state: the next run begins at once, with the state to which the
// request's merge patch was applied. state is the entity's own; validate refuses an inconsistent state.
func Repair[S any](l *Loop, state *S, validate func(was, now *S) error) Control {
	corrected := func(r contract.ControlRequest) (*S, error) {
		if l.entity.Busy() || l.stepping {
			return nil, errors.New("something is open (a transition, or a call): cancel it first, or try again when " +
				"it has ended")
		}
		if len(r.State) == 0 {
			return nil, errors.New(`state: required: a JSON merge patch of what the state query answers, for example ` +
				`{"failure": null}`)
		}
		if len(r.State) > maxRepair {
			return nil, fmt.Errorf("state: has %d bytes, at most %d are allowed", len(r.State), maxRepair)
		}
		old, err := json.Marshal(state) //workflowcheck:ignore it sorts the keys of maps
		if err != nil {
			return nil, fmt.Errorf("writing down the state: %w", err)
		}
		patched, err := jsonpatch.MergePatch(old, r.State) //workflowcheck:ignore a pure function; its result is decoded again
		if err != nil {
			return nil, fmt.Errorf("state: is not a JSON merge patch: %w", err)
		}
		next := new(S)
		d := json.NewDecoder(bytes.NewReader(patched))
		d.DisallowUnknownFields()
		err = d.Decode(next) //workflowcheck:ignore the same bytes give the same state
		if err != nil {
			return nil, fmt.Errorf("state: the patched state cannot be decoded: %w", err)
		}
		if err := validate(state, next); err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
		return next, nil
	}
	return Control{
		Name:  contract.ControlRepair,
		Does:  "Continue with a corrected state: a JSON merge patch of the state query's answer.",
		Check: func(r contract.ControlRequest) error { _, err := corrected(r); return err },
		Apply: func(_ time.Time, r contract.ControlRequest) (string, error) {
			if _, err := corrected(r); err != nil {
				return "", err
			}
			// Computed again when the run ends, so that what arrives until then is in it.
			l.repair = func() ([]byte, error) {
				next, err := corrected(r)
				if err != nil {
					return nil, err
				}
				return Encode(next)
			}
			return "The corrected state takes effect with the next run of this workflow.", nil
		},
	}
}
