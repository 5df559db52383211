package streams

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/internal/streams/wire"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// largestPicture is the largest answer of a node, in bytes.
	largestPicture = 64 << 20
	// mostInInfo is how many users and file systems KubeVirt lists in guestosinfo; userlist and filesystemlist list
	// all.
	mostInInfo = 10
)

// screenshot answers with a PNG. All errors are KubeVirt's plain 500.
func (s *Streams) screenshot(w http.ResponseWriter, r *subresources.Request) error {
	query := url.Values{}
	if r.URL.Query().Get(wire.MoveCursor) == "true" {
		query.Set(wire.MoveCursor, "true")
	}
	answer, done, err := s.read(r, "vnc/screenshot", screenCheck, wire.Screenshot, query) //nolint:bodyclose // done does
	if err != nil {
		return plainError(err)
	}
	defer done()
	w.Header().Set("Content-Type", wire.PictureType)
	if _, err := io.Copy(w, io.LimitReader(answer.Body, largestPicture)); err != nil {
		panic(http.ErrAbortHandler) // an incomplete picture must not look complete
	}
	return nil
}

func (s *Streams) guestOSInfo(w http.ResponseWriter, r *subresources.Request) error {
	return s.guest(w, r, "guestosinfo", func(d *rpc.GuestDetailsResponse) (any, error) { return agentInfo(d), nil })
}

func (s *Streams) userList(w http.ResponseWriter, r *subresources.Request) error {
	return s.guest(w, r, "userlist", func(d *rpc.GuestDetailsResponse) (any, error) {
		return kubevirtv1.VirtualMachineInstanceGuestOSUserList{Items: users(d)},
			unknownListError("its users", d.GetUsersUnknown())
	})
}

func (s *Streams) filesystemList(w http.ResponseWriter, r *subresources.Request) error {
	return s.guest(w, r, "filesystemlist", func(d *rpc.GuestDetailsResponse) (any, error) {
		return kubevirtv1.VirtualMachineInstanceFileSystemList{Items: fileSystems(d)},
			unknownListError("its file systems", d.GetFileSystemsUnknown())
	})
}

// guest answers with a part of the agent's information. All errors are KubeVirt's plain 500.
func (s *Streams) guest(
	w http.ResponseWriter, r *subresources.Request, kind string, part func(*rpc.GuestDetailsResponse) (any, error),
) error {
	d, err := s.details(r, kind)
	if err != nil {
		return plainError(err)
	}
	answer, err := part(d)
	if err != nil {
		return plainError(err)
	}
	subresources.JSON(w, http.StatusOK, answer)
	return nil
}

// plainError returns KubeVirt's plain 500, except where a limit is reached: a client may try that again.
func plainError(err error) error {
	if apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) {
		return err
	}
	return subresources.AsPlain(err)
}

// unknownListError returns an error if the agent has not returned a list; why is its reason.
func unknownListError(what, why string) error {
	if why == "" {
		return nil
	}
	return internalError("the guest's agent does not report " + what + ": " + why)
}

func (s *Streams) details(r *subresources.Request, kind string) (*rpc.GuestDetailsResponse, error) {
	answer, done, err := s.read(r, kind, agentCheck, wire.Details, nil) //nolint:bodyclose // done does
	if err != nil {
		return nil, err
	}
	defer done()
	data, err := io.ReadAll(io.LimitReader(answer.Body, rpc.MaxDetailsBytes+1))
	if err != nil || len(data) > rpc.MaxDetailsBytes {
		return nil, fmt.Errorf("reading the node's answer about the guest: %d bytes: %w", len(data), err)
	}
	d := &rpc.GuestDetailsResponse{}
	if err := proto.Unmarshal(data, d); err != nil {
		return nil, fmt.Errorf("reading the node's answer about the guest: %w", err)
	}
	if err := rpc.CheckDetails(d); err != nil {
		return nil, fmt.Errorf("reading the node's answer about the guest: %w", err)
	}
	return d, nil
}

// read sends the instance's node a request that is answered at once; done ends it. It counts as a request in flight
// until then.
func (s *Streams) read(
	r *subresources.Request, kind string, c check, what string, query url.Values,
) (*http.Response, func(), error) {
	vmi, err := s.instance(r.Context(), r, c)
	if err != nil {
		return nil, nil, err
	}
	free, err := s.acquire(kind, r)
	if err != nil {
		return nil, nil, err
	}
	answer, err := s.Nodes.read(r.Context(), vmi, what, query)
	if err != nil {
		free()
		return nil, nil, err
	}
	return answer, func() { answer.Body.Close(); free() }, nil
}

func agentInfo(d *rpc.GuestDetailsResponse) kubevirtv1.VirtualMachineInstanceGuestAgentInfo {
	os := d.GetOs()
	info := kubevirtv1.VirtualMachineInstanceGuestAgentInfo{
		GAVersion: d.GetAgentVersion(), Hostname: d.GetHostname(), Timezone: d.GetTimeZone(),
		OS: kubevirtv1.VirtualMachineInstanceGuestOSInfo{
			ID: os.GetId(), Name: os.GetName(), Version: os.GetVersion(), VersionID: os.GetVersionId(),
			PrettyName:    os.GetPrettyName(),
			KernelRelease: os.GetKernelRelease(), KernelVersion: os.GetKernelVersion(), Machine: os.GetMachine(),
		},
		UserList: atMost(users(d)),
		FSInfo:   kubevirtv1.VirtualMachineInstanceFileSystemInfo{Filesystems: atMost(fileSystems(d))},
	}
	for _, c := range d.GetCommands() {
		info.SupportedCommands = append(info.SupportedCommands,
			kubevirtv1.GuestAgentCommandInfo{Name: c.GetName(), Enabled: c.GetEnabled()})
	}
	// KubeVirt sets it only if the guest is frozen.
	if d.GetFreezeStatus() == "frozen" {
		info.FSFreezeStatus = d.GetFreezeStatus()
	}
	return info
}

// atMost cuts a list to the length that KubeVirt has in guestosinfo.
func atMost[T any](list []T) []T { return list[:min(len(list), mostInInfo)] }

func users(d *rpc.GuestDetailsResponse) []kubevirtv1.VirtualMachineInstanceGuestOSUser {
	out := []kubevirtv1.VirtualMachineInstanceGuestOSUser{}
	for _, u := range d.GetUsers() {
		out = append(out, kubevirtv1.VirtualMachineInstanceGuestOSUser{UserName: u.GetName(), Domain: u.GetDomain(),
			LoginTime: u.GetLoginTime()})
	}
	return out
}

func fileSystems(d *rpc.GuestDetailsResponse) []kubevirtv1.VirtualMachineInstanceFileSystem {
	out := []kubevirtv1.VirtualMachineInstanceFileSystem{}
	for _, f := range d.GetFileSystems() {
		item := kubevirtv1.VirtualMachineInstanceFileSystem{
			DiskName: f.GetDiskName(), MountPoint: f.GetMountPoint(), FileSystemType: f.GetType(),
			UsedBytes: int(f.GetUsedBytes()), TotalBytes: int(f.GetTotalBytes()),
		}
		for _, disk := range f.GetDisks() {
			item.Disk = append(item.Disk,
				kubevirtv1.VirtualMachineInstanceFileSystemDisk{Serial: disk.GetSerial(), BusType: disk.GetBusType()})
		}
		out = append(out, item)
	}
	return out
}
