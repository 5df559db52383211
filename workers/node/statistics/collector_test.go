package statistics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/metrics"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/statistics"
)

// launcher answers a scrape.
type launcher struct {
	forward.Launcher
	answer func(context.Context) (*rpc.StatisticsResponse, error)
}

func (l launcher) Statistics(ctx context.Context) (*rpc.StatisticsResponse, error) {
	return l.answer(ctx)
}

// node has guests by name; the UID of a pod is "pod-" and the name.
type node struct {
	launchers map[string]forward.Launcher
	machines  map[string]launchers.Machine
	read      int // how often a machine was read
}

func newNode() *node {
	return &node{launchers: map[string]forward.Launcher{}, machines: map[string]launchers.Machine{}}
}

func vmi(name string) contract.Object {
	return contract.Object{Namespace: "shop", Name: name, UID: "uid-" + name}
}

// add adds a guest with two virtual CPUs, the disk root, the interface default and these labels.
func (n *node) add(
	name string, labels map[string]string, answer func(context.Context) (*rpc.StatisticsResponse, error),
) {
	n.launchers[name] = launcher{answer: answer}
	n.machines["pod-"+name] = launchers.Machine{VMI: vmi(name), Labels: labels, VCPUs: 2,
		Disks: []string{"root"}, Interfaces: []string{"default"}}
}

func answers(s *rpc.StatisticsResponse) func(context.Context) (*rpc.StatisticsResponse, error) {
	return func(context.Context) (*rpc.StatisticsResponse, error) { return s, nil }
}

func (n *node) options(r prometheus.Registerer) statistics.Options {
	return statistics.Options{
		Log: zerolog.Nop(), Node: "node1", Registry: r,
		Guests: func() (all []forward.Guest) {
			for _, name := range slices.Sorted(maps.Keys(n.launchers)) {
				all = append(all, forward.Guest{VMI: vmi(name), Pod: "pod-" + name, Launcher: n.launchers[name]})
			}
			return all
		},
		Machine: func(pod string) (launchers.Machine, error) {
			n.read++
			m, ok := n.machines[pod]
			if !ok {
				return m, errors.New("no such file")
			}
			return m, nil
		},
	}
}

func register(n *node) *prometheus.Registry {
	r := prometheus.NewRegistry()
	statistics.New(n.options(r))
	return r
}

const affinity = "kubevirt_vmi_node_cpu_affinity"

// count gathers, which must succeed, and returns how many series a metric has.
func count(t *testing.T, r *prometheus.Registry, metric string) int {
	t.Helper()
	n, err := testutil.GatherAndCount(r, metric)
	require.NoError(t, err)
	return n
}

// results returns the counter of scraped guests.
func results(t *testing.T, r *prometheus.Registry) map[string]int {
	t.Helper()
	all, err := r.Gather()
	require.NoError(t, err)
	out := map[string]int{}
	for _, f := range all {
		if f.GetName() == "virtflow_node_guest_scrapes_total" {
			for _, m := range f.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
			}
		}
	}
	return out
}

func TestMetricsHaveLabelsOfVMI(t *testing.T) {
	n := newNode()
	n.add("web", map[string]string{"app.kubernetes.io/name": "web", "a-b": "1", "a.b": "2"},
		answers(&rpc.StatisticsResponse{
			Affinities: new(uint32(8)), Drives: []*rpc.DriveStatistics{{Name: "root",
				Read: &rpc.DriveTraffic{Requests: new(uint64(3))}}},
		}))
	n.add("db", nil, answers(&rpc.StatisticsResponse{Affinities: new(uint32(2))}))
	web := `kubernetes_vmi_label_a_b="1",kubernetes_vmi_label_app_kubernetes_io_name="web",` +
		`kubernetes_vmi_label_kubevirt_io_nodeName="node1",name="web",namespace="shop",node="node1"`
	db := `kubernetes_vmi_label_kubevirt_io_nodeName="node1",name="db",namespace="shop",node="node1"`
	require.NoError(t, testutil.GatherAndCompare(register(n), strings.NewReader(strings.Join([]string{
		"# HELP kubevirt_vmi_node_cpu_affinity Pairs of a virtual CPU and a CPU of the node on which it may run.",
		"# TYPE kubevirt_vmi_node_cpu_affinity gauge",
		"kubevirt_vmi_node_cpu_affinity{" + web + "} 8",
		"kubevirt_vmi_node_cpu_affinity{" + db + "} 2",
		"# HELP kubevirt_vmi_storage_iops_read_total Reads of a disk.",
		"# TYPE kubevirt_vmi_storage_iops_read_total counter",
		`kubevirt_vmi_storage_iops_read_total{drive="root",` + web + "} 3", "",
	}, "\n")), affinity, "kubevirt_vmi_storage_iops_read_total"))
}

