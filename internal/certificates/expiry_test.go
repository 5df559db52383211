package certificates

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtflow/virtflow/testsuite/metrics"
)

// TestShowsWhenCertificatesExpire: later each time that they are renewed.
func TestShowsWhenCertificatesExpire(t *testing.T) {
	r := prometheus.NewRegistry()
	expiry := NewExpiry(r)
	at := time.Now().Truncate(time.Second)
	k, _ := setUp(t, &at)
	k.Expiry = expiry
	for range 2 {
		for range 2 { // a write causes the next
			_, err := k.Reconcile(t.Context(), reconcile.Request{})
			require.NoError(t, err)
		}
		require.InDelta(t, at.Add(certLife).Unix(), testutil.ToFloat64(expiry.ends.WithLabelValues("cert")), 1)
		at = at.Add(certLife - ahead + time.Hour)
	}
	c := accessCluster()
	a := newAccess(c, &at)
	a.Expiry = expiry
	require.NoError(t, a.Refresh(t.Context()))
	require.NoError(t, a.Refresh(t.Context()))
	require.Equal(t, 3, testutil.CollectAndCount(expiry.ends))
	metrics.Documented(t, "internal/certificates", r)
}
