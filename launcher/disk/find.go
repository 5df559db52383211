package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// imageFolder is where a containerDisk keeps its image unless its path says otherwise.
const imageFolder = "disk"

// find returns the path of a containerDisk's image. The image's author controls what is beneath the volume's source, so
// nothing outside of it is reached through links.
func find(v Volume) (string, error) {
	root, err := os.OpenRoot(v.Source)
	if err != nil {
		return "", failed(v.Name, "the image is not mounted: %v", err)
	}
	defer root.Close() //nolint:errcheck // only read from
	if v.File != "" {
		return within(root, v.Name, v.File)
	}
	file, err := single(root, v.Name)
	if err != nil {
		return "", err
	}
	return within(root, v.Name, file)
}

// within is the path of a regular file beneath a volume's source.
func within(root *os.Root, volume, name string) (string, error) {
	file := strings.TrimPrefix(filepath.Clean("/"+name), "/")
	info, err := root.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", failed(volume, "no file found at path /%s, no disk present", file)
	}
	if err != nil {
		return "", failed(volume, "/%s: %v", file, err)
	}
	if !info.Mode().IsRegular() {
		return "", failed(volume, "/%s is not a regular file", file)
	}
	return filepath.Join(root.Name(), file), nil
}

func single(root *os.Root, volume string) (string, error) {
	dir, err := root.Open(imageFolder)
	if err != nil {
		return "", failed(volume, "no file found in folder /%s, no disk present", imageFolder)
	}
	defer dir.Close() //nolint:errcheck // only read from
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return "", failed(volume, "folder /%s: %v", imageFolder, err)
	}
	switch len(entries) {
	case 0:
		return "", failed(volume, "no file found in folder /%s, no disk present", imageFolder)
	case 1:
		return filepath.Join(imageFolder, entries[0].Name()), nil
	default:
		return "", failed(volume, "more than one file found in folder /%s, only one disk is allowed", imageFolder)
	}
}
