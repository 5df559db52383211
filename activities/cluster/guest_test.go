package cluster

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// written is the status as a VMI has it once the patch is merged.
func written(t *testing.T, s *contract.VMIStatus) kubevirt.VirtualMachineInstanceStatus {
	t.Helper()
	b, err := json.Marshal(vmiStatus(s, nil))
	require.NoError(t, err)
	var out kubevirt.VirtualMachineInstanceStatus
	require.NoError(t, json.Unmarshal(b, &out))
	return out
}

func TestInterfacesJoinDomainAndGuest(t *testing.T) {
	domain := []contract.DomainInterface{
		{Name: "default", MAC: "02:00:00:00:00:0A", PodInterfaceName: "eth0", QueueCount: 1,
			LinkState: "up"}, {Name: "lan", MAC: "02:00:00:00:00:0b"}}
	first := kubevirt.VirtualMachineInstanceNetworkInterface{
		Name: "default", MAC: "02:00:00:00:00:0A", PodInterfaceName: "eth0", QueueCount: 1, LinkState: "up",
		InfoSource: "domain", IP: "10.1.0.5", IPs: []string{"10.1.0.5"},
	}
	second := kubevirt.VirtualMachineInstanceNetworkInterface{Name: "lan", MAC: "02:00:00:00:00:0b",
		InfoSource: "domain, multus-status"}
	s := &contract.VMIStatus{Interfaces: domain, IPs: []string{"10.1.0.5"}, AgentConnected: true}
	require.Equal(t, []kubevirt.VirtualMachineInstanceNetworkInterface{first, second}, written(t, s).Interfaces,
		"an agent that says nothing adds nothing")

	s.Guest = &contract.GuestInfo{Interfaces: []contract.GuestInterface{
		{MAC: "02:00:00:00:00:0b", Name: "eth1", IPs: []string{"192.168.1.7", "fe80::1"}},
		{MAC: "02:00:00:00:00:0a", Name: "eth0", IPs: []string{"10.0.2.2", "fe80::2"}},
		{MAC: "02:42:00:00:00:01", Name: "docker0", IPs: []string{"172.17.0.1"}},
	}}
	first.InterfaceName, first.InfoSource = "eth0", "domain, guest-agent"
	second.InterfaceName, second.InfoSource = "eth1", "domain, guest-agent, multus-status"
	second.IP, second.IPs = "192.168.1.7", []string{"192.168.1.7", "fe80::1"}
	docker := kubevirt.VirtualMachineInstanceNetworkInterface{InterfaceName: "docker0", MAC: "02:42:00:00:00:01",
		InfoSource: "guest-agent", IP: "172.17.0.1", IPs: []string{"172.17.0.1"}}
	require.Equal(t, []kubevirt.VirtualMachineInstanceNetworkInterface{first, second, docker}, written(t, s).Interfaces)
}

func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct{ pod, guest, want []string }{
		"translated": {[]string{"10.1.0.5", "fd00::5"}, []string{"10.0.2.2", "fd10::2"},
			[]string{"10.1.0.5", "fd00::5"}},
		"the guest has no IPv6":    {[]string{"10.1.0.5", "fd00::5"}, []string{"10.0.2.2"}, []string{"10.1.0.5"}},
		"link-local leads nowhere": {[]string{"10.1.0.5"}, []string{"10.0.2.2", "fe80::1"}, []string{"10.1.0.5"}},
		"the guest has more": {[]string{"10.1.0.5"}, []string{"10.0.2.2", "2001:db8::1"},
			[]string{"10.1.0.5", "2001:db8::1"}},
		"no address in the guest": {[]string{"10.1.0.5"}, nil, nil},
		"not of the pod":          {nil, []string{"192.168.1.7", "fe80::1"}, []string{"192.168.1.7", "fe80::1"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, addresses(c.pod, c.guest)) })
	}
}

// TestThePodNetworkComesFirst: the pod network comes first, whatever the order in the spec is, and only it has the
// pod's addresses.
func TestThePodNetworkComesFirst(t *testing.T) {
	s := &contract.VMIStatus{IPs: []string{"10.1.0.5", "fd00::5"}, Interfaces: []contract.DomainInterface{
		{Name: "lan", PodInterfaceName: "pod16367aacb67"}, {Name: "default", PodInterfaceName: "eth0"},
	}}
	got := written(t, s).Interfaces
	require.Equal(t, "default", got[0].Name)
	require.Equal(t, []string{"10.1.0.5", "fd00::5"}, got[0].IPs)
	require.Equal(t, "lan", got[1].Name)
	require.Empty(t, got[1].IPs)

	s.Interfaces[1].Bridged = true
	require.Equal(t, []string{"10.1.0.5"}, written(t, s).Interfaces[0].IPs, "a bridged guest has no IPv6 from its pod")
}

func TestAGuestWithManyInterfacesOfItsOwnShowsTen(t *testing.T) {
	s := &contract.VMIStatus{Guest: &contract.GuestInfo{}}
	for i := range 30 {
		s.Guest.Interfaces = append(s.Guest.Interfaces,
			contract.GuestInterface{MAC: fmt.Sprintf("02:42:00:00:00:%02x", i)})
	}
	require.Len(t, written(t, s).Interfaces, 10)
}

func TestGuestOSInfo(t *testing.T) {
	os := contract.GuestOS{ID: "debian", Name: "Debian", Version: "12 (bookworm)", VersionID: "12",
		PrettyName: "Debian 12", KernelRelease: "6.1", KernelVersion: "#1", Machine: "x86_64"}
	require.Equal(t, kubevirt.VirtualMachineInstanceGuestOSInfo{
		ID: "debian", Name: "Debian", Version: "12 (bookworm)", VersionID: "12", PrettyName: "Debian 12",
		KernelRelease: "6.1", KernelVersion: "#1", Machine: "x86_64",
	}, written(t, &contract.VMIStatus{Guest: &contract.GuestInfo{OS: os}}).GuestOSInfo)
	require.NotContains(t, vmiStatus(&contract.VMIStatus{}, nil), "guestOSInfo", "what is not known stays as it is")
}
