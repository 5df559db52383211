package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetricLabels(t *testing.T) {
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("k%02d", i)] = "v"
	}
	long := strings.Repeat("v", MostMetricLabelBytes-2)
	for name, c := range map[string]struct{ labels, want map[string]string }{
		"none":     {nil, nil},
		"some":     {map[string]string{"app": "web", "a/b": ""}, map[string]string{"app": "web", "a/b": ""}},
		"its node": {map[string]string{LabelNodeName: "n", LabelMigrationTarget: "m", LabelOutdatedImage: ""}, nil},
		"too long": {map[string]string{"a": "1", "b": long}, map[string]string{"a": "1"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, MetricLabels(c.labels)) })
	}
	got := MetricLabels(many)
	require.Len(t, got, MostMetricLabels)
	require.Contains(t, got, "k31")
}
