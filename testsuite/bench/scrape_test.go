package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workers/node/statistics"
)

// scraped is how many guests the node of a scrape has.
const scraped = 100

// BenchmarkScrape counts what a scrape of a node worker with 100 guests costs: calls of launchers, bytes of their
// answers, series, and bytes of the text for Prometheus. The launchers answer over real sockets; the allocations are
// those of the node worker and of all launchers.
//
// A typical guest has two labels and one file system. The largest has as many bytes of labels and as many file systems,
// with names as long, as a node worker permits.
func BenchmarkScrape(b *testing.B) {
	b.Run("typical", func(b *testing.B) {
		benchmarkScrape(b, typicalStatistics(), map[string]string{"app": "web", "kubevirt.io/vm": "vm"})
	})
	b.Run("largest", func(b *testing.B) {
		labels := map[string]string{}
		for i := range contract.MostMetricLabels {
			key := fmt.Sprintf("l%02d", i)
			labels[key] = strings.Repeat("v", contract.MostMetricLabelBytes/contract.MostMetricLabels-len(key))
		}
		answer := typicalStatistics()
		answer.FileSystems = nil
		for i := range rpc.MaxFileSystems {
			answer.FileSystems = append(answer.FileSystems, &rpc.GuestFileSystem{DiskName: strings.Repeat("d", 256),
				MountPoint: fmt.Sprintf("/%0255d", i), Type: strings.Repeat("t", 63), UsedBytes: 1 << 30,
				TotalBytes: 1 << 33})
		}
		require.Equal(b, labels, contract.MetricLabels(labels))
		benchmarkScrape(b, answer, labels)
	})
}

func benchmarkScrape(b *testing.B, answer *rpc.StatisticsResponse, labels map[string]string) {
	b.Helper()
	var calls atomic.Int64
	guests, machines := scrapedGuests(b, func(context.Context) (*rpc.StatisticsResponse, error) {
		calls.Add(1)
		return answer, nil
	}, labels)
	registry := prometheus.NewRegistry()
	statistics.New(statistics.Options{
		Log: zerolog.Nop(), Node: "node1", Registry: registry, SharedFor: -1,
		Guests:  func() []forward.Guest { return guests },
		Machine: func(pod string) (launchers.Machine, error) { return machines[pod], nil },
	})
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	scrape := func() []byte {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		require.Equal(b, http.StatusOK, w.Code)
		return w.Body.Bytes()
	}
	text := scrape() // reads what is known of the guests
	series := bytes.Count(text, []byte("\nkubevirt_vmi_"))
	calls.Store(0)
	b.ReportAllocs()
	for b.Loop() {
		scrape()
	}
	b.ReportMetric(float64(calls.Load())/float64(b.N), "calls/op")
	b.ReportMetric(float64(scraped*proto.Size(answer)), "answered-B/op")
	b.ReportMetric(float64(series), "series/op")
	b.ReportMetric(float64(len(text)), "text-B/op")
}

// scrapedGuests returns guests with connections to launchers, and what Kubernetes has given their pods.
func scrapedGuests(
	b *testing.B, count func(context.Context) (*rpc.StatisticsResponse, error), labels map[string]string,
) ([]forward.Guest, map[string]launchers.Machine) {
	b.Helper()
	node := launchertest.NewNode(b)
	var guests []forward.Guest
	machines := map[string]launchers.Machine{}
	for i := range scraped {
		pod := fmt.Sprintf("3f2a9c1e-0000-4000-8000-%012d", i)
		launcher := launchertest.NewLauncher()
		launcher.Count = count
		launchertest.Serve(b, node.AddPod(b, pod), launcher)
		l, err := node.Dialer().Connect(b.Context(), pod)
		require.NoError(b, err)
		b.Cleanup(l.Close)
		vmi := contract.Object{Namespace: "default", Name: fmt.Sprint("vm", i), UID: fmt.Sprint("u", i)}
		guests = append(guests, forward.Guest{VMI: vmi, Pod: pod, Launcher: l})
		machines[pod] = launchers.Machine{VMI: vmi, VCPUs: 2, Disks: []string{"root", "cloudinit"},
			Interfaces: []string{"default"}, Labels: labels}
	}
	return guests, machines
}

// typicalStatistics has a value for each metric, of a guest with two CPUs and two disks.
func typicalStatistics() *rpc.StatisticsResponse {
	n := func() *uint64 { return new(uint64(123_456_789_012)) }
	s := &rpc.StatisticsResponse{
		Cpu: &rpc.CPUStatistics{TimeNs: n(), UserNs: n(), SystemNs: n()},
		Memory: &rpc.MemoryStatistics{Resident: n(), Available: n(), Unused: n(), Cached: n(), Balloon: n(),
			Usable: n(), Domain: n(), SwapIn: n(), SwapOut: n(), MajorFaults: n(), MinorFaults: n()},
		Affinities: new(uint32(16)), DirtyRate: n(),
		Interfaces: []*rpc.InterfaceStatistics{{Name: "default",
			Receive:  &rpc.Traffic{Bytes: n(), Packets: n(), Errors: n(), Dropped: n()},
			Transmit: &rpc.Traffic{Bytes: n(), Packets: n(), Errors: n(), Dropped: n()}}},
		FileSystems: []*rpc.GuestFileSystem{{DiskName: "vda1", MountPoint: "/", Type: "ext4", UsedBytes: 1 << 30,
			TotalBytes: 1 << 33}},
		Load: &rpc.GuestLoad{OneMinute: 0.5, FiveMinutes: 0.25, FifteenMinutes: 0.125},
	}
	for i := range uint32(2) {
		s.Vcpus = append(s.Vcpus, &rpc.VCPUStatistics{Id: i, State: rpc.VCPUState_VCPU_STATE_RUNNING, TimeNs: n(),
			WaitNs: n(), DelayNs: n()})
	}
	for _, name := range []string{"root", "cloudinit"} {
		traffic := &rpc.DriveTraffic{Requests: n(), Bytes: n(), TimeNs: n()}
		s.Drives = append(s.Drives, &rpc.DriveStatistics{Name: name, Read: traffic, Write: traffic,
			Flush: &rpc.DriveTraffic{Requests: n(), TimeNs: n()}})
	}
	return s
}
