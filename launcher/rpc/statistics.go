package rpc

import "errors"

// Limits for Statistics: bytes, and elements of each list. A launcher cuts its answers to them. Callers check them as
// well. QEMU gives a guest at most some hundred virtual CPUs; its disks and interfaces are limited by the slots of its
// PCI buses.
const (
	MaxStatisticsBytes = 128 << 10
	MaxVCPUs           = 512
	MaxDevices         = 64
	MaxFileSystems     = 64
)

var errTooManyStatistics = errors.New("the statistics exceed the limits of a launcher")

// CheckStatistics returns an error if an answer exceeds the limits.
func CheckStatistics(s *StatisticsResponse) error {
	if len(s.GetVcpus()) > MaxVCPUs || len(s.GetFileSystems()) > MaxFileSystems ||
		max(len(s.GetInterfaces()), len(s.GetDrives())) > MaxDevices {
		return errTooManyStatistics
	}
	return nil
}

// CutStatistics cuts an answer to the limits.
func CutStatistics(s *StatisticsResponse) {
	s.Vcpus = s.Vcpus[:min(len(s.Vcpus), MaxVCPUs)]
	s.Interfaces = s.Interfaces[:min(len(s.Interfaces), MaxDevices)]
	s.Drives = s.Drives[:min(len(s.Drives), MaxDevices)]
	s.FileSystems = s.FileSystems[:min(len(s.FileSystems), MaxFileSystems)]
}
