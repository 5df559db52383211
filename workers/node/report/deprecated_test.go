package report

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestDeprecatedMachineTypesAreMetric(t *testing.T) {
	require.NoError(t, testutil.CollectAndCompare(NewDeprecated("node1", []string{"pc-q35-4.0"}), strings.NewReader(`
# HELP kubevirt_node_deprecated_machine_types Machine types of the node that QEMU has deprecated.
# TYPE kubevirt_node_deprecated_machine_types gauge
kubevirt_node_deprecated_machine_types{machine_type="pc-q35-4.0",node="node1"} 1
`)))
	require.Zero(t, testutil.CollectAndCount(NewDeprecated("node1", nil)))
}
