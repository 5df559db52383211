package settings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

func TestWorkloadUpdates(t *testing.T) {
	none := WorkloadUpdates{Batch: 10, Interval: time.Minute}
	require.Equal(t, none, Default().WorkloadUpdates)
	from := func(s kubevirt.KubeVirtWorkloadUpdateStrategy) WorkloadUpdates {
		return From(&kubevirt.KubeVirt{Spec: kubevirt.KubeVirtSpec{WorkloadUpdateStrategy: s}}).WorkloadUpdates
	}
	require.Equal(t, none, from(kubevirt.KubeVirtWorkloadUpdateStrategy{}))
	methods := []kubevirt.WorkloadUpdateMethod{kubevirt.WorkloadUpdateMethodEvict, "Else",
		kubevirt.WorkloadUpdateMethodLiveMigrate}
	require.Equal(t, WorkloadUpdates{Migrate: true, Evict: true, Batch: 3, Interval: 0},
		from(kubevirt.KubeVirtWorkloadUpdateStrategy{WorkloadUpdateMethods: methods, BatchEvictionSize: new(3),
			BatchEvictionInterval: &metav1.Duration{}}))
	require.Equal(t, none, from(kubevirt.KubeVirtWorkloadUpdateStrategy{BatchEvictionSize: new(0),
		BatchEvictionInterval: &metav1.Duration{Duration: -time.Second}}), "what makes no sense")
}
