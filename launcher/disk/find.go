package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// imageFolder is the directory with the image of a containerDisk whose spec has no path.
const imageFolder = "disk"

// find returns the path of a containerDisk's image. The image's author controls the content of the volume's source, so
// the image must not lead outside it through links.
func find(v Volume) (string, error) {
	root, err := os.OpenRoot(v.Source)
	if err != nil {
		return "", volumeError(v.Name, "the image is not mounted: %v", err)
	}
	defer root.Close()
	if v.File != "" {
		return within(root, v.Name, v.File)
	}
	file, err := singleImage(root, v.Name)
	if err != nil {
		return "", err
	}
	return within(root, v.Name, file)
}

// within returns the path of a regular file beneath a volume's source.
func within(root *os.Root, volume, name string) (string, error) {
	file := strings.TrimPrefix(filepath.Clean("/"+name), "/")
	info, err := root.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", volumeError(volume, "no file found at path /%s, no disk present", file)
	}
	if err != nil {
		return "", volumeError(volume, "/%s: %v", file, err)
	}
	if !info.Mode().IsRegular() {
		return "", volumeError(volume, "/%s is not a regular file", file)
	}
	return filepath.Join(root.Name(), file), nil
}

// singleImage returns the path of the only file in a containerDisk's image folder.
func singleImage(root *os.Root, volume string) (string, error) {
	dir, err := root.Open(imageFolder)
	if err != nil {
		return "", volumeError(volume, "no file found in folder /%s, no disk present", imageFolder)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return "", volumeError(volume, "folder /%s: %v", imageFolder, err)
	}
	switch len(entries) {
	case 0:
		return "", volumeError(volume, "no file found in folder /%s, no disk present", imageFolder)
	case 1:
		return filepath.Join(imageFolder, entries[0].Name()), nil
	default:
		return "", volumeError(volume, "more than one file found in folder /%s, only one disk is allowed", imageFolder)
	}
}
