package libvirtd

import (
	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// statistics translates libvirt's statistics of the domain.
func statistics(in *libvirt.DomainStats) *rpc.StatisticsResponse {
	out := &rpc.StatisticsResponse{DirtyRate: dirtyRate(in.DirtyRate)}
	if c := in.Cpu; c != nil {
		out.Cpu = &rpc.CPUStatistics{
			TimeNs: value(c.TimeSet, c.Time), UserNs: value(c.UserSet, c.User), SystemNs: value(c.SystemSet, c.System),
		}
	}
	if b := in.Balloon; b != nil {
		out.Memory = memory(b)
	}
	for i := range in.Vcpu {
		// The binding returns a CPU that is not plugged in as one that is offline.
		if v := &in.Vcpu[i]; v.StateSet && (v.TimeSet || v.State != libvirt.VCPU_OFFLINE) {
			out.Vcpus = append(out.Vcpus, &rpc.VCPUStatistics{
				Id: uint32(i), State: vcpuState(v.State), TimeNs: value(v.TimeSet, v.Time),
				WaitNs: value(v.WaitSet, v.Wait), DelayNs: value(v.DelaySet, v.Delay),
			})
		}
	}
	for i := range in.Net {
		n := &in.Net[i]
		out.Interfaces = append(out.Interfaces, &rpc.InterfaceStatistics{
			Name: n.Name,
			Receive: &rpc.Traffic{
				Bytes: value(n.RxBytesSet, n.RxBytes), Packets: value(n.RxPktsSet, n.RxPkts),
				Errors: value(n.RxErrsSet, n.RxErrs), Dropped: value(n.RxDropSet, n.RxDrop),
			},
			Transmit: &rpc.Traffic{
				Bytes: value(n.TxBytesSet, n.TxBytes), Packets: value(n.TxPktsSet, n.TxPkts),
				Errors: value(n.TxErrsSet, n.TxErrs), Dropped: value(n.TxDropSet, n.TxDrop),
			},
		})
	}
	for i := range in.Block {
		b := &in.Block[i]
		out.Drives = append(out.Drives, &rpc.DriveStatistics{
			Name: b.Name,
			Read: &rpc.DriveTraffic{Requests: value(b.RdReqsSet, b.RdReqs), Bytes: value(b.RdBytesSet, b.RdBytes),
				TimeNs: value(b.RdTimesSet, b.RdTimes)},
			Write: &rpc.DriveTraffic{Requests: value(b.WrReqsSet, b.WrReqs), Bytes: value(b.WrBytesSet, b.WrBytes),
				TimeNs: value(b.WrTimesSet, b.WrTimes)},
			Flush: &rpc.DriveTraffic{Requests: value(b.FlReqsSet, b.FlReqs), TimeNs: value(b.FlTimesSet, b.FlTimes)},
		})
	}
	return out
}

// memory translates libvirt's statistics of the balloon, which are in KiB. The memory of the domain is what libvirt has
// as its current memory, as in KubeVirt: with a balloon, that of the balloon.
func memory(b *libvirt.DomainStatsBalloon) *rpc.MemoryStatistics {
	bytes := func(isSet bool, kib uint64) *uint64 { return value(isSet, kib*kibibyte) }
	return &rpc.MemoryStatistics{
		Resident: bytes(b.RssSet, b.Rss), Available: bytes(b.AvailableSet, b.Available),
		Unused: bytes(b.UnusedSet, b.Unused), Cached: bytes(b.DiskCachesSet, b.DiskCaches),
		Balloon: bytes(b.CurrentSet, b.Current), Usable: bytes(b.UsableSet, b.Usable),
		Domain: bytes(b.CurrentSet, b.Current),
		SwapIn: bytes(b.SwapInSet, b.SwapIn), SwapOut: bytes(b.SwapOutSet, b.SwapOut),
		MajorFaults: value(b.MajorFaultSet, b.MajorFault), MinorFaults: value(b.MinorFaultSet, b.MinorFault),
	}
}

// dirtyRate returns the result of the last measurement in bytes per second; nil: there is none, or one is in progress.
func dirtyRate(r *libvirt.DomainStatsDirtyRate) *uint64 {
	if r == nil || !r.CalcStatusSet || !r.MegabytesPerSecondSet || r.MegabytesPerSecond < 0 ||
		libvirt.DomainDirtyRateStatus(r.CalcStatus) != libvirt.DOMAIN_DIRTYRATE_MEASURED {
		return nil
	}
	return new(uint64(r.MegabytesPerSecond) * mebibyte)
}

func vcpuState(s libvirt.VcpuState) rpc.VCPUState {
	switch s {
	case libvirt.VCPU_OFFLINE:
		return rpc.VCPUState_VCPU_STATE_OFFLINE
	case libvirt.VCPU_RUNNING:
		return rpc.VCPUState_VCPU_STATE_RUNNING
	case libvirt.VCPU_BLOCKED:
		return rpc.VCPUState_VCPU_STATE_BLOCKED
	default:
		return rpc.VCPUState_VCPU_STATE_UNSPECIFIED
	}
}

// value returns a value that libvirt has; nil: it has none.
func value(isSet bool, v uint64) *uint64 {
	if !isSet {
		return nil
	}
	return &v
}