// TestScrapeEndsWithoutHungLaunchers: their guests are missing from it, a counter shows them, and the next scrapes wait
// for them only briefly, until they answer again.
func TestScrapeEndsWithoutHungLaunchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, takes := newNode(), time.Hour
		for i := range 10 {
			n.add(fmt.Sprint("hung", i), nil, func(ctx context.Context) (*rpc.StatisticsResponse, error) {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(takes):
					return &rpc.StatisticsResponse{Affinities: new(uint32(1))}, nil
				}
			})
		}
		n.add("well", nil, answers(&rpc.StatisticsResponse{Affinities: new(uint32(1))}))
		r := register(n)
		for _, c := range []struct {
			name        string
			after       time.Duration
			takes       time.Duration
			found       int
			scrapeTakes time.Duration
		}{
			{name: "hung", takes: time.Hour, found: 1, scrapeTakes: 4 * time.Second},
			{name: "still hung", after: time.Minute, takes: time.Hour, found: 1, scrapeTakes: 250 * time.Millisecond},
			{name: "for long", after: 5 * time.Minute, takes: time.Hour, found: 1, scrapeTakes: 4 * time.Second},
			{name: "slow", after: time.Minute, takes: time.Second, found: 1, scrapeTakes: 250 * time.Millisecond},
			{name: "slow for long", after: 5 * time.Minute, takes: time.Second, found: 11, scrapeTakes: time.Second},
			{name: "well", after: time.Minute, takes: time.Second, found: 11, scrapeTakes: time.Second},
			{name: "hung again", after: time.Minute, takes: time.Hour, found: 1, scrapeTakes: 4 * time.Second},
			{name: "answers", after: time.Minute, takes: 0, found: 11, scrapeTakes: 0},
			{name: "slow again", after: time.Minute, takes: time.Second, found: 11, scrapeTakes: time.Second},
		} {
			time.Sleep(c.after)
			takes = c.takes
			begun := time.Now()
			require.Equal(t, c.found, count(t, r, affinity), c.name)
			require.Equal(t, c.scrapeTakes, time.Since(begun), c.name)
		}
		require.Equal(t, map[string]int{"timeout": 50, "read": 49}, results(t, r))
	})
}

func TestScrapeCountsWhyGuestsAreMissing(t *testing.T) {
	n := newNode()
	fails := func(err error) func(context.Context) (*rpc.StatisticsResponse, error) {
		return func(context.Context) (*rpc.StatisticsResponse, error) { return nil, err }
	}
	n.add("target", nil, fails(launchers.ErrNoGuest))
	n.add("old", nil, fails(launchers.ErrNoStatistics))
	n.add("broken", nil, fails(errors.New("it broke")))
	n.add("unknown", nil, answers(&rpc.StatisticsResponse{Affinities: new(uint32(1))}))
	delete(n.machines, "pod-unknown")
	n.add("other", nil, answers(&rpc.StatisticsResponse{Affinities: new(uint32(1))}))
	n.machines["pod-other"] = launchers.Machine{VMI: vmi("another")}
	n.launchers["ended"] = nil
	n.add("ending", nil, fails(launchers.ErrDisconnected))
	r := register(n)
	require.Zero(t, count(t, r, affinity))
	require.Equal(t, map[string]int{"no_guest": 1, "unsupported": 1, "failed": 3, "disconnected": 2}, results(t, r))
}

// TestReasonOfFailureIsLogged once an hour, even if a launcher fails only now and then.
func TestReasonOfFailureIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		var log bytes.Buffer
		n := newNode()
		n.add("web", nil, func(context.Context) (*rpc.StatisticsResponse, error) {
			return &rpc.StatisticsResponse{}, err
		})
		options := n.options(prometheus.NewRegistry())
		options.Log = zerolog.New(&log)
		c := statistics.New(options)
		for _, next := range []struct {
			after  time.Duration
			err    error
			logged int
		}{
			{0, nil, 0}, {time.Minute, errors.New("it broke"), 1}, {time.Minute, errors.New("it broke"), 1},
			{time.Minute, launchers.ErrNoGuest, 1}, {time.Minute, errors.New("it broke"), 1},
			{time.Hour, nil, 1}, {time.Minute, errors.New("it broke"), 2}, {time.Hour, errors.New("it broke"), 3},
		} {
			time.Sleep(next.after)
			err = next.err
			testutil.CollectAndCount(c)
			require.Equal(t, next.logged, strings.Count(log.String(), "\n"), log.String())
		}
		require.Contains(t, log.String(), `"level":"warn","error":"it broke","namespace":"shop","name":"web"`)
	})
}

