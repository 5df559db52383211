package validation

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestDefinitionName(t *testing.T) {
	t.Parallel()
	for value, valid := range map[string]bool{
		"moves": true, "infra/moves": true, "infra/moves.v1": true,
		"": false, "/moves": false, "infra/": false, "in.fra/moves": false, "a/b/c": false, "Moves": false,
		"moves@net1": false,
	} {
		require.Equal(t, valid, len(definitionName(field.NewPath("x"), value)) == 0, value)
	}
}
