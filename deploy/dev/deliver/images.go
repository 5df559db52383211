package deliver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/cluster"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/parts"
)

// registry begins the references of the project's images. There is no such registry: images are imported.
const registry = "localhost/virtflow/"

// newest is the tag in the manifests and examples.
const newest = "dev"

// ColdImages is how long all images take on two cores with nothing compiled before but Kubernetes.
const ColdImages = 4 * time.Minute

// Image is one built image.
type Image struct {
	// Name is the image's short name.
	Name string
	// Tag is derived from its content.
	Tag string
	// Archive is a file that is an OCI layout and a docker archive.
	Archive string
	// Digest is the digest of the image in the archive: sha256:…
	Digest string
}

// Reference returns the image's name by its tag.
func (i Image) Reference() string { return registry + i.Name + ":" + i.Tag }

// Pinned returns the reference by which virtflow's pods use the image: another image with the same tag on a node does
// not replace it.
func (i Image) Pinned() string { return registry + i.Name + "@" + i.Digest }

// Delivery brings virtflow into one cluster.
type Delivery struct {
	Cluster cluster.Cluster
	// Overlay replaces source files in the images, as for `go build -overlay`; "": none.
	Overlay string
	// Out receives the messages for the user.
	Out io.Writer
}

func (d Delivery) printLine(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

// Images builds the images that are not built and gives every node those it lacks.
func (d Delivery) Images(ctx context.Context) ([]Image, error) {
	d.printLine("Building images. The first time it takes some minutes: packages are downloaded, every process is " +
		"compiled.")
	images, err := d.build(ctx, "build", "--overlay", d.Overlay)
	if err != nil {
		return nil, err
	}
	return images, d.distribute(ctx, images)
}

// distribute gives every node the images that it lacks.
func (d Delivery) distribute(ctx context.Context, images []Image) error {
	nodes := layout.Nodes()
	failures := make([]error, len(nodes))
	var importing sync.WaitGroup
	for i, n := range nodes {
		importing.Go(func() { failures[i] = d.importInto(ctx, n, images) })
	}
	importing.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	d.printLine("Every node has the images: %s.", summary(images))
	return nil
}

// build runs a command of deploy/images that builds images.
func (d Delivery) build(ctx context.Context, args ...string) ([]Image, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "-trimpath", "-buildvcs=false", "./deploy/images"},
		args...)...)
	cmd.Dir = d.Cluster.Layout.Repo
	cmd.Env = append(append(os.Environ(), "VIRTFLOW_CACHE="+d.Cluster.Layout.Cache), parts.CompilerEnvironment()...)
	cmd.Stdout, cmd.Stderr = &out, d.Out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build the images: %w", err)
	}
	return parseImages(out.String())
}

// parseImages reads the lines NAME TAG PATH DIGEST that the image builder prints.
func parseImages(text string) ([]Image, error) {
	var images []Image
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) != 4 {
			return nil, fmt.Errorf("the image builder printed %q instead of NAME TAG PATH DIGEST", s.Text())
		}
		images = append(images, Image{Name: fields[0], Tag: fields[1], Archive: fields[2], Digest: fields[3]})
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("the image builder printed no image")
	}
	return images, nil
}

func (d Delivery) importInto(ctx context.Context, n layout.Node, images []Image) error {
	have, err := d.ctr(ctx, n, "images", "ls", "-q")
	if err != nil {
		return fmt.Errorf("list the images of %s (is the cluster up?): %w", n.Name, err)
	}
	for _, image := range missing(have, images) {
		// The kubelet finds an image by its digest where containerd has it under that name. --digests makes it, without
		// --local of the index's digest.
		if _, err := d.ctr(ctx, n, "images", "import", "--local", "--digests", "--base-name", registry+image.Name,
			image.Archive); err != nil {
			return fmt.Errorf("give %s to %s: %w", image.Reference(), n.Name, err)
		}
		d.printLine("  %s: imported %s", n.Name, image.Reference())
	}
	// The examples call the guest's image by a tag that means the newest one.
	for _, image := range images {
		// By digest: an image that was imported with another tag is not imported again.
		if _, err := d.ctr(ctx, n, "images", "tag", "--force", image.Pinned(),
			registry+image.Name+":"+newest); err != nil {
			return fmt.Errorf("tag %s on %s: %w", image.Pinned(), n.Name, err)
		}
	}
	return nil
}

// missing are the images whose names by digest are not among the lines of have.
func missing(have string, images []Image) []Image {
	present := map[string]bool{}
	for line := range strings.Lines(have) {
		present[strings.TrimSpace(line)] = true
	}
	var lacking []Image
	for _, image := range images {
		if !present[image.Pinned()] {
			lacking = append(lacking, image)
		}
	}
	return lacking
}

func (d Delivery) ctr(ctx context.Context, n layout.Node, args ...string) (string, error) {
	l := d.Cluster.Layout
	args = append([]string{"--address", l.ContainerdSocket(n), "--namespace", "k8s.io"}, args...)
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, l.Path("bin", "ctr"), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ctr: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

func summary(images []Image) string {
	names := make([]string, len(images))
	for i, image := range images {
		names[i] = image.Name + ":" + image.Tag
	}
	return strings.Join(names, " ")
}