// TestLauncherNamesOnlyItsOwn: whatever a launcher or its guest answers, the scrape succeeds and has no series of
// devices and virtual CPUs that the VMI lacks.
func TestLauncherNamesOnlyItsOwn(t *testing.T) {
	one := &rpc.Traffic{Bytes: new(uint64(1))}
	read := &rpc.DriveTraffic{Bytes: new(uint64(1))}
	n := newNode()
	n.add("hostile", map[string]string{"l": "\xff"}, answers(&rpc.StatisticsResponse{
		Vcpus: []*rpc.VCPUStatistics{{Id: 1, TimeNs: new(uint64(1))}, {Id: 1, TimeNs: new(uint64(2))},
			{Id: 2, TimeNs: new(uint64(3))}, {Id: 1 << 30, TimeNs: new(uint64(4))}},
		Interfaces: []*rpc.InterfaceStatistics{{Name: "default", Receive: one}, {Name: "default", Receive: one},
			{Name: "of another", Receive: one}, {Name: "\xff", Transmit: one}},
		Drives: []*rpc.DriveStatistics{{Name: "root", Read: read}, {Name: "root", Write: read},
			{Name: "of another", Read: read}},
		FileSystems: []*rpc.GuestFileSystem{{MountPoint: "/"}, {MountPoint: "/"}, {MountPoint: "\xff"}},
	}))
	r := register(n)
	for name, want := range map[string]int{
		"kubevirt_vmi_vcpu_seconds_total": 1, "kubevirt_vmi_network_receive_bytes_total": 1,
		"kubevirt_vmi_storage_read_traffic_bytes_total": 1, "kubevirt_vmi_storage_write_traffic_bytes_total": 0,
		"kubevirt_vmi_filesystem_used_bytes": 1,
	} {
		require.Equal(t, want, count(t, r, name), name)
	}
}

// TestGuestThatMountsWithoutEnd makes no series without end. File systems that it has unmounted for an hour make room
// for others.
func TestGuestThatMountsWithoutEnd(t *testing.T) {
	const files = "kubevirt_vmi_filesystem_used_bytes"
	synctest.Test(t, func(t *testing.T) {
		n, mounted, seen := newNode(), 0, map[string]bool{}
		n.add("web", nil, func(context.Context) (*rpc.StatisticsResponse, error) {
			s := &rpc.StatisticsResponse{FileSystems: []*rpc.GuestFileSystem{{MountPoint: "/"}}}
			for range rpc.MaxFileSystems - 1 {
				mounted++
				s.FileSystems = append(s.FileSystems, &rpc.GuestFileSystem{MountPoint: fmt.Sprint("/mnt/", mounted)})
			}
			return s, nil
		})
		r := register(n)
		for range 20 {
			all, err := r.Gather()
			require.NoError(t, err)
			for _, f := range all {
				if f.GetName() == files {
					for _, m := range f.GetMetric() {
						seen[m.String()] = true
					}
				}
			}
			time.Sleep(30 * time.Second)
		}
		require.Len(t, seen, 256)
		require.Equal(t, 1, count(t, r, files), "what was known stays")
		const dropped = "virtflow_node_guest_file_systems_dropped_total"
		// Each of 21 scrapes has the first file system and 63 others, of which 255 were shown.
		require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(fmt.Sprintf("# HELP %[1]s File systems that "+
			"scrapes left out, as a guest has shown too many others in the last hour.\n"+
			"# TYPE %[1]s counter\n%[1]s %d\n", dropped, 21*63-255)), dropped))
		time.Sleep(time.Hour)
		require.Equal(t, rpc.MaxFileSystems, count(t, r, files), "what it has not shown for an hour is forgotten")
	})
}

// TestScrapesAreShared: any pod may scrape, as often as it likes.
func TestScrapesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		var asked atomic.Int32
		n.add("web", nil, func(context.Context) (*rpc.StatisticsResponse, error) {
			asked.Add(1)
			time.Sleep(100 * time.Millisecond)
			return &rpc.StatisticsResponse{Affinities: new(uint32(1))}, nil
		})
		r := register(n)
		for range 4 {
			go func() { _, _ = r.Gather() }()
		}
		require.Equal(t, 1, count(t, r, affinity))
		require.EqualValues(t, 1, asked.Load())
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, count(t, r, affinity))
		require.EqualValues(t, 2, asked.Load())
		require.Equal(t, 1, n.read, "Kubernetes' file is read once")
		delete(n.launchers, "web")
		time.Sleep(2 * time.Second)
		require.Zero(t, count(t, r, affinity), "it has gone")
	})
}

