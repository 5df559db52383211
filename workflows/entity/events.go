package entity

import (
	"slices"

	"github.com/virtflow/virtflow/contract"
)

// Announced names the events that were recorded of an object: each type and reason once.
type Announced []string

func announced(e contract.Event) string { return e.Type + "/" + e.Reason }

// Missing returns the events that were not recorded yet.
func (a Announced) Missing(events ...contract.Event) []contract.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e contract.Event) bool {
		return slices.Contains(a, announced(e))
	})
}

// Note adds events that were recorded.
func (a *Announced) Note(events []contract.Event) {
	list := slices.Clone(*a) // a query's answer must not change under it
	for _, e := range events {
		list = append(list, announced(e))
	}
	*a = list
}

// Forget lets an event be recorded again, when it happens again.
func (a *Announced) Forget(e contract.Event) { *a = Without(*a, announced(e)) }
