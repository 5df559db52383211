package statistics

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// metric describes one of KubeVirt's metrics.
type metric struct {
	name   string // without kubevirt_vmi_
	help   string
	kind   prometheus.ValueType
	labels []string // beside those of the VMI
}

// sample is one value of a metric.
type sample struct {
	metric id
	value  float64
	labels []string
}

// id is the index of a metric in metrics.
type id int

// The metrics.
const (
	cpuUsage id = iota
	cpuUser
	cpuSystem
	vcpuTime
	vcpuWait
	vcpuDelay
	affinity
	memoryResident
	memoryAvailable
	memoryUnused
	memoryCached
	memoryBalloon
	memoryUsable
	memoryDomain
	memorySwapIn
	memorySwapOut
	memoryMajor
	memoryMinor
	dirtyRate
	networkBytes
	receiveBytes
	receivePackets
	receiveErrors
	receiveDropped
	transmitBytes
	transmitPackets
	transmitErrors
	transmitDropped
	readRequests
	readBytes
	readTime
	writeRequests
	writeBytes
	writeTime
	flushRequests
	flushTime
	filesCapacity
	filesUsed
	load1
	load5
	load15
)

// Labels beside those of the VMI.
var (
	byVCPU       = []string{"id"}
	byInterface  = []string{"interface"}
	byDrive      = []string{"drive"}
	byFileSystem = []string{"disk_name", "mount_point", "file_system_type"}
)

// metrics returns the descriptions, by id.
func metrics() []metric {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	return []metric{
		cpuUsage:  {"cpu_usage_seconds_total", "CPU time of QEMU with all its threads.", counter, nil},
		cpuUser:   {"cpu_user_usage_seconds_total", "CPU time of QEMU in user mode.", counter, nil},
		cpuSystem: {"cpu_system_usage_seconds_total", "CPU time of QEMU in kernel mode.", counter, nil},
		vcpuTime: {"vcpu_seconds_total", "CPU time of a virtual CPU, by the state that it is in now.", counter,
			[]string{"id", "state"}},
		vcpuWait:  {"vcpu_wait_seconds_total", "Time that a virtual CPU has waited for I/O.", counter, byVCPU},
		vcpuDelay: {"vcpu_delay_seconds_total", "Time that a virtual CPU has waited for a CPU.", counter, byVCPU},
		affinity: {"node_cpu_affinity", "Pairs of a virtual CPU and a CPU of the node on which it may run.", gauge,
			nil},
		memoryResident:  {"memory_resident_bytes", "Resident memory of QEMU.", gauge, nil},
		memoryAvailable: {"memory_available_bytes", "Memory that the guest can use.", gauge, nil},
		memoryUnused:    {"memory_unused_bytes", "Memory that the guest does not use at all.", gauge, nil},
		memoryCached:    {"memory_cached_bytes", "Memory that the guest uses as cache of its disks.", gauge, nil},
		memoryBalloon:   {"memory_actual_balloon_bytes", "Memory that the balloon leaves to the guest.", gauge, nil},
		memoryUsable: {"memory_usable_bytes", "Memory that the guest can free without swapping (MemAvailable).",
			gauge, nil},
		memoryDomain:  {"memory_domain_bytes", "Current memory of the domain.", gauge, nil},
		memorySwapIn:  {"memory_swap_in_traffic_bytes", "Bytes that the guest has read from its swap.", gauge, nil},
		memorySwapOut: {"memory_swap_out_traffic_bytes", "Bytes that the guest has written to its swap.", gauge, nil},
		memoryMajor:   {"memory_pgmajfault_total", "Page faults of the guest that needed a disk.", counter, nil},
		memoryMinor:   {"memory_pgminfault_total", "Page faults of the guest that needed no disk.", counter, nil},
		dirtyRate: {"dirty_rate_bytes_per_second", "How fast the guest changes its memory, by samples of a second.",
			gauge, nil},
		networkBytes: {"network_traffic_bytes_total", "Bytes received (rx) and sent (tx) by the guest; deprecated.",
			counter, []string{"interface", "type"}},
		receiveBytes:   {"network_receive_bytes_total", "Bytes that the guest has received.", counter, byInterface},
		receivePackets: {"network_receive_packets_total", "Packets that the guest has received.", counter, byInterface},
		receiveErrors:  {"network_receive_errors_total", "Errors of receiving.", counter, byInterface},
		receiveDropped: {"network_receive_packets_dropped_total", "Packets to the guest that were dropped.", counter,
			byInterface},
		transmitBytes:   {"network_transmit_bytes_total", "Bytes that the guest has sent.", counter, byInterface},
		transmitPackets: {"network_transmit_packets_total", "Packets that the guest has sent.", counter, byInterface},
		transmitErrors:  {"network_transmit_errors_total", "Errors of sending.", counter, byInterface},
		transmitDropped: {"network_transmit_packets_dropped_total", "Packets of the guest that were dropped.", counter,
			byInterface},
		readRequests:  {"storage_iops_read_total", "Reads of a disk.", counter, byDrive},
		readBytes:     {"storage_read_traffic_bytes_total", "Bytes read from a disk.", counter, byDrive},
		readTime:      {"storage_read_times_seconds_total", "Time that reads took.", counter, byDrive},
		writeRequests: {"storage_iops_write_total", "Writes to a disk.", counter, byDrive},
		writeBytes:    {"storage_write_traffic_bytes_total", "Bytes written to a disk.", counter, byDrive},
		writeTime:     {"storage_write_times_seconds_total", "Time that writes took.", counter, byDrive},
		flushRequests: {"storage_flush_requests_total", "Flushes of a disk's cache.", counter, byDrive},
		flushTime:     {"storage_flush_times_seconds_total", "Time that flushes took.", counter, byDrive},
		filesCapacity: {"filesystem_capacity_bytes", "Size of a file system of the guest.", gauge, byFileSystem},
		filesUsed:     {"filesystem_used_bytes", "Used bytes of a file system of the guest.", gauge, byFileSystem},
		load1:         {"guest_load_1m", "Load average of the guest over a minute.", gauge, nil},
		load5:         {"guest_load_5m", "Load average of the guest over 5 minutes.", gauge, nil},
		load15:        {"guest_load_15m", "Load average of the guest over 15 minutes.", gauge, nil},
	}
}

