package multus

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequested(t *testing.T) {
	for name, c := range map[string]struct{ annotation, want string }{
		"no annotation":          {},
		"a name":                 {"moves@migration0", "virtflow/moves"},
		"a name with namespace":  {"infra/moves@migration0", "infra/moves"},
		"one of several":         {"a, infra/moves@migration0 ,b@net1", "infra/moves"},
		"for another interface":  {"moves@net1,moves", ""},
		"no name":                {"@migration0", ""},
		"JSON":                   {`[{"name":"a"},{"name":"moves","interface":"migration0"}]`, "virtflow/moves"},
		"JSON with namespace":    {`[{"name":"moves","namespace":"infra","interface":"migration0"}]`, "infra/moves"},
		"JSON, other interfaces": {`[{"name":"moves","interface":"net1"},{"interface":"migration0"}]`, ""},
		"no JSON":                {`[{"name":`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Requested(c.annotation, "virtflow", "migration0"))
		})
	}
}
