package csi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/mount-utils"
)

// NodeGetInfo names the node.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

// NodeGetCapabilities lists what the kubelet may ask for.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return answer, nil
}

// NodeStageVolume attaches the volume's device, and mounts its file system.
func (d *Driver) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	v, release, err := d.forNode(r.GetVolumeId(), r.GetStagingTargetPath(), r.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	defer release()
	device, err := attach(ctx, d.volumes.file(v.ID))
	if err != nil {
		return nil, failed("attach the volume", err)
	}
	if v.Block {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	options := r.GetVolumeCapability().GetMount().GetMountFlags()
	// It may have grown since it was used last, or be a copy of a smaller one.
	if err := fill(ctx, device); err != nil {
		return nil, failed("grow the volume's file system", err)
	}
	if err := mountAt(device, r.GetStagingTargetPath(), "ext4", options); err != nil {
		return nil, failed("mount the volume", err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume unmounts the volume's file system. The device stays as long as the volume does: another node may
// be using it.
func (d *Driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	if err := d.unmount(r.GetVolumeId(), r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume puts the volume where a pod sees it.
func (d *Driver) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	v, release, err := d.forNode(r.GetVolumeId(), r.GetTargetPath(), r.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	defer release()
	if r.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "no staging path is given")
	}
	options := []string{"bind"}
	if r.GetReadonly() {
		options = append(options, "ro")
	}
	source := r.GetStagingTargetPath()
	if v.Block {
		if source, err = attach(ctx, d.volumes.file(v.ID)); err != nil {
			return nil, failed("attach the volume", err)
		}
		if err := touch(r.GetTargetPath()); err != nil {
			return nil, failed("make the file that the device is mounted over", err)
		}
	}
	if err := mountAt(source, r.GetTargetPath(), "", options); err != nil {
		return nil, failed("mount the volume for the pod", err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes the volume away from a pod.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := d.unmount(r.GetVolumeId(), r.GetTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume has the device, and the file system, fill a volume that has grown.
func (d *Driver) NodeExpandVolume(ctx context.Context, r *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	v, err := d.inUse(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	device, err := attach(ctx, d.volumes.file(v.ID))
	if err != nil {
		return nil, failed("attach the volume", err)
	}
	if !v.Block {
		// Not everywhere may a mounted ext4 grow (CAP_SYS_RESOURCE). The kubelet takes this answer as: when the
		// volume is not in use any more.
		if err := run(ctx, "resize2fs", device); err != nil {
			return nil, status.Errorf(codes.FailedPrecondition, "grow the volume's file system in use: %v", err)
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.Bytes}, nil
}

// NodeGetVolumeStats returns the capacity and the usage of a volume.
func (d *Driver) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	v, err := d.inUse(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if v.Block {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
			{Unit: csi.VolumeUsage_BYTES, Total: v.Bytes}}}, nil
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(r.GetVolumePath(), &s); err != nil {
		return nil, failed("ask for the file system's use", err)
	}
	bytes := func(blocks uint64) int64 { return int64(blocks) * s.Bsize } // far from the limit
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: bytes(s.Blocks), Available: bytes(s.Bavail),
			Used: bytes(s.Blocks - s.Bfree)},
		{Unit: csi.VolumeUsage_INODES, Total: int64(s.Files), Available: int64(s.Ffree),
			Used: int64(s.Files - s.Ffree)},
	}}, nil
}

// forNode returns the volume of a node's call, with its path and its mode, and holds it.
func (d *Driver) forNode(id, path string, c *csi.VolumeCapability) (image, func(), error) {
	if id == "" || path == "" || c == nil {
		return image{}, nil, status.Error(codes.InvalidArgument, "volume, path and capability have to be given")
	}
	block, err := isBlock([]*csi.VolumeCapability{c})
	if err != nil {
		return image{}, nil, err
	}
	v, err := find(d.volumes, id, "volume")
	if err != nil {
		return v, nil, err
	}
	if v.Block != block {
		return v, nil, status.Errorf(codes.InvalidArgument, "the volume %s was made for the other volume mode", id)
	}
	release, err := d.hold(id)
	return v, release, err
}

// inUse is the volume that is at a path.
func (d *Driver) inUse(id, path string) (image, error) {
	if id == "" || path == "" {
		return image{}, status.Error(codes.InvalidArgument, "volume and path have to be given")
	}
	v, err := find(d.volumes, id, "volume")
	if err != nil {
		return v, err
	}
	if _, err := os.Stat(path); err != nil {
		return v, status.Errorf(codes.NotFound, "the volume %s is not at %s", id, path)
	}
	return v, nil
}

// unmount unmounts what is at a path, and removes the path.
func (d *Driver) unmount(id, path string) error {
	if id == "" || path == "" {
		return status.Error(codes.InvalidArgument, "volume and path have to be given")
	}
	release, err := d.hold(id)
	if err != nil {
		return err
	}
	defer release()
	if err := mount.CleanupMountPoint(path, mount.New(""), true); err != nil {
		return failed("unmount the volume", err)
	}
	return nil
}

// mountAt mounts source at a path, unless something is mounted there.
func mountAt(source, target, kind string, options []string) error {
	mounter := mount.New("")
	if _, err := os.Stat(target); err != nil {
		if err := os.MkdirAll(target, 0o750); err != nil {
			return err
		}
	}
	mounted, err := mounter.IsMountPoint(target)
	if err != nil || mounted {
		return err
	}
	return mounter.Mount(source, target, kind, options)
}

// touch makes a file, and its folder.
func touch(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE, 0o640)
	return errors.Join(err, f.Close())
}
