package vmi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestSuccessorKeepsLogicOfRun: else a run of v0.1.0 would go over to newer logic with the VM's next instance.
func TestSuccessorKeepsLogicOfRun(t *testing.T) {
	s := State{Logic: entity.LogicWithout(contract.ChangeAfterFirst)}
	n := s.successor()
	require.False(t, n.HasChange(contract.ChangeAfterFirst))
}
