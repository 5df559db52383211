package libvirtd

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/rpc"
)

func n(v uint64) *uint64 { return &v }

func TestStatisticsOfLibvirt(t *testing.T) {
	const measured, measuring = int(libvirt.DOMAIN_DIRTYRATE_MEASURED), int(libvirt.DOMAIN_DIRTYRATE_MEASURING)
	for name, c := range map[string]struct {
		in   libvirt.DomainStats
		want *rpc.StatisticsResponse
	}{
		"nothing": {want: &rpc.StatisticsResponse{}},
		"CPU": {
			in:   libvirt.DomainStats{Cpu: &libvirt.DomainStatsCPU{TimeSet: true, Time: 9, SystemSet: true}},
			want: &rpc.StatisticsResponse{Cpu: &rpc.CPUStatistics{TimeNs: n(9), SystemNs: n(0)}},
		},
		"virtual CPUs": {
			in: libvirt.DomainStats{Vcpu: []libvirt.DomainStatsVcpu{
				{StateSet: true, State: libvirt.VCPU_RUNNING, TimeSet: true, Time: 7, WaitSet: true, Wait: 8,
					DelaySet: true, Delay: 9},
				{}, // not plugged in
				{StateSet: true, State: libvirt.VCPU_BLOCKED},
				{StateSet: true, State: libvirt.VCPU_OFFLINE}, // likewise
				{StateSet: true, State: libvirt.VCPU_OFFLINE, TimeSet: true, Time: 6},
				{StateSet: true, State: 77},
			}},
			want: &rpc.StatisticsResponse{Vcpus: []*rpc.VCPUStatistics{
				{State: rpc.VCPUState_VCPU_STATE_RUNNING, TimeNs: n(7), WaitNs: n(8), DelayNs: n(9)},
				{Id: 2, State: rpc.VCPUState_VCPU_STATE_BLOCKED},
				{Id: 4, State: rpc.VCPUState_VCPU_STATE_OFFLINE, TimeNs: n(6)},
				{Id: 5},
			}},
		},
		"memory": {
			in: libvirt.DomainStats{Balloon: &libvirt.DomainStatsBalloon{
				RssSet: true, Rss: 1, AvailableSet: true, Available: 2, UnusedSet: true, Unused: 3,
				DiskCachesSet: true, DiskCaches: 4, CurrentSet: true, Current: 5, UsableSet: true, Usable: 6,
				MaximumSet: true, Maximum: 7, SwapInSet: true, SwapIn: 8, SwapOutSet: true, SwapOut: 9,
				MajorFaultSet: true, MajorFault: 10, MinorFaultSet: true, MinorFault: 11,
			}},
			want: &rpc.StatisticsResponse{Memory: &rpc.MemoryStatistics{
				Resident: n(1 << 10), Available: n(2 << 10), Unused: n(3 << 10), Cached: n(4 << 10),
				Balloon: n(5 << 10), Usable: n(6 << 10), Domain: n(5 << 10), SwapIn: n(8 << 10), SwapOut: n(9 << 10),
				MajorFaults: n(10), MinorFaults: n(11),
			}},
		},
		"interface": {
			in: libvirt.DomainStats{Net: []libvirt.DomainStatsNet{{
				NameSet: true, Name: "tap0", RxBytesSet: true, RxBytes: 1, RxPktsSet: true, RxPkts: 2,
				RxErrsSet: true, RxErrs: 3, RxDropSet: true, RxDrop: 4, TxBytesSet: true, TxBytes: 5,
				TxPktsSet: true, TxPkts: 6, TxErrsSet: true, TxErrs: 7, TxDropSet: true, TxDrop: 8,
			}}},
			want: &rpc.StatisticsResponse{Interfaces: []*rpc.InterfaceStatistics{{Name: "tap0",
				Receive:  &rpc.Traffic{Bytes: n(1), Packets: n(2), Errors: n(3), Dropped: n(4)},
				Transmit: &rpc.Traffic{Bytes: n(5), Packets: n(6), Errors: n(7), Dropped: n(8)},
			}}},
		},
		"drives, of which QEMU counts one": {
			in: libvirt.DomainStats{Block: []libvirt.DomainStatsBlock{{
				NameSet: true, Name: "vda", RdReqsSet: true, RdReqs: 1, RdBytesSet: true, RdBytes: 2,
				RdTimesSet: true, RdTimes: 3, WrReqsSet: true, WrReqs: 4, WrBytesSet: true, WrBytes: 5,
				WrTimesSet: true, WrTimes: 6, FlReqsSet: true, FlReqs: 7, FlTimesSet: true, FlTimes: 8,
			}, {NameSet: true, Name: "vdb"}}},
			want: &rpc.StatisticsResponse{Drives: []*rpc.DriveStatistics{{Name: "vda",
				Read:  &rpc.DriveTraffic{Requests: n(1), Bytes: n(2), TimeNs: n(3)},
				Write: &rpc.DriveTraffic{Requests: n(4), Bytes: n(5), TimeNs: n(6)},
				Flush: &rpc.DriveTraffic{Requests: n(7), TimeNs: n(8)},
			}, {Name: "vdb", Read: &rpc.DriveTraffic{}, Write: &rpc.DriveTraffic{}, Flush: &rpc.DriveTraffic{}}}},
		},
		"dirty rate": {
			in: libvirt.DomainStats{DirtyRate: &libvirt.DomainStatsDirtyRate{CalcStatusSet: true, CalcStatus: measured,
				MegabytesPerSecondSet: true, MegabytesPerSecond: 3}},
			want: &rpc.StatisticsResponse{DirtyRate: n(3 << 20)},
		},
		"dirty rate that is being measured": {
			in: libvirt.DomainStats{DirtyRate: &libvirt.DomainStatsDirtyRate{CalcStatusSet: true, CalcStatus: measuring,
				MegabytesPerSecondSet: true, MegabytesPerSecond: 3}},
			want: &rpc.StatisticsResponse{},
		},
		"dirty rate that is not known": {
			in: libvirt.DomainStats{DirtyRate: &libvirt.DomainStatsDirtyRate{CalcStatusSet: true, CalcStatus: measured,
				MegabytesPerSecondSet: true, MegabytesPerSecond: -1}},
			want: &rpc.StatisticsResponse{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := statistics(&c.in)
			require.True(t, proto.Equal(c.want, got), "%v", got)
		})
	}
}

func TestCountsPairsOfCPUs(t *testing.T) {
	require.Zero(t, countPairs(nil))
	require.EqualValues(t, 3, countPairs([][]bool{{true, false, true}, {false, true}}))
}
