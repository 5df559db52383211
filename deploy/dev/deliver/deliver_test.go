package deliver

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseImages(t *testing.T) {
	images, err := parseImages("crdwatch 0123 /c/crdwatch-0123.tar sha256:01\nguest 4567 /c/guest-4567.tar sha256:45\n")
	require.NoError(t, err)
	require.Equal(t, []Image{{"crdwatch", "0123", "/c/crdwatch-0123.tar", "sha256:01"},
		{"guest", "4567", "/c/guest-4567.tar", "sha256:45"}}, images)
	require.Equal(t, "localhost/virtflow/guest:4567", images[1].Reference())
	require.Equal(t, "localhost/virtflow/guest@sha256:45", images[1].Pinned())

	_, err = parseImages("compiling things\n")
	require.ErrorContains(t, err, "compiling things")
	_, err = parseImages("")
	require.Error(t, err)
}

func TestMissingComparesWholeReferences(t *testing.T) {
	images := []Image{{Name: "guest", Tag: "45", Digest: "sha256:45"},
		{Name: "launcher", Tag: "1", Digest: "sha256:01"}}
	require.Equal(t, images[:1], missing("localhost/virtflow/guest:45\nlocalhost/virtflow/guest@sha256:456\n"+
		"localhost/virtflow/launcher@sha256:01\nsha256:00\n", images))
	require.Equal(t, images, missing("", images))
}

func TestPin(t *testing.T) {
	images := []Image{{Name: "api-server", Digest: "sha256:aa"}, {Name: "launcher", Digest: "sha256:bb"}}
	got := pin([]byte(`image: localhost/virtflow/api-server:dev
args: [--launcher-image=localhost/virtflow/launcher:dev]
other: localhost/virtflow/launcher:development
foreign: example.org/launcher:dev
`), images)
	require.Equal(t, `image: localhost/virtflow/api-server@sha256:aa
args: [--launcher-image=localhost/virtflow/launcher@sha256:bb]
other: localhost/virtflow/launcher:development
foreign: example.org/launcher:dev
`, string(got))
}

func TestKustomization(t *testing.T) {
	data, err := kustomization("../repo/deploy/dev-overlay", []Image{{Name: "guest", Tag: "45", Digest: "sha256:45"}})
	require.NoError(t, err)
	var k struct {
		Resources []string
		Images    []map[string]string
	}
	require.NoError(t, json.Unmarshal(data, &k))
	require.Equal(t, []string{"../repo/deploy/dev-overlay"}, k.Resources)
	require.Equal(t, []map[string]string{{"name": "localhost/virtflow/guest", "digest": "sha256:45"}}, k.Images)
}

func TestMarkerLineIsLastBoot(t *testing.T) {
	line, ok := markerLine([]byte(
		"boot\r\nvirtflow-guest ready 3.1 ip=10.0.2.2\r\nreboot\r\nvirtflow-guest ready 2.9 ip=10.0.2.2\r\nlogin: "))
	require.True(t, ok)
	require.Equal(t, "virtflow-guest ready 2.9 ip=10.0.2.2", line)
	_, ok = markerLine([]byte("still booting"))
	require.False(t, ok)
}

func TestWhatToTryNextNamesMachine(t *testing.T) {
	text := nextSteps("shop", "web")
	require.Contains(t, text, "/workflows/vm%2Fshop%2Fweb ")
	require.Contains(t, text, "virtctl -n shop migrate web ")
	require.Contains(t, text, "kubectl -n shop patch vm web ")
	require.Contains(t, text, "the virtual machine shop/web runs.")
	require.NotContains(t, text, "%!")
}
