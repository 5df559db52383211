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

// detailsAge is how old an answer may be: whoever asks all the time must not keep the agent from what else it has to
// do.
const detailsAge = 5 * time.Second

// Details is everything that KubeVirt's guestosinfo, userlist and filesystemlist tell. It is safe for concurrent use:
// however many ask, the agent is asked once.
type Details struct {
	channel Channel
	now     func() time.Time
	flight  singleflight.Group

	mu    sync.Mutex
	last  *rpc.GuestDetailsResponse // never changed
	err   error                     // how the last attempt failed, while nothing is known
	asked time.Time                 // when that attempt ended; zero before the first
}

// NewDetails makes one that knows nothing yet.
func NewDetails(c Channel) *Details { return &Details{channel: c, now: time.Now} }

// Ask is what the agent says, or said some seconds ago; the answer must not be changed. What it does not say now, as it
// does not while the guest is frozen, is what it said before, and a list that it never told is marked as unknown. It
// fails when the agent has never answered, and when ctx ends.
func (d *Details) Ask(ctx context.Context) (*rpc.GuestDetailsResponse, error) {
	if known, err, ok := d.recent(); ok {
		return known, err
	}
	select {
	case r := <-d.flight.DoChan("", d.ask):
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*rpc.GuestDetailsResponse), nil //nolint:forcetypeassert // ask returns nothing else
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the guest's agent: %w", ctx.Err())
	}
}

// Learn has the agent asked, and does not wait: what a frozen guest does not say has to be known before.
func (d *Details) Learn() { d.flight.DoChan("", d.ask) }

// recent is the last answer, or failure, while it is young enough.
func (d *Details) recent() (known *rpc.GuestDetailsResponse, err error, ok bool) { //nolint:revive,staticcheck // the error is a part of what is kept
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked.IsZero() || d.now().Sub(d.asked) >= detailsAge {
		return nil, nil, false
	}
	return d.last, d.err, true
}

func (d *Details) ask() (any, error) {
	if known, err, ok := d.recent(); ok {
		return known, err // asked while this call came
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

// details asks for everything. What is not answered is as it was before, which may be nil. The error is that of an
// agent which says nothing at all and never has.
func details(c Channel, before *rpc.GuestDetailsResponse) (*rpc.GuestDetailsResponse, error) {
	d := &rpc.GuestDetailsResponse{UsersUnknown: "it was not asked", FileSystemsUnknown: "it was not asked"}
	if before != nil {
		d = proto.CloneOf(before)
	}
	for i, part := range []func(Channel, *rpc.GuestDetailsResponse) error{
		version, freezeStatus, fileSystems, users, hostName, system, timeZone,
	} {
		err := part(c, d)
		if i == 0 && err != nil && before == nil {
			return nil, err
		}
		if errors.Is(err, guest.ErrSilent) || errors.Is(err, guest.ErrUnavailable) {
			break // the rest would take as long
		}
	}
	return fitting(d), nil
}

// fitting leaves file systems out that whoever asks would not take.
func fitting(d *rpc.GuestDetailsResponse) *rpc.GuestDetailsResponse {
	for n := len(d.FileSystems); n > 0 && proto.Size(d) > rpc.MaxDetailsBytes; n = len(d.FileSystems) {
		d.FileSystems = d.FileSystems[:n/2]
	}
	return d
}

func version(c Channel, d *rpc.GuestDetailsResponse) error {
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

func system(c Channel, d *rpc.GuestDetailsResponse) error {
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

// users are those who are logged in.
func users(c Channel, d *rpc.GuestDetailsResponse) error {
	var list []struct {
		User   string  `json:"user"`
		Domain string  `json:"domain"`
		Login  float64 `json:"login-time"`
	}
	if err := call(c, "guest-get-users", nil, lookTimeout, &list); err != nil {
		d.UsersUnknown = still(d.GetUsersUnknown(), err)
		return err
	}
	d.Users, d.UsersUnknown = nil, ""
	for _, u := range list[:min(len(list), rpc.MaxDetails)] {
		d.Users = append(d.Users, &rpc.GuestUser{Name: clean(u.User), Domain: clean(u.Domain), LoginTime: u.Login})
	}
	return nil
}

// fileSystems are those that are mounted from a disk.
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
		d.FileSystemsUnknown = still(d.GetFileSystemsUnknown(), err)
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

// still is why a list is unknown after an error: "" when it was known before.
func still(unknown string, err error) string {
	if unknown == "" {
		return ""
	}
	return clean(err.Error())
}
