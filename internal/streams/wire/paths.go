package wire

import (
	"fmt"
	"net/url"
)

const (
	// Port of the access server, which is that of KubeVirt's node agent.
	Port = 8186
	// Upgrade is the protocol to which a stream's request upgrades.
	Upgrade = "virtflow-stream"
	// ServerName and ClientName are the DNS names in the certificates of the two roles. No host has these names: they
	// identify a role, not an address.
	ServerName = "virtflow-node-worker"
	ClientName = "virtflow-api-server"
	// PictureType and DetailsType are the content types of a screenshot and of a GuestDetailsResponse (launcher/rpc).
	PictureType = "image/png"
	DetailsType = "application/x-protobuf"
)

// The server's patterns. If the pod is not one of the VMI with that UID, the answer is 404.
const (
	prefix             = "GET /v1/vmis/{vmi}/pods/{pod}/"
	PatternConsole     = prefix + "console"
	PatternVNC         = prefix + "vnc"
	PatternScreenshot  = prefix + "vnc/screenshot"
	PatternUSBRedir    = prefix + "usbredir"
	PatternPortForward = prefix + "portforward/{port}/{protocol}"
	PatternDetails     = prefix + "guest"
)

// What a client requests of a guest.
const (
	Console    = "console"
	VNC        = "vnc"
	Screenshot = "vnc/screenshot"
	USBRedir   = "usbredir"
	Details    = "guest"
)

// Query parameters of VNC and Screenshot; both are KubeVirt's.
const (
	PreserveSession = "preserveSession"
	MoveCursor      = "moveCursor"
)

// Path returns the path of a resource of a VMI's guest, in the pod of its launcher; both are UIDs.
func Path(vmi, pod, what string) string {
	return "/v1/vmis/" + url.PathEscape(vmi) + "/pods/" + url.PathEscape(pod) + "/" + what
}

// PortForward returns the resource for a port of the guest; the protocol is tcp or udp.
func PortForward(port uint16, protocol string) string {
	return fmt.Sprintf("portforward/%d/%s", port, protocol)
}
