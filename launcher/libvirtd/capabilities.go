package libvirtd

import (
	"errors"
	"fmt"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/guest"
)

const (
	hostArchitecture = "x86_64"
	hostMachine      = "q35"
)

// Capabilities returns libvirt's descriptions of the host, of domains of a type (kvm or qemu), and of the CPU that such
// a domain can have, with all its features; all as XML.
func (l *Libvirt) Capabilities(virtType string) (host, domain, baseline string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return "", "", "", guest.ErrUnavailable
	}
	if host, err = l.conn.GetCapabilities(); err != nil {
		return "", "", "", fmt.Errorf("reading the host's capabilities: %w", err)
	}
	if domain, err = l.conn.GetDomainCapabilities(l.cfg.Emulator, hostArchitecture, hostMachine, virtType,
		0); err != nil {
		return "", "", "", fmt.Errorf("reading the capabilities of %s domains: %w", virtType, err)
	}
	cpu, err := hostModel(domain)
	if err != nil {
		return "", "", "", err
	}
	baseline, err = l.conn.BaselineHypervisorCPU(l.cfg.Emulator, hostArchitecture, hostMachine, virtType, []string{cpu},
		libvirt.CONNECT_BASELINE_CPU_EXPAND_FEATURES)
	if err != nil {
		return "", "", "", fmt.Errorf("reading the CPU features of %s domains: %w", virtType, err)
	}
	return host, domain, baseline, nil
}

// hostModel returns the CPU of a domain with mode host-model, as a description of its own.
func hostModel(domain string) (string, error) {
	var caps libvirtxml.DomainCaps
	if err := caps.Unmarshal(domain); err != nil {
		return "", fmt.Errorf("reading the domain's capabilities: %w", err)
	}
	if caps.CPU == nil {
		return "", errors.New("libvirt describes no CPU modes")
	}
	for _, mode := range caps.CPU.Modes {
		if mode.Name != "host-model" || len(mode.Models) == 0 {
			continue
		}
		cpu := libvirtxml.DomainCPU{Model: &libvirtxml.DomainCPUModel{Value: mode.Models[0].Name, Fallback: "forbid"},
			Vendor: mode.Vendor}
		for _, f := range mode.Features {
			cpu.Features = append(cpu.Features, libvirtxml.DomainCPUFeature(f))
		}
		text, err := cpu.Marshal()
		if err != nil {
			return "", fmt.Errorf("describing the host's CPU: %w", err)
		}
		return text, nil
	}
	return "", errors.New("libvirt has no model for the host's CPU")
}