// TestVMIIsShownOnce: two series with the same labels would fail the whole scrape. The pod recorded last has the guest.
func TestVMIIsShownOnce(t *testing.T) {
	n := newNode()
	n.add("web", nil, answers(&rpc.StatisticsResponse{Affinities: new(uint32(1))}))
	again := launcher{answer: answers(&rpc.StatisticsResponse{Affinities: new(uint32(2))})}
	options := n.options(nil)
	options.Guests = func() []forward.Guest {
		return []forward.Guest{
			{VMI: vmi("web"), Pod: "pod-a", Launcher: n.launchers["web"]},
			{VMI: vmi("web"), Pod: "pod-c", Launcher: n.launchers["web"], Order: 1},
			{VMI: vmi("web"), Pod: "pod-b", Launcher: again, Order: 2},
		}
	}
	for _, pod := range []string{"pod-a", "pod-b", "pod-c"} {
		n.machines[pod] = n.machines["pod-web"]
	}
	r := prometheus.NewRegistry()
	options.Registry = r
	statistics.New(options)
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(
		"# HELP "+affinity+" Pairs of a virtual CPU and a CPU of the node on which it may run.\n"+
			"# TYPE "+affinity+" gauge\n"+affinity+
			`{kubernetes_vmi_label_kubevirt_io_nodeName="node1",name="web",namespace="shop",node="node1"} 2`+"\n"),
		affinity))
}

// TestTypesAreDocumented: the page has the types of KubeVirt's metrics, which a registry does not know.
func TestTypesAreDocumented(t *testing.T) {
	n := newNode()
	n.add("web", nil, answers(everything()))
	all, err := register(n).Gather()
	require.NoError(t, err)
	types := map[string]string{"virtflow_node_guest_scrapes_total": "counter"}
	for _, f := range all {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	page, err := metrics.Page()
	require.NoError(t, err)
	documented := map[string]string{}
	for _, m := range page {
		if m.Package == "workers/node/statistics" {
			documented[m.Name] = m.Type
		}
	}
	require.Equal(t, types, documented)
}

// everything has a value for each metric.
func everything() *rpc.StatisticsResponse {
	traffic := &rpc.Traffic{Bytes: new(uint64(1)), Packets: new(uint64(2)), Errors: new(uint64(3)),
		Dropped: new(uint64(4))}
	drive := &rpc.DriveTraffic{Requests: new(uint64(1)), Bytes: new(uint64(2)), TimeNs: new(uint64(3e9))}
	return &rpc.StatisticsResponse{
		Cpu: &rpc.CPUStatistics{TimeNs: new(uint64(3e9)), UserNs: new(uint64(2e9)), SystemNs: new(uint64(1e9))},
		Vcpus: []*rpc.VCPUStatistics{{State: rpc.VCPUState_VCPU_STATE_RUNNING, TimeNs: new(uint64(5e8)),
			WaitNs: new(uint64(25e7)), DelayNs: new(uint64(125e6))}},
		Memory: &rpc.MemoryStatistics{
			Resident: new(uint64(1)), Available: new(uint64(2)), Unused: new(uint64(3)), Cached: new(uint64(4)),
			Balloon: new(uint64(5)), Usable: new(uint64(6)), Domain: new(uint64(7)), SwapIn: new(uint64(8)),
			SwapOut: new(uint64(9)), MajorFaults: new(uint64(10)), MinorFaults: new(uint64(11)),
		},
		Interfaces: []*rpc.InterfaceStatistics{{Name: "default", Receive: traffic, Transmit: traffic}},
		Drives:     []*rpc.DriveStatistics{{Name: "root", Read: drive, Write: drive, Flush: drive}},
		Affinities: new(uint32(8)), DirtyRate: new(uint64(12)),
		FileSystems: []*rpc.GuestFileSystem{{DiskName: "vda1", MountPoint: "/", Type: "ext4", UsedBytes: 1,
			TotalBytes: 2}},
		Load: &rpc.GuestLoad{OneMinute: 0.5, FiveMinutes: 0.25, FifteenMinutes: 0.125},
	}
}
