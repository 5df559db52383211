package entity

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Unmarshal is json.Unmarshal for workflows. It is deterministic: the same bytes give the same value.
func Unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into) //workflowcheck:ignore reflection, which the checker cannot see through
	return err
}

// Same says that two values are written the same.
func Same(a, b any) bool {
	x, errA := json.Marshal(a) //workflowcheck:ignore it sorts the keys of maps
	y, errB := json.Marshal(b) //workflowcheck:ignore it sorts the keys of maps
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// Decode reads the state carried by Continue-As-New; a nil input leaves state as it is.
func Decode(carried []byte, state any) error {
	if len(carried) == 0 {
		return nil
	}
	if err := Unmarshal(carried, state); err != nil {
		return fmt.Errorf("reading the state carried from the run before: %w", err)
	}
	return nil
}
