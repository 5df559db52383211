package board_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/board"
	"github.com/virtflow/virtflow/launcher/rpc"
)

func running(d *rpc.Domain) { d.State = rpc.DomainState_DOMAIN_STATE_RUNNING }

func TestSequenceGrowsOnlyWithChanges(t *testing.T) {
	b := board.New()
	require.EqualValues(t, 1, b.Domain().GetSequence())
	b.Update(running)
	b.Update(running)
	require.EqualValues(t, 2, b.Domain().GetSequence())
	b.Update(func(d *rpc.Domain) { d.Sequence = 99; d.AgentConnected = true })
	require.EqualValues(t, 3, b.Domain().GetSequence())
}

func TestWatcherSeesTheLastStateBeforeTheEnd(t *testing.T) {
	b := board.New()
	first, err := b.Next(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_ABSENT, first.GetState())

	b.Update(running)
	b.Update(func(d *rpc.Domain) { d.State = rpc.DomainState_DOMAIN_STATE_SHUTOFF })
	b.Close()
	last, err := b.Next(t.Context(), first.GetSequence())
	require.NoError(t, err)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_SHUTOFF, last.GetState())
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_ABSENT, first.GetState(), "what was handed out must not change")
	none, err := b.Next(t.Context(), last.GetSequence())
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestNextEndsWithItsContext(t *testing.T) {
	b := board.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Next(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
}
