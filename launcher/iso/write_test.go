package iso_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/iso"
)

// read returns the files of an image by their paths, and its label.
func read(t *testing.T, path string) (map[string]string, string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	image, err := iso9660.Read(file.New(f, true), 0, 0, 0)
	require.NoError(t, err)
	got := map[string]string{}
	require.NoError(t, fs.WalkDir(image, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(image, path)
		got[path] = string(b)
		return err
	}))
	return got, strings.TrimRight(image.Label(), "\x00 ")
}

func write(t *testing.T, label string, want map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.iso")
	var files []iso.File
	for name, data := range want {
		files = append(files, iso.File{Path: name, Data: []byte(data)})
	}
	require.NoError(t, iso.Write(path, label, files))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside the image")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it may hold secrets")
	require.Zero(t, info.Size()%4096, "a live migration copies whole blocks")
	return path
}

// TestImageHoldsItsFiles: the files have their own names in the image, whatever the names' case and length.
func TestImageHoldsItsFiles(t *testing.T) {
	want := map[string]string{
		"meta-data": "{}", "network-config": "version: 2\n", "openstack/latest/user_data": "#!/bin/sh\n",
		"Key.With.Dots_and-CASE": "one", "key.with.dots_and-case": "another", "empty": "",
		"whole": strings.Repeat("x", 2048), "large": strings.Repeat("0123456789abcdef", 1<<16),
	}
	path := write(t, "config-2", want)
	got, label := read(t, path)
	require.Equal(t, want, got)
	require.Equal(t, "config-2", label)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "\x02CD001", string(b[17*2048:17*2048+6]), "Joliet, for Windows")

	want[strings.Repeat("a-long-key.", 9)+"over"] = "long"
	want["a/b/c/d/e/f/g/deep"] = "deep"
	path = write(t, "a label of thirty-two characters", want)
	got, label = read(t, path)
	require.Equal(t, want, got)
	require.Equal(t, "a label of thirty-two characters", label)
}

// TestImagesEndWithWholeBlock: an image ends with a whole block, whatever number of sectors its files take.
func TestImagesEndWithWholeBlock(t *testing.T) {
	for sectors := range 4 {
		write(t, "cidata", map[string]string{"user-data": strings.Repeat("x", sectors*2048+1)})
	}
}

func TestImageWithoutFiles(t *testing.T) {
	got, _ := read(t, write(t, "cfgdata", nil))
	require.Empty(t, got)
}

func TestRefusesUnfitFiles(t *testing.T) {
	for path, want := range map[string]string{
		"../secret": "not valid within", "/etc/secret": "not valid within", "": "not valid within",
		strings.Repeat("n", 104): "more than 103 characters", "a/b/c/d/e/f/g/h/i": "more than 7 folders",
	} {
		dir := t.TempDir()
		err := iso.Write(filepath.Join(dir, "x.iso"), "x", []iso.File{{Path: path}})
		var unfit *iso.Unfit
		require.ErrorAs(t, err, &unfit, path)
		require.ErrorContains(t, err, want)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// TestReportsFullDisk: the library ignores write errors.
func TestReportsFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	path := filepath.Join(t.TempDir(), "x.iso")
	require.NoError(t, os.Symlink("/dev/full", path))
	require.ErrorContains(t, iso.Write(path, "x", []iso.File{{Path: "a", Data: []byte("b")}}), "no space left")
}

// TestFolderFollowsKubeletLinks: each key is a link into the folder that the kubelet has written last. Files are listed
// by their keys, and the kubelet's own folders are not listed.
func TestFolderFollowsKubeletLinks(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"..2026_11_22/key": "1", "..2026_11_22/deep/er/key": "2"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(data), 0o600))
	}
	for link, to := range map[string]string{"..data": "..2026_11_22", "key": "..data/key", "deep": "..data/deep"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	files, err := iso.Folder(dir)
	require.NoError(t, err)
	want := []iso.File{{Path: "key", Data: []byte("1")}, {Path: "deep/er/key", Data: []byte("2")}}
	require.ElementsMatch(t, want, files)
	_, err = iso.Folder(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
