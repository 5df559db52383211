package observe_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

func TestManyLabelsDoNotHideSchedulable(t *testing.T) {
	labels := map[string]string{contract.LabelSchedulable: "false"}
	for i := range 100 {
		labels["kubevirt.io/a"+strconv.Itoa(i)] = "x"
	}
	require.Equal(t, "false", observe.OwnedLabels(labels)[contract.LabelSchedulable])
	require.Len(t, observe.OwnedLabels(labels), 64)
}
