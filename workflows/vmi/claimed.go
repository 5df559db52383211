package vmi

import (
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// answerMigration tells a migration what it is to know. What is not heard is told again when the migration asks, or
// when it is asked whether it is still there.
func (e *instance) answerMigration(ctx workflow.Context) {
	s := &e.state
	now := workflow.Now(ctx)
	to, o, due := s.nextAnswer(now)
	if !due {
		return
	}
	o.Sequence = s.nextSequence(now)
	found, err := entity.SignalOther(ctx, contract.MigrationID(to.Namespace, to.Name), contract.SignalObserveClaim, o)
	if err != nil {
		workflow.GetLogger(ctx).Warn("a migration was not told", "migration", to.Name, "error", err)
	}
	s.answered(to, o, found || err != nil, now)
}
