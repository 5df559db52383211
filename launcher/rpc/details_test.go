package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcceptsDetailsWithinLimits(t *testing.T) {
	most := func() *GuestDetailsResponse {
		return &GuestDetailsResponse{Commands: make([]*GuestCommand, MaxDetails), Users: make([]*GuestUser, MaxDetails),
			FileSystems: make([]*GuestFileSystem, MaxDetails)}
	}
	require.NoError(t, CheckDetails(&GuestDetailsResponse{}))
	require.NoError(t, CheckDetails(most()))
	for name, change := range map[string]func(*GuestDetailsResponse){
		"commands":     func(d *GuestDetailsResponse) { d.Commands = append(d.Commands, nil) },
		"users":        func(d *GuestDetailsResponse) { d.Users = append(d.Users, nil) },
		"file systems": func(d *GuestDetailsResponse) { d.FileSystems = append(d.FileSystems, nil) },
		"disks of one": func(d *GuestDetailsResponse) {
			d.FileSystems[7] = &GuestFileSystem{Disks: make([]*GuestDisk, MaxDetailsDisks+1)}
		},
	} {
		d := most()
		change(d)
		require.ErrorIs(t, CheckDetails(d), errTooManyDetails, name)
	}
}
