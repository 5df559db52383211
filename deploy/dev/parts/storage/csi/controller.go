package csi

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ControllerGetCapabilities lists what the controllers beside the driver may ask for.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
	}
	return answer, nil
}

// CreateVolume makes a volume, empty or as a copy.
func (d *Driver) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	block, err := isBlock(r.GetVolumeCapabilities())
	if err != nil {
		return nil, err
	}
	if r.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "no name is given")
	}
	from, file, err := d.source(r.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	bytes, err := size(r.GetCapacityRange(), from.Bytes)
	if err != nil {
		return nil, err
	}
	if file != "" && from.Block != block {
		return nil, status.Error(codes.InvalidArgument, "a device is not copied to a file system, nor back")
	}
	v := image{ID: idOf(r.GetName()), Name: r.GetName(), Bytes: bytes, Block: block, Source: from.ID, Made: time.Now()}
	release, err := d.hold(v.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	have, err := d.volumes.load(v.ID)
	switch {
	case err == nil:
		if have.Block != v.Block || have.Source != v.Source || !within(r.GetCapacityRange(), have.Bytes) {
			return nil, status.Errorf(codes.AlreadyExists, "the volume %s is another one", v.Name)
		}
		v = have
	case !errors.Is(err, fs.ErrNotExist):
		return nil, failed("read the volume's record", err)
	default:
		err := d.volumes.add(v, func(to string) error {
			if file == "" {
				return format(ctx, to, v.Bytes, v.Block)
			}
			return copyTo(ctx, file, to, v.Bytes)
		})
		if err != nil {
			return nil, failed("make the volume", err)
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: v.ID, CapacityBytes: v.Bytes, ContentSource: r.GetVolumeContentSource()}}, nil
}

// source is the image to copy: its record and its file; "" if there is none.
func (d *Driver) source(s *csi.VolumeContentSource) (image, string, error) {
	switch {
	case s.GetSnapshot() != nil:
		i, err := find(d.snapshots, s.GetSnapshot().GetSnapshotId(), "snapshot")
		return i, d.snapshots.file(i.ID), err
	case s.GetVolume() != nil:
		i, err := find(d.volumes, s.GetVolume().GetVolumeId(), "volume")
		return i, d.volumes.file(i.ID), err
	case s != nil:
		return image{}, "", status.Error(codes.InvalidArgument, "neither a snapshot nor a volume is given as the source")
	}
	return image{}, "", nil
}

// size returns the size of a volume, in whole MiB: the required one, and no smaller than that of its source.
func size(r *csi.CapacityRange, least int64) (int64, error) {
	bytes := r.GetRequiredBytes()
	if bytes == 0 && least == 0 {
		bytes = defaultSize
		if limit := r.GetLimitBytes(); limit > 0 {
			bytes = min(bytes, limit)
		}
	}
	bytes = (max(bytes, least, smallest) + mib - 1) / mib * mib
	if limit := r.GetLimitBytes(); limit > 0 && bytes > limit {
		return 0, status.Errorf(codes.OutOfRange, "the volume would have %d bytes; at most %d are wanted", bytes, limit)
	}
	return bytes, nil
}

func within(r *csi.CapacityRange, bytes int64) bool {
	return bytes >= r.GetRequiredBytes() && (r.GetLimitBytes() == 0 || bytes <= r.GetLimitBytes())
}

// isBlock returns whether a volume must be a block device. Every access mode is supported: the nodes share the machine.
func isBlock(wanted []*csi.VolumeCapability) (bool, error) {
	if len(wanted) == 0 {
		return false, status.Error(codes.InvalidArgument, "no capability is given")
	}
	block := wanted[0].GetBlock() != nil
	for _, c := range wanted {
		switch {
		case c.GetBlock() == nil && c.GetMount() == nil:
			return false, status.Error(codes.InvalidArgument, "a capability is for neither a device nor a mount")
		case (c.GetBlock() != nil) != block:
			return false, status.Error(codes.InvalidArgument, "a volume is a device or a file system, not both")
		case c.GetMount().GetFsType() != "" && c.GetMount().GetFsType() != "ext4":
			return false, status.Errorf(codes.InvalidArgument, "the file system is ext4, not %s",
				c.GetMount().GetFsType())
		}
	}
	return block, nil
}

// DeleteVolume deletes a volume; one that is not there is deleted.
func (d *Driver) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := r.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "no ID of a volume is given")
	}
	release, err := d.hold(id)
	if err != nil {
		return nil, err
	}
	defer release()
	if _, err := d.volumes.load(id); errors.Is(err, fs.ErrNotExist) {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err := detach(ctx, d.volumes.file(id)); err != nil {
		return nil, failed("detach the volume's device", err)
	}
	if err := d.volumes.remove(id); err != nil {
		return nil, failed("delete the volume", err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities confirms what the volume can be used for.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	v, err := find(d.volumes, r.GetVolumeId(), "volume")
	if err != nil {
		return nil, err
	}
	block, err := isBlock(r.GetVolumeCapabilities())
	if err != nil {
		return nil, err
	}
	if block != v.Block {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: "the volume was made for the other volume mode"}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(),
		Parameters: r.GetParameters()}}, nil
}

// ControllerExpandVolume makes a volume larger; where it is in use, the node has its part to do.
func (d *Driver) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	if r.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "no capacity is given")
	}
	release, err := d.hold(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	v, err := find(d.volumes, r.GetVolumeId(), "volume")
	if err != nil {
		return nil, err
	}
	bytes, err := size(r.GetCapacityRange(), v.Bytes)
	if err != nil {
		return nil, err
	}
	if bytes > v.Bytes {
		if err := d.volumes.grow(v, bytes); err != nil {
			return nil, failed("grow the volume", err)
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: bytes, NodeExpansionRequired: true}, nil
}

// CreateSnapshot copies what is on a volume.
func (d *Driver) CreateSnapshot(
	ctx context.Context, r *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	if r.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "no name is given")
	}
	v, err := find(d.volumes, r.GetSourceVolumeId(), "volume")
	if err != nil {
		return nil, err
	}
	s := image{ID: idOf(r.GetName()), Name: r.GetName(), Bytes: v.Bytes, Block: v.Block, Source: v.ID, Made: time.Now()}
	release, err := d.hold(s.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	have, err := d.snapshots.load(s.ID)
	switch {
	case err == nil:
		if have.Source != s.Source {
			return nil, status.Errorf(codes.AlreadyExists, "the snapshot %s is another volume's", s.Name)
		}
		s = have
	case !errors.Is(err, fs.ErrNotExist):
		return nil, failed("read the snapshot's record", err)
	default:
		err := d.snapshots.add(s, func(to string) error {
			return copyTo(ctx, d.volumes.file(v.ID), to, s.Bytes)
		})
		if err != nil {
			return nil, failed("make the snapshot", err)
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Source,
		SizeBytes: s.Bytes, CreationTime: timestamppb.New(s.Made), ReadyToUse: true}}, nil
}

// DeleteSnapshot deletes a snapshot; one that is not there is deleted.
func (d *Driver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id := r.GetSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "no ID of a snapshot is given")
	}
	release, err := d.hold(id)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := d.snapshots.remove(id); err != nil {
		return nil, failed("delete the snapshot", err)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}
