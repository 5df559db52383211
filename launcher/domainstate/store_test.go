package domainstate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/rpc"
)

func running(d *rpc.Domain) { d.State = rpc.DomainState_DOMAIN_STATE_RUNNING }

func TestSequenceGrowsOnlyWithChanges(t *testing.T) {
	s := domainstate.New()
	require.EqualValues(t, 1, s.Domain().GetSequence())
	s.Update(running)
	s.Update(running)
	require.EqualValues(t, 2, s.Domain().GetSequence())
	s.Update(func(d *rpc.Domain) { d.Sequence = 99; d.AgentConnected = true })
	require.EqualValues(t, 3, s.Domain().GetSequence())
}

func TestWatcherSeesLastStateBeforeEnd(t *testing.T) {
	s := domainstate.New()
	first, err := s.Next(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_ABSENT, first.GetState())

	s.Update(running)
	s.Update(func(d *rpc.Domain) { d.State = rpc.DomainState_DOMAIN_STATE_SHUTOFF })
	s.Close()
	last, err := s.Next(t.Context(), first.GetSequence())
	require.NoError(t, err)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_SHUTOFF, last.GetState())
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_ABSENT, first.GetState(), "what was handed out must not change")
	none, err := s.Next(t.Context(), last.GetSequence())
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestNextEndsWithItsContext(t *testing.T) {
	s := domainstate.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Next(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
}
