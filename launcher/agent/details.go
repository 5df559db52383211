package agent

import (
	"fmt"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// What is kept of longer lists, in elements.
const (
	maxCommands    = 256
	maxUsers       = 256
	maxFileSystems = 256
	maxDisks       = 16
)

// Details asks for everything that KubeVirt's guestosinfo, userlist and filesystemlist tell. Only an agent that does not answer at all is an
// error: what else it does not know is left out.
func Details(c Channel) (*rpc.GuestDetailsResponse, error) {
	d := &rpc.GuestDetailsResponse{}
	var info struct {
		Version  string `json:"version"`
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := call(c, "guest-info", nil, lookTimeout, &info); err != nil {
		return nil, err
	}
	d.AgentVersion = clean(info.Version)
	for _, command := range info.Commands[:min(len(info.Commands), maxCommands)] {
		d.Commands = append(d.Commands, &rpc.GuestCommand{Name: clean(command.Name), Enabled: command.Enabled})
	}
	var host struct {
		Name string `json:"host-name"`
	}
	if call(c, "guest-get-host-name", nil, lookTimeout, &host) == nil {
		d.Hostname = clean(host.Name)
	}
	if os, err := operatingSystem(c); err == nil {
		d.Os = os
	}
	var zone struct {
		Zone   string `json:"zone"`
		Offset int32  `json:"offset"`
	}
	if call(c, "guest-get-timezone", nil, lookTimeout, &zone) == nil {
		d.TimeZone = fmt.Sprintf("%s, %d", clean(zone.Zone), zone.Offset)
	}
	d.Users, d.FileSystems = users(c), fileSystems(c)
	var frozen string
	if call(c, "guest-fsfreeze-status", nil, lookTimeout, &frozen) == nil {
		d.FreezeStatus = clean(frozen)
	}
	return d, nil
}

// users are those who are logged in.
func users(c Channel) []*rpc.GuestUser {
	var list []struct {
		User   string  `json:"user"`
		Domain string  `json:"domain"`
		Login  float64 `json:"login-time"`
	}
	if call(c, "guest-get-users", nil, lookTimeout, &list) != nil {
		return nil
	}
	var out []*rpc.GuestUser
	for _, u := range list[:min(len(list), maxUsers)] {
		out = append(out, &rpc.GuestUser{Name: clean(u.User), Domain: clean(u.Domain), LoginTime: u.Login})
	}
	return out
}

// fileSystems are those that are mounted from a disk.
func fileSystems(c Channel) []*rpc.GuestFileSystem {
	var list []struct {
		Name  string `json:"name"`
		Mount string `json:"mountpoint"`
		Type  string `json:"type"`
		Used  int64  `json:"used-bytes"`
		Total int64  `json:"total-bytes"`
		Disks []struct {
			Serial string `json:"serial"`
			Bus    string `json:"bus-type"`
		} `json:"disk"`
	}
	if call(c, "guest-get-fsinfo", nil, lookTimeout, &list) != nil {
		return nil
	}
	var out []*rpc.GuestFileSystem
	for _, f := range list[:min(len(list), maxFileSystems)] {
		found := &rpc.GuestFileSystem{
			DiskName: clean(f.Name), MountPoint: clean(f.Mount), Type: clean(f.Type), UsedBytes: f.Used, TotalBytes: f.Total,
		}
		for _, disk := range f.Disks[:min(len(f.Disks), maxDisks)] {
			found.Disks = append(found.Disks, &rpc.GuestDisk{Serial: clean(disk.Serial), BusType: clean(disk.Bus)})
		}
		out = append(out, found)
	}
	return out
}
