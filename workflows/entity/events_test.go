package entity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestRecordsEventOnce: an event is recorded once, unless it may happen again.
func TestRecordsEventOnce(t *testing.T) {
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
