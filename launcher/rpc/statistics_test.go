package rpc

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// most returns the largest answer that a launcher may give, with the longest texts that it takes from a guest.
func most() *StatisticsResponse {
	s := &StatisticsResponse{}
	for i := range MaxVCPUs {
		s.Vcpus = append(s.Vcpus, &VCPUStatistics{Id: uint32(i), State: VCPUState_VCPU_STATE_RUNNING,
			TimeNs: new(uint64(math.MaxUint64)), WaitNs: new(uint64(math.MaxUint64)),
			DelayNs: new(uint64(math.MaxUint64))})
	}
	for range MaxFileSystems {
		s.FileSystems = append(s.FileSystems, &GuestFileSystem{DiskName: strings.Repeat("d", 256),
			MountPoint: strings.Repeat("m", 256), Type: strings.Repeat("t", 256), UsedBytes: -1, TotalBytes: -1})
	}
	big := &DriveTraffic{Requests: new(uint64(math.MaxUint64)), Bytes: new(uint64(math.MaxUint64)),
		TimeNs: new(uint64(math.MaxUint64))}
	traffic := &Traffic{Bytes: big.Bytes, Packets: big.Bytes, Errors: big.Bytes, Dropped: big.Bytes}
	for range MaxDevices {
		s.Drives = append(s.Drives,
			&DriveStatistics{Name: strings.Repeat("n", 63), Read: big, Write: big, Flush: big})
		s.Interfaces = append(s.Interfaces,
			&InterfaceStatistics{Name: strings.Repeat("n", 63), Receive: traffic, Transmit: traffic})
	}
	return s
}

func TestLargestStatisticsFitIntoOneMessage(t *testing.T) {
	require.NoError(t, CheckStatistics(&StatisticsResponse{}))
	require.NoError(t, CheckStatistics(most()))
	require.LessOrEqual(t, proto.Size(most()), MaxStatisticsBytes)
}

func TestStatisticsAreBounded(t *testing.T) {
	for name, add := range map[string]func(*StatisticsResponse){
		"virtual CPUs": func(s *StatisticsResponse) { s.Vcpus = append(s.Vcpus, nil) },
		"interfaces":   func(s *StatisticsResponse) { s.Interfaces = append(s.Interfaces, nil) },
		"drives":       func(s *StatisticsResponse) { s.Drives = append(s.Drives, nil) },
		"file systems": func(s *StatisticsResponse) { s.FileSystems = append(s.FileSystems, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := most()
			add(s)
			require.ErrorIs(t, CheckStatistics(s), errTooManyStatistics)
			CutStatistics(s)
			require.NoError(t, CheckStatistics(s))
		})
	}
}
