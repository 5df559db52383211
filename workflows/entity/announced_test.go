package entity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestAnEventIsAnnouncedOnce: until it may happen again.
func TestAnEventIsAnnouncedOnce(t *testing.T) {
	var a entity.Announced
	lost := contract.Event{Type: "Warning", Reason: "NodeUnresponsive", Message: "the node is lost"}
	fenced := contract.Event{Type: "Normal", Reason: "NodeUnresponsive", Message: "the node is fenced"}
	require.Equal(t, []contract.Event{lost, fenced}, a.Missing(lost, fenced))
	a.Note([]contract.Event{lost})
	require.Equal(t, []contract.Event{fenced}, a.Missing(lost, fenced))
	a.Note([]contract.Event{fenced})
	require.Empty(t, a.Missing(lost, fenced))
	a.Forget(lost)
	require.Equal(t, []contract.Event{lost}, a.Missing(lost, fenced))
}
