package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// TestCutsDetailsToSize: a part of a list that is too long is kept.
func TestCutsDetailsToSize(t *testing.T) {
	d := &rpc.GuestDetailsResponse{Hostname: "web"}
	for range rpc.MaxDetails {
		d.FileSystems = append(d.FileSystems, &rpc.GuestFileSystem{MountPoint: strings.Repeat("m", 256)})
	}
	require.Len(t, dropInvalid(d).GetFileSystems(), rpc.MaxDetails)
	for _, f := range d.GetFileSystems() {
		for range rpc.MaxDetailsDisks {
			f.Disks = append(f.Disks, &rpc.GuestDisk{Serial: strings.Repeat("s", 256)})
		}
	}
	require.NotEmpty(t, dropInvalid(d).GetFileSystems())
	require.LessOrEqual(t, proto.Size(d), rpc.MaxDetailsBytes)
	require.Equal(t, "web", d.GetHostname())
}
