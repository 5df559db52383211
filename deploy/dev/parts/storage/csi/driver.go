package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Name is the driver's name in StorageClasses and VolumeSnapshotClasses.
const Name = "storage.dev.virtflow.io"

// Driver is the driver. It can be used by several goroutines.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	// Node is the node that it works on; "" where it only makes and deletes volumes.
	node               string
	volumes, snapshots store

	mu sync.Mutex
	// busy are the volumes and snapshots that a call is working on.
	busy map[string]bool
}

// New makes a driver that keeps its volumes in that folder.
func New(folder, node string) *Driver {
	return &Driver{
		node:    node,
		volumes: store{filepath.Join(folder, "volumes")}, snapshots: store{filepath.Join(folder, "snapshots")},
		busy: map[string]bool{},
	}
}

// Serve serves the driver on a Unix socket until ctx is done.
func (d *Driver) Serve(ctx context.Context, socket string) error {
	return serve(ctx, socket, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, d)
		csi.RegisterControllerServer(s, d)
		if d.node != "" {
			csi.RegisterNodeServer(s, d)
		}
	})
}

// Register has the kubelet find the driver, which serves on that socket, in its folder for plugins' registrations,
// until ctx is done.
func Register(ctx context.Context, folder, socket string) error {
	return serve(ctx, filepath.Join(folder, Name+"-reg.sock"), func(s *grpc.Server) {
		registration.RegisterRegistrationServer(s, registrar{socket: socket})
	})
}

func serve(ctx context.Context, socket string, register func(*grpc.Server)) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return fmt.Errorf("make the folder of %s: %w", socket, err)
	}
	// A socket that a killed process left.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear %s: %w", socket, err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	register(server)
	defer context.AfterFunc(ctx, server.GracefulStop)()
	return server.Serve(listener)
}

// registrar answers the kubelet.
type registrar struct {
	registration.UnimplementedRegistrationServer
	socket string
}

// GetInfo returns the driver's registration.
func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: Name, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus ends the process where the kubelet refuses it: it is started again, and tries again.
func (r registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		fmt.Fprintln(os.Stderr, "the kubelet does not register the driver:", s.Error)
		os.Exit(1)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// GetPluginInfo names the driver.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities returns that the driver makes volumes, and that they grow while they are in use.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}},
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{
			Type: csi.PluginCapability_VolumeExpansion_ONLINE}}},
	}}, nil
}

// Probe reports that the driver serves.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// hold keeps other calls away from an image until the returned function is called. A concurrent call gets the error
// that CSI requires, and is repeated.
func (d *Driver) hold(id string) (func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[id] {
		return nil, status.Errorf(codes.Aborted, "another call is working on %s", id)
	}
	d.busy[id] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.busy, id)
	}, nil
}

// find loads an image, and answers as CSI wants it where there is none.
func find(s store, id, what string) (image, error) {
	if id == "" {
		return image{}, status.Errorf(codes.InvalidArgument, "no ID of a %s is given", what)
	}
	i, err := s.load(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return i, status.Errorf(codes.NotFound, "there is no %s %s", what, id)
	case err != nil:
		return i, status.Error(codes.Internal, err.Error())
	}
	return i, nil
}

func failed(what string, err error) error { return status.Errorf(codes.Internal, "%s: %v", what, err) }
