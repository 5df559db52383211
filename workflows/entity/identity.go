package entity

import (
	"errors"
	"fmt"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Identity is what no repair may change of an entity's state: which object it is about, and what it has begun.
type Identity[T any] struct {
	// Field is that of the state which has what was seen of the object, and Kind is the object's.
	Field, Kind string
	Object      contract.Object
	Seen, Next  *T
	// Open says that a transition is.
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
		return fmt.Errorf("%s: what was seen of the %s cannot be forgotten; crdwatch would not tell it again",
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
