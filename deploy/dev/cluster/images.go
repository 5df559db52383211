package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtflow/virtflow/deploy/dev/controlplane"
	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// addImages makes the images that the cluster itself needs, beside the programs
// in them, and puts them into the description.
func addImages(d *controlplane.Cluster, tag string) error {
	for _, image := range []struct {
		program, user string
		reference     *string
	}{
		{"pause", "65535:65535", &d.PauseImage},
		{"coredns", "65534:65534", &d.CoreDNSImage},
	} {
		program := filepath.Join(d.Programs.Kubernetes, image.program)
		*image.reference = "localhost/virtflow-dev/" + image.program + ":" + tag
		d.Images[*image.reference] = program + ".tar"
		if _, err := os.Stat(program + ".tar"); err == nil {
			continue
		}
		if err := writeImage(program, *image.reference, image.user); err != nil {
			return fmt.Errorf("make the image of %s: %w", image.program, err)
		}
	}
	return nil
}

// writeImage writes PROGRAM.tar, an image that has only this program.
func writeImage(program, reference, user string) error {
	name := filepath.Base(program)
	files := tree.New()
	if err := files.File(name, program); err != nil {
		return err
	}
	layer, err := os.CreateTemp(filepath.Dir(program), name+".layer.")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	if err := files.WriteTar(layer); err != nil {
		return err
	}
	out, err := os.Create(program + ".tar.partial")
	if err != nil {
		return err
	}
	image := archive.Image{
		Reference: reference, Layers: []string{layer.Name()},
		Config: archive.Config{Entrypoint: []string{"/" + name}, User: user},
	}
	if err := archive.Write(out, image); err != nil {
		_ = out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(program+".tar.partial", program+".tar")
}