// samples are those of one guest.
type samples []sample

// measure returns the values of the metrics of a guest. What libvirt or the agent does not know has none.
func measure(s *rpc.StatisticsResponse) samples {
	out := make(samples, 0, 32+3*len(s.GetVcpus())+10*len(s.GetInterfaces())+8*len(s.GetDrives()))
	if c := s.GetCpu(); c != nil {
		out.time(cpuUsage, c.TimeNs)
		out.time(cpuUser, c.UserNs)
		out.time(cpuSystem, c.SystemNs)
	}
	for _, v := range s.GetVcpus() {
		name := strconv.FormatUint(uint64(v.GetId()), 10)
		out.time(vcpuTime, v.TimeNs, name, stateName(v.GetState()))
		out.time(vcpuWait, v.WaitNs, name)
		out.time(vcpuDelay, v.DelayNs, name)
	}
	if s.Affinities != nil {
		out.add(affinity, float64(s.GetAffinities()))
	}
	out.memory(s.GetMemory())
	out.count(dirtyRate, s.DirtyRate)
	for _, i := range s.GetInterfaces() {
		out.network(i)
	}
	for _, d := range s.GetDrives() {
		out.drive(d)
	}
	for _, f := range s.GetFileSystems() {
		out.add(filesCapacity, float64(f.GetTotalBytes()), f.GetDiskName(), f.GetMountPoint(), f.GetType())
		out.add(filesUsed, float64(f.GetUsedBytes()), f.GetDiskName(), f.GetMountPoint(), f.GetType())
	}
	if l := s.GetLoad(); l != nil {
		out.add(load1, l.GetOneMinute())
		out.add(load5, l.GetFiveMinutes())
		out.add(load15, l.GetFifteenMinutes())
	}
	return out
}

func (s *samples) memory(m *rpc.MemoryStatistics) {
	if m == nil {
		return
	}
	s.count(memoryResident, m.Resident)
	s.count(memoryAvailable, m.Available)
	s.count(memoryUnused, m.Unused)
	s.count(memoryCached, m.Cached)
	s.count(memoryBalloon, m.Balloon)
	s.count(memoryUsable, m.Usable)
	s.count(memoryDomain, m.Domain)
	s.count(memorySwapIn, m.SwapIn)
	s.count(memorySwapOut, m.SwapOut)
	s.count(memoryMajor, m.MajorFaults)
	s.count(memoryMinor, m.MinorFaults)
}

func (s *samples) network(i *rpc.InterfaceStatistics) {
	name := i.GetName()
	if r := i.GetReceive(); r != nil {
		s.count(networkBytes, r.Bytes, name, "rx")
		s.count(receiveBytes, r.Bytes, name)
		s.count(receivePackets, r.Packets, name)
		s.count(receiveErrors, r.Errors, name)
		s.count(receiveDropped, r.Dropped, name)
	}
	if t := i.GetTransmit(); t != nil {
		s.count(networkBytes, t.Bytes, name, "tx")
		s.count(transmitBytes, t.Bytes, name)
		s.count(transmitPackets, t.Packets, name)
		s.count(transmitErrors, t.Errors, name)
		s.count(transmitDropped, t.Dropped, name)
	}
}

func (s *samples) drive(d *rpc.DriveStatistics) {
	name := d.GetName()
	if r := d.GetRead(); r != nil {
		s.count(readRequests, r.Requests, name)
		s.count(readBytes, r.Bytes, name)
		s.time(readTime, r.TimeNs, name)
	}
	if w := d.GetWrite(); w != nil {
		s.count(writeRequests, w.Requests, name)
		s.count(writeBytes, w.Bytes, name)
		s.time(writeTime, w.TimeNs, name)
	}
	if f := d.GetFlush(); f != nil {
		s.count(flushRequests, f.Requests, name)
		s.time(flushTime, f.TimeNs, name)
	}
}

// time adds nanoseconds as seconds; nil: they are not known.
func (s *samples) time(m id, ns *uint64, labels ...string) {
	if ns != nil {
		s.add(m, float64(*ns)/1e9, labels...)
	}
}

// count adds a number; nil: it is not known.
func (s *samples) count(m id, n *uint64, labels ...string) {
	if n != nil {
		s.add(m, float64(*n), labels...)
	}
}

func (s *samples) add(m id, v float64, labels ...string) {
	if !math.IsNaN(v) {
		*s = append(*s, sample{metric: m, value: v, labels: labels})
	}
}

func stateName(s rpc.VCPUState) string {
	switch s {
	case rpc.VCPUState_VCPU_STATE_OFFLINE:
		return "offline"
	case rpc.VCPUState_VCPU_STATE_RUNNING:
		return "running"
	case rpc.VCPUState_VCPU_STATE_BLOCKED:
		return "blocked"
	case rpc.VCPUState_VCPU_STATE_UNSPECIFIED:
	}
	return "unknown"
}
