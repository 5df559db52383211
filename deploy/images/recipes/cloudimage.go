package recipes

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/cloudimage"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/debian"
)

// CloudImage builds the cloud image, of the release that the launcher is made of, unless it is in the cache. It returns
// the path of its raw disk, and needs root.
func (b *Builder) CloudImage(ctx context.Context) (disk string, err error) {
	err = debian.Again(func() error {
		disk, err = b.cloudImage(ctx)
		return err
	})
	return disk, err
}

func (b *Builder) cloudImage(ctx context.Context) (string, error) {
	packages, err := b.LauncherDebian.Resolve(ctx, cloudimage.Packages()...)
	if err != nil {
		return "", err
	}
	inputs, err := cloudimage.Inputs()
	if err != nil {
		return "", err
	}
	folder := b.Cache.Path("cloudimage-" + cache.Key(launcherRelease, debian.List(packages), inputs))
	err = cache.Folder(folder, func(dir string) error {
		b.Log.Info().Int("packages", len(packages)).Msg("building the cloud image of Debian (two minutes)")
		if err := b.Debian.EnsureInstalled(ctx, cloudimage.HostTools()...); err != nil {
			return fmt.Errorf("install what builds the cloud image (%s): %w",
				strings.Join(cloudimage.HostTools(), ", "), err)
		}
		sources, err := b.LauncherDebian.Sources(ctx)
		if err != nil {
			return err
		}
		return cloudimage.Build(ctx, launcherRelease, sources, dir)
	})
	return filepath.Join(folder, "disk.img"), err
}
