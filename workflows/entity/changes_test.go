package entity

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

// TestFixesLogicAtBegin asks for the newest change first, and only for those that the run may have begun with.
func TestFixesLogicAtBegin(t *testing.T) {
	all := []string{"a", "b"}
	for name, c := range map[string]struct {
		changes  []string
		before   []string // that Continue-As-New hands on
		recorded string   // that the run's history has; "": its logic is the newest
		asked    []string
		lacks    []string
	}{
		"no changes": {nil, nil, "", nil, nil},
		"no changes, after a release that has some": {nil, []string{"later-1", "logic:later-1"}, "",
			[]string{"logic:none"}, nil},
		"no changes, as before":   {nil, []string{"logic:none-1"}, "", nil, nil},
		"new":                     {all, nil, "logic:b", []string{"logic:b"}, nil},
		"begun before the newest": {all, nil, "logic:a", []string{"logic:b", "logic:a"}, []string{"b"}},
		"begun before all":        {all, nil, "none", []string{"logic:b", "logic:a", "logic:none"}, all},
		"begun before all, after a rollback": {all, nil, "logic:none",
			[]string{"logic:b", "logic:a", "logic:none"}, all},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment.New()
			if c.before != nil {
				require.NoError(t, env.SetTypedSearchAttributesOnStart(
					temporal.NewSearchAttributes(begunWith.ValueSet(c.before))))
			}
			var asked []string
			for n := range len(all) + 1 {
				env.OnGetVersion(contract.Logic(all[:n]), workflow.DefaultVersion, workflow.Version(1)).Return(
					func(id string, _, _ workflow.Version) workflow.Version {
						asked = append(asked, id)
						if c.recorded == "" || c.recorded == id {
							return 1
						}
						return workflow.DefaultVersion
					}).Maybe()
			}
			var l Logic
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				l = fixLogic(ctx, c.changes)
				return nil
			})
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, c.asked, asked)
			for _, id := range c.changes {
				require.Equal(t, !slices.Contains(c.lacks, id), l.HasChange(id), id)
			}
		})
	}
}
