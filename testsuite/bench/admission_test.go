package bench

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	virtadmission "github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/testsuite/admission"
)

// BenchmarkAdmission posts reviews of a VM and of an instance, each to be defaulted and validated, over HTTPS on
// loopback. It reports the 99th percentile of the duration of a request, and its processor time: of client and server,
// since both are in this process.
func BenchmarkAdmission(b *testing.B) {
	records, err := admission.Cases()
	require.NoError(b, err)
	e := admission.Start(b, virtadmission.Options{
		Cluster: func(context.Context) (defaults.Cluster, error) {
			return defaults.Cluster{Architecture: "amd64"}, nil
		},
	})
	for _, name := range []string{"mutated vm plain", "mutated vmi plain", "vmi plain", "vm disk of no volume"} {
		i := slices.IndexFunc(records, func(r *admission.Record) bool { return r.ID == name })
		require.GreaterOrEqual(b, i, 0, name)
		r := records[i]
		b.Run(name, func(b *testing.B) {
			var mu sync.Mutex
			var took []time.Duration
			before := cpu(b)
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				var mine []time.Duration
				for p.Next() {
					begin := time.Now()
					if _, err := e.Ask(r.Path, r.Request); err != nil {
						b.Error(err)
						return
					}
					mine = append(mine, time.Since(begin))
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, mine...)
			})
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100])/float64(time.Millisecond), "p99-ms")
			b.ReportMetric((cpu(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
