package tree

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func sample() *Tree {
	t := New()
	t.Bytes("usr/bin/b", 0o755, []byte("b"))
	t.Bytes("usr/bin/a", 0o644, []byte("content of a"))
	t.Symlink("bin", "usr/bin")
	t.Dir("tmp", 0o1777)
	t.Own("usr", 107, 107)
	return t
}

func TestTarIsSameEachTimeAndHasParentsFirst(t *testing.T) {
	var one, two bytes.Buffer
	require.NoError(t, sample().WriteTar(&one))
	require.NoError(t, sample().WriteTar(&two))
	require.Equal(t, one.Bytes(), two.Bytes())

	var names []string
	for in := tar.NewReader(&one); ; {
		header, err := in.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.True(t, header.ModTime.Equal(Epoch), header.Name)
		if header.Name == "tmp/" {
			require.EqualValues(t, 0o1777, header.Mode)
		}
		if header.Name == "usr/bin/a" {
			require.Equal(t, 107, header.Uid)
		}
		names = append(names, header.Name)
	}
	require.Equal(t, []string{"bin", "tmp/", "usr/", "usr/bin/", "usr/bin/a", "usr/bin/b"}, names)
}

func TestCPIOHeadersAreAligned(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, sample().WriteCPIO(&out))
	data := out.Bytes()
	require.Zero(t, len(data)%4)
	require.Equal(t, 7, bytes.Count(data, []byte("070701")), "six entries and the trailer")
	for at := 0; at < len(data); {
		next := bytes.Index(data[at:], []byte("070701"))
		if next < 0 {
			break
		}
		require.Zero(t, (at+next)%4)
		at += next + 6
	}
	require.Contains(t, string(data), "TRAILER!!!\x00")
}

func TestUnpackGivesFilesModesAndTimes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("changing owners needs root")
	}
	dir := t.TempDir()
	require.NoError(t, sample().Unpack(dir))
	data, err := os.ReadFile(filepath.Join(dir, "bin", "a"))
	require.NoError(t, err)
	require.Equal(t, "content of a", string(data))
	info, err := os.Stat(filepath.Join(dir, "usr/bin"))
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(Epoch))
	info, err = os.Stat(filepath.Join(dir, "tmp"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSticky)
}
