package statistics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
)

func TestMetricsOfStatistics(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	for name, c := range map[string]struct {
		in   *rpc.StatisticsResponse
		want []string // name, labels and value
	}{
		"nothing": {in: &rpc.StatisticsResponse{}},
		"CPU": {
			in: &rpc.StatisticsResponse{
				Cpu: &rpc.CPUStatistics{TimeNs: n(3_500_000_000), UserNs: n(1), SystemNs: n(0)}},
			want: []string{"cpu_usage_seconds_total 3.5", "cpu_user_usage_seconds_total 1e-09",
				"cpu_system_usage_seconds_total 0"},
		},
		"virtual CPUs": {
			in: &rpc.StatisticsResponse{Vcpus: []*rpc.VCPUStatistics{
				{Id: 0, State: rpc.VCPUState_VCPU_STATE_RUNNING, TimeNs: n(2e9), WaitNs: n(1e9), DelayNs: n(5e8)},
				{Id: 1, State: rpc.VCPUState_VCPU_STATE_BLOCKED, TimeNs: n(0)},
				{Id: 2, State: rpc.VCPUState_VCPU_STATE_OFFLINE, TimeNs: n(0)},
				{Id: 3, State: 99, TimeNs: n(0)},
				{Id: 4},
			}},
			want: []string{"vcpu_seconds_total 0 running 2", "vcpu_wait_seconds_total 0 1",
				"vcpu_delay_seconds_total 0 0.5", "vcpu_seconds_total 1 blocked 0", "vcpu_seconds_total 2 offline 0",
				"vcpu_seconds_total 3 unknown 0"},
		},
		"memory": {
			in: &rpc.StatisticsResponse{Memory: &rpc.MemoryStatistics{
				Resident: n(1), Available: n(2), Unused: n(3), Cached: n(4), Balloon: n(5), Usable: n(6), Domain: n(7),
				SwapIn: n(8), SwapOut: n(9), MajorFaults: n(10), MinorFaults: n(11),
			}},
			want: []string{"memory_resident_bytes 1", "memory_available_bytes 2", "memory_unused_bytes 3",
				"memory_cached_bytes 4", "memory_actual_balloon_bytes 5", "memory_usable_bytes 6",
				"memory_domain_bytes 7", "memory_swap_in_traffic_bytes 8", "memory_swap_out_traffic_bytes 9",
				"memory_pgmajfault_total 10", "memory_pgminfault_total 11"},
		},
		"memory without the guest's driver": {
			in:   &rpc.StatisticsResponse{Memory: &rpc.MemoryStatistics{Resident: n(1)}},
			want: []string{"memory_resident_bytes 1"},
		},
		"interface": {
			in: &rpc.StatisticsResponse{Interfaces: []*rpc.InterfaceStatistics{{Name: "default",
				Receive:  &rpc.Traffic{Bytes: n(1), Packets: n(2), Errors: n(3), Dropped: n(4)},
				Transmit: &rpc.Traffic{Bytes: n(5), Packets: n(6), Errors: n(7), Dropped: n(8)}}}},
			want: []string{"network_traffic_bytes_total default rx 1", "network_receive_bytes_total default 1",
				"network_receive_packets_total default 2", "network_receive_errors_total default 3",
				"network_receive_packets_dropped_total default 4", "network_traffic_bytes_total default tx 5",
				"network_transmit_bytes_total default 5", "network_transmit_packets_total default 6",
				"network_transmit_errors_total default 7", "network_transmit_packets_dropped_total default 8"},
		},
		"drive": {
			in: &rpc.StatisticsResponse{Drives: []*rpc.DriveStatistics{{Name: "root",
				Read:  &rpc.DriveTraffic{Requests: n(1), Bytes: n(2), TimeNs: n(3e9)},
				Write: &rpc.DriveTraffic{Requests: n(4), Bytes: n(5), TimeNs: n(6e9)},
				Flush: &rpc.DriveTraffic{Requests: n(7), Bytes: n(99), TimeNs: n(8e9)}}}},
			want: []string{"storage_iops_read_total root 1", "storage_read_traffic_bytes_total root 2",
				"storage_read_times_seconds_total root 3", "storage_iops_write_total root 4",
				"storage_write_traffic_bytes_total root 5", "storage_write_times_seconds_total root 6",
				"storage_flush_requests_total root 7", "storage_flush_times_seconds_total root 8"},
		},
		"affinities and dirty rate": {
			in:   &rpc.StatisticsResponse{Affinities: new(uint32(16)), DirtyRate: n(4 << 20)},
			want: []string{"node_cpu_affinity 16", "dirty_rate_bytes_per_second 4.194304e+06"},
		},
		"what the agent answers": {
			in: &rpc.StatisticsResponse{
				FileSystems: []*rpc.GuestFileSystem{
					{DiskName: "vda1", MountPoint: "/", Type: "ext4", UsedBytes: 1, TotalBytes: 2}},
				Load: &rpc.GuestLoad{OneMinute: 1.5, FiveMinutes: 0.5, FifteenMinutes: 0},
			},
			want: []string{"filesystem_capacity_bytes vda1 / ext4 2", "filesystem_used_bytes vda1 / ext4 1",
				"guest_load_1m 1.5", "guest_load_5m 0.5", "guest_load_15m 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range measure(c.in) {
				m := metrics()[s.metric]
				require.Len(t, s.labels, len(m.labels), m.name)
				got = append(got, strings.Join(append(append([]string{m.name}, s.labels...), fmt.Sprint(s.value)), " "))
			}
			require.Equal(t, c.want, got)
		})
	}
}
