package entity

import "go.temporal.io/sdk/temporal"

// Keyword sets a search attribute of type Keyword, or removes it when value is empty.
func Keyword(name, value string) temporal.SearchAttributeUpdate {
	key := temporal.NewSearchAttributeKeyKeyword(name)
	if value == "" {
		return key.ValueUnset()
	}
	return key.ValueSet(value)
}
