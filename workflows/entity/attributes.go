package entity

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// Attribute is a search attribute of type Keyword. An empty value removes it.
type Attribute struct {
	Name, Value string
	// Along is set when a change of it alone is not worth an event: it is written with the next change of another one.
	Along bool
}

// SetSearchAttributes keeps the search attributes current, in one event and only when something has changed.
func (l *Loop) SetSearchAttributes(ctx workflow.Context, attributes []Attribute) {
	described := ""
	updates := make([]temporal.SearchAttributeUpdate, 0, len(attributes))
	for _, a := range attributes {
		if !a.Along {
			described += a.Name + "=" + a.Value + "|"
		}
		updates = append(updates, keyword(a.Name, a.Value))
	}
	if described == l.described {
		return
	}
	l.described = described
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("failed to write search attributes", "error", err)
	}
}

// keyword sets a search attribute, cut to what fits, or removes it when value is empty.
func keyword(name, value string) temporal.SearchAttributeUpdate {
	key := temporal.NewSearchAttributeKeyKeyword(name)
	if value == "" {
		return key.ValueUnset()
	}
	return key.ValueSet(contract.Keyword(value))
}
