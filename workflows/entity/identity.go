package entity

import (
	"errors"
	"fmt"

	"github.com/virtflow/virtflow/contract"
)

// Identity has what no repair may change of an entity's state: its object, and its open transition.
type Identity[T any] struct {
	// Field is the state's field with the object's observation, and Kind is the object's.
	Field, Kind string
	Object      contract.Object
	Seen, Next  *T
	// Open is set while a transition is open.
	Open bool
}

// SameObject refuses a corrected state that is about another object than the one it corrects.
func SameObject[T any, P Observed[T]](was, now Identity[T]) error {
	uid := now.Object.UID
	if now.Seen != nil {
		uid, _ = P(now.Seen).Version()
	}
	switch {
	case now.Object != was.Object:
		return errors.New("object: a repair cannot make this the entity of another object")
	case now.Seen == nil && was.Seen != nil:
		return fmt.Errorf("%s: the observation of the %s cannot be removed; crdwatch would not send it again",
			now.Field, now.Kind)
	case uid != now.Object.UID:
		return fmt.Errorf("%s.uid: is not that of the object; a repair cannot make this the entity of another object",
			now.Field)
	case now.Next != nil && !Same(now.Next, was.Next):
		return errors.New("next: is another object; only null, or what it was, is possible")
	case was.Open:
		return errors.New("a transition is open: cancel it first, or try again when it has ended")
	case now.Open:
		return errors.New("open: a transition cannot be made up; only null is possible")
	}
	return nil
}
