package bom

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/images/debian"
)

// TestBillOfMaterials: each module that `go version -m` shows, Go's own library, and each package, by names that
// scanners know.
func TestBillOfMaterials(t *testing.T) {
	program := filepath.Join(t.TempDir(), "images") // a test's own program does not say what it is built of
	said, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput()
	require.NoError(t, err, "%s", said)
	contents := Contents{Programs: []string{program}, Packages: []debian.Package{
		{File: "libvirt0_11.3.0-3+deb13u1_amd64.deb", Release: "trixie"},
		{File: "libxau6_1%3a1.0.11-1_amd64.deb", Release: "trixie"},
	}}
	var one, two bytes.Buffer
	require.NoError(t, Write(&one, "localhost/virtflow/launcher", "sha256:01", contents))
	require.NoError(t, Write(&two, "localhost/virtflow/launcher", "sha256:01", contents))
	require.Equal(t, one.String(), two.String())

	var all document
	require.NoError(t, json.Unmarshal(one.Bytes(), &all))
	require.Equal(t, "CycloneDX", all.Format)
	require.Equal(t, component{Type: "container", Name: "localhost/virtflow/launcher", Version: "sha256:01"},
		all.Metadata.Component)
	names := map[string]component{}
	for _, c := range all.Components {
		names[c.Name] = c
	}
	require.Equal(t, component{Type: "library", Name: "libvirt0", Version: "11.3.0-3+deb13u1",
		PURL: "pkg:deb/debian/libvirt0@11.3.0-3%2Bdeb13u1?arch=amd64&distro=trixie"}, names["libvirt0"])
	require.Equal(t, "1:1.0.11-1", names["libxau6"].Version)
	require.Contains(t, names["libxau6"].PURL, "@1%3A1.0.11-1?")
	require.True(t, strings.HasPrefix(names["stdlib"].PURL, "pkg:golang/stdlib@1."), names["stdlib"].PURL)
	require.Contains(t, names, "github.com/virtflow/virtflow")

	shown, err := exec.Command("go", "version", "-m", program).Output()
	require.NoError(t, err)
	modules := 0
	for line := range strings.Lines(string(shown)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" {
			modules++
			require.Equal(t, "pkg:golang/"+fields[1]+"@"+fields[2], names[fields[1]].PURL)
		}
	}
	require.NotZero(t, modules)
	require.Len(t, all.Components, modules+4)
}

func TestProgramWithoutModules(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o600))
	require.ErrorContains(t, Write(&bytes.Buffer{}, "x", "sha256:01", Contents{Programs: []string{program}}), program)
}
