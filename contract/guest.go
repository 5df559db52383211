package contract

// GuestInfo is the guest agent's report: cut to size on the way, but not checked otherwise.
type GuestInfo struct {
	// AgentProblem is why the agent does not work; "": it does.
	AgentProblem string           `json:"agentProblem,omitempty"`
	OS           GuestOS          `json:"os,omitzero"`
	Interfaces   []GuestInterface `json:"interfaces,omitempty"`
}

// AccessCredentials is the state of the credentials that the guest's agent sets.
type AccessCredentials struct {
	// Done is set when the guest's users have the credentials of the Secrets. Message is why they have not.
	Done    bool   `json:"done,omitempty"`
	Message string `json:"message,omitempty"`
}

// GuestOS is the guest's operating system, with the field names of a VMI's status.guestOSInfo.
type GuestOS struct {
	ID            string `json:"id,omitempty"`
	Name          string `json:"name,omitempty"`
	Version       string `json:"version,omitempty"`
	VersionID     string `json:"versionId,omitempty"`
	PrettyName    string `json:"prettyName,omitempty"`
	KernelRelease string `json:"kernelRelease,omitempty"`
	KernelVersion string `json:"kernelVersion,omitempty"`
	Machine       string `json:"machine,omitempty"`
}

// GuestInterface is a network interface as the guest has it.
type GuestInterface struct {
	MAC  string   `json:"mac"`
	Name string   `json:"name,omitempty"` // inside the guest
	IPs  []string `json:"ips,omitempty"`
}
