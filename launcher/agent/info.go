package agent

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// Limits for the guest's answers, in bytes and in elements: a guest may send anything, of any length.
const (
	maxText       = 256
	maxInterfaces = 32
	maxAddresses  = 8
)

// lookTimeout is the time that the agent has for each answer. After one that does not come, the poller asks nothing
// more in this round.
const lookTimeout = 5 * time.Second

// KubeVirt's messages for an agent that lacks one of the required commands.
const (
	NotSupported          = "This guest agent doesn't support required basic commands"
	notSupportedKeys      = "This guest agent doesn't support required public key commands"
	notSupportedPasswords = "This guest agent doesn't support required password commands"
)

// Commands that only some guests need.
const (
	commandAddKeys     = "guest-ssh-add-authorized-keys"
	commandSetPassword = "guest-set-user-password"
)

// Needs has the optional features that a guest's agent must support.
type Needs struct{ Keys, Passwords bool }

// required returns the commands without which KubeVirt reports an agent as unsupported.
func required() []string {
	return []string{
		"guest-ping", "guest-get-time", "guest-info", "guest-shutdown", "guest-network-get-interfaces",
		"guest-get-fsinfo",
		"guest-get-host-name", "guest-get-users", "guest-get-timezone", "guest-get-osinfo",
	}
}

// findProblem asks for the agent's version and commands, and returns what is wrong with them, or "".
func findProblem(c Channel, needs Needs) (string, error) {
	var info struct {
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := call(c, "guest-info", nil, lookTimeout, &info); err != nil {
		return "", err
	}
	enabled := map[string]bool{}
	for _, command := range info.Commands {
		enabled[command.Name] = command.Enabled
	}
	for _, name := range required() {
		if !enabled[name] {
			return NotSupported, nil
		}
	}
	switch {
	case needs.Keys && !enabled[commandAddKeys]:
		return notSupportedKeys, nil
	case needs.Passwords && !enabled[commandSetPassword]:
		return notSupportedPasswords, nil
	}
	return "", nil
}

func operatingSystem(c Channel) (*rpc.GuestOS, error) {
	var os struct {
		ID            string `json:"id"`
		Name          string `json:"name"`
		Version       string `json:"version"`
		VersionID     string `json:"version-id"`
		PrettyName    string `json:"pretty-name"`
		KernelRelease string `json:"kernel-release"`
		KernelVersion string `json:"kernel-version"`
		Machine       string `json:"machine"`
	}
	if err := call(c, "guest-get-osinfo", nil, lookTimeout, &os); err != nil {
		return nil, err
	}
	text := clean
	return &rpc.GuestOS{
		Id: text(os.ID), Name: text(os.Name), Version: text(os.Version), VersionId: text(os.VersionID),
		PrettyName:    text(os.PrettyName),
		KernelRelease: text(os.KernelRelease), KernelVersion: text(os.KernelVersion), Machine: text(os.Machine),
	}, nil
}

// interfaces asks for the guest's network interfaces that have a hardware address, except the loopback.
func interfaces(c Channel) ([]*rpc.GuestInterface, error) {
	var list []struct {
		Name      string `json:"name"`
		MAC       string `json:"hardware-address"`
		Addresses []struct {
			Address string `json:"ip-address"`
		} `json:"ip-addresses"`
	}
	if err := call(c, "guest-network-get-interfaces", nil, lookTimeout, &list); err != nil {
		return nil, err
	}
	var out []*rpc.GuestInterface
	for _, i := range list {
		mac, err := net.ParseMAC(i.MAC)
		if err != nil || i.Name == "lo" || len(out) == maxInterfaces {
			continue
		}
		found := &rpc.GuestInterface{Mac: mac.String(), Name: clean(i.Name)}
		for _, a := range i.Addresses {
			address, err := netip.ParseAddr(a.Address)
			if err != nil || len(found.GetAddresses()) == maxAddresses ||
				slices.Contains(found.GetAddresses(), address.WithZone("").String()) {
				continue
			}
			found.Addresses = append(found.Addresses, address.WithZone("").String())
		}
		out = append(out, found)
	}
	return out, nil
}

// clean returns s as one line of valid, printable UTF-8 in at most maxText bytes.
func clean(s string) string {
	s = contract.Cut(s, 2*maxText)
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(contract.Cut(s, maxText))
}
