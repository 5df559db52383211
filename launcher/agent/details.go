package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// detailsAge is the age up to which an answer is used again, so that frequent callers do not keep the agent from other
// work.
const detailsAge = 5 * time.Second

// Details has what KubeVirt's guestosinfo, userlist and filesystemlist return. It is safe for concurrent use: any
// number of callers share one request to the agent.
type Details struct {
	channel Channel
	now     func() time.Time
	flight  singleflight.Group

	mu    sync.Mutex
	last  *rpc.GuestDetailsResponse // never changed
	err   error                     // how the last attempt failed, while nothing is known
	asked time.Time                 // when that attempt ended; zero before the first
}

// NewDetails returns Details without any answer yet.
func NewDetails(c Channel) *Details { return &Details{channel: c, now: time.Now} }

// Ask returns the agent's answer, which may be some seconds old, and must not be changed. What the agent does not
// answer now, for example while the guest is frozen, is filled in from its earlier answer; a list that it has never
// given is marked as unknown. It fails when the agent has never answered, or when ctx ends.
func (d *Details) Ask(ctx context.Context) (*rpc.GuestDetailsResponse, error) {
	if known, err, ok := d.recent(); ok {
		return known, err
	}
	select {
	case r := <-d.flight.DoChan("", d.ask):
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*rpc.GuestDetailsResponse), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the guest's agent: %w", ctx.Err())
	}
}

// Learn asks the agent without waiting: what a frozen guest cannot answer has to be known before the freeze.
func (d *Details) Learn() { d.flight.DoChan("", d.ask) }

// recent returns the last answer, or failure, if it is recent enough.
func (d *Details) recent() (known *rpc.GuestDetailsResponse, err error, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked.IsZero() || d.now().Sub(d.asked) >= detailsAge {
		return nil, nil, false
	}
	return d.last, d.err, true
}

func (d *Details) ask() (any, error) {
	if known, err, ok := d.recent(); ok {
		return known, err // another call has just asked
	}
	d.mu.Lock()
	before := d.last
	d.mu.Unlock()
	next, err := details(d.channel, before)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.err, d.asked = next, err, d.now()
	return next, err
}

// details asks for everything. What the agent does not answer is copied from before, which may be nil. It fails if the
// agent answers nothing and never has.
func details(c Channel, before *rpc.GuestDetailsResponse) (*rpc.GuestDetailsResponse, error) {
	d := &rpc.GuestDetailsResponse{UsersUnknown: "not requested", FileSystemsUnknown: "not requested"}
	if before != nil {
		d = proto.CloneOf(before)
	}
	for i, part := range []func(Channel, *rpc.GuestDetailsResponse) error{
		readVersion, freezeStatus, fileSystems, users, hostName, readSystem, timeZone,
	} {
		err := part(c, d)
		if i == 0 && err != nil && before == nil {
			return nil, err
		}
		if errors.Is(err, guest.ErrSilent) || errors.Is(err, guest.ErrUnavailable) {
			break // further commands would time out as well
		}
	}
	return dropInvalid(d), nil
}

// dropInvalid removes the file systems that callers would reject.
func dropInvalid(d *rpc.GuestDetailsResponse) *rpc.GuestDetailsResponse {
	for n := len(d.FileSystems); n > 0 && proto.Size(d) > rpc.MaxDetailsBytes; n = len(d.FileSystems) {
		d.FileSystems = d.FileSystems[:n/2]
	}
	return d
}

// readVersion reads the agent's version and commands into d.
func readVersion(c Channel, d *rpc.GuestDetailsResponse) error {
	var info struct {
		Version  string `json:"version"`
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := call(c, "guest-info", nil, lookTimeout, &info); err != nil {
		return err
	}
	d.AgentVersion, d.Commands = clean(info.Version), nil
	for _, command := range info.Commands[:min(len(info.Commands), rpc.MaxDetails)] {
		d.Commands = append(d.Commands, &rpc.GuestCommand{Name: clean(command.Name), Enabled: command.Enabled})
	}
	return nil
}

func freezeStatus(c Channel, d *rpc.GuestDetailsResponse) error {
	var frozen string
	err := call(c, "guest-fsfreeze-status", nil, lookTimeout, &frozen)
	if err == nil {
		d.FreezeStatus = clean(frozen)
	}
	return err
}

func hostName(c Channel, d *rpc.GuestDetailsResponse) error {
	var host struct {
		Name string `json:"host-name"`
	}
	err := call(c, "guest-get-host-name", nil, lookTimeout, &host)
	if err == nil {
		d.Hostname = clean(host.Name)
	}
	return err
}

// readSystem reads the guest's operating system into d.
func readSystem(c Channel, d *rpc.GuestDetailsResponse) error {
	os, err := operatingSystem(c)
	if err == nil {
		d.Os = os
	}
	return err
}

func timeZone(c Channel, d *rpc.GuestDetailsResponse) error {
	var zone struct {
		Zone   string `json:"zone"`
		Offset int32  `json:"offset"`
	}
	err := call(c, "guest-get-timezone", nil, lookTimeout, &zone)
	if err == nil {
		d.TimeZone = fmt.Sprintf("%s, %d", clean(zone.Zone), zone.Offset)
	}
	return err
}

// users asks for the users who are logged in.
func users(c Channel, d *rpc.GuestDetailsResponse) error {
	var list []struct {
		User   string  `json:"user"`
		Domain string  `json:"domain"`
		Login  float64 `json:"login-time"`
	}
	if err := call(c, "guest-get-users", nil, lookTimeout, &list); err != nil {
		d.UsersUnknown = whyUnknown(d.GetUsersUnknown(), err)
		return err
	}
	d.Users, d.UsersUnknown = nil, ""
	for _, u := range list[:min(len(list), rpc.MaxDetails)] {
		d.Users = append(d.Users, &rpc.GuestUser{Name: clean(u.User), Domain: clean(u.Domain), LoginTime: u.Login})
	}
	return nil
}

// fileSystems asks for the file systems that are mounted from a disk.
func fileSystems(c Channel, d *rpc.GuestDetailsResponse) error {
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
	if err := call(c, "guest-get-fsinfo", nil, lookTimeout, &list); err != nil {
		d.FileSystemsUnknown = whyUnknown(d.GetFileSystemsUnknown(), err)
		return err
	}
	d.FileSystems, d.FileSystemsUnknown = nil, ""
	for _, f := range list[:min(len(list), rpc.MaxDetails)] {
		found := &rpc.GuestFileSystem{
			DiskName: clean(f.Name), MountPoint: clean(f.Mount), Type: clean(f.Type), UsedBytes: f.Used,
			TotalBytes: f.Total,
		}
		for _, disk := range f.Disks[:min(len(f.Disks), rpc.MaxDetailsDisks)] {
			found.Disks = append(found.Disks, &rpc.GuestDisk{Serial: clean(disk.Serial), BusType: clean(disk.Bus)})
		}
		d.FileSystems = append(d.FileSystems, found)
	}
	return nil
}

// whyUnknown returns why a list is unknown after an error: "" if it was known before.
func whyUnknown(unknown string, err error) string {
	if unknown == "" {
		return ""
	}
	return clean(err.Error())
}
