package entity

import (
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Keyword sets a search attribute of type Keyword, cut to what fits, or removes it when value is empty.
func Keyword(name, value string) temporal.SearchAttributeUpdate {
	key := temporal.NewSearchAttributeKeyKeyword(name)
	if value == "" {
		return key.ValueUnset()
	}
	return key.ValueSet(contract.Keyword(value))
}
