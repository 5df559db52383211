package bom

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/debian"
)

// Contents has the components of an image.
type Contents struct {
	Programs []string         // paths of Go programs
	Packages []debian.Package // that other files are of
}

// document is the part of https://cyclonedx.org/docs/1.6/json/ that is written.
type document struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"` // https://github.com/package-url/purl-spec
}

// Write writes the bill of materials of an image. Its main component is the image, whose version is the image's digest.
func Write(w io.Writer, image, digest string, c Contents) error {
	all := document{Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   metadata{Component: component{Type: "container", Name: image, Version: digest}},
		Components: []component{}}
	for _, program := range c.Programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("read what %s is built of: %w", program, err)
		}
		all.Components = append(all.Components, modules(info)...)
	}
	for _, p := range c.Packages {
		all.Components = append(all.Components, component{Type: "library", Name: p.Name(), Version: p.Version(),
			PURL: "pkg:deb/debian/" + p.Name() + "@" + url.QueryEscape(p.Version()) + "?arch=" + p.Architecture() +
				"&distro=" + p.Release})
	}
	slices.SortFunc(all.Components, func(a, b component) int {
		return cmp.Or(strings.Compare(a.PURL, b.PURL), strings.Compare(a.Version, b.Version))
	})
	all.Components = slices.Compact(all.Components)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return fmt.Errorf("write the bill of materials of %s: %w", image, err)
	}
	return nil
}

// modules returns the modules in the output of `go version -m`: the program's own, its dependencies, and Go's library.
func modules(info *buildinfo.BuildInfo) []component {
	out := []component{golang("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, golang(m.Path, m.Version))
	}
	return out
}

func golang(path, version string) component {
	c := component{Type: "library", Name: path, Version: version, PURL: "pkg:golang/" + path}
	if version != "" {
		c.PURL += "@" + url.PathEscape(version)
	}
	return c
}
