package deliver

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseImages(t *testing.T) {
	images, err := parseImages("crdwatch 0123 /c/crdwatch-0123.tar\nguest 4567 /c/guest-4567.tar\n")
	require.NoError(t, err)
	require.Equal(t, []Image{{"crdwatch", "0123", "/c/crdwatch-0123.tar"}, {"guest", "4567", "/c/guest-4567.tar"}},
		images)
	require.Equal(t, "localhost/virtflow/guest:4567", images[1].Reference())

	_, err = parseImages("compiling things\n")
	require.ErrorContains(t, err, "compiling things")
	_, err = parseImages("")
	require.Error(t, err)
}

func TestMissingComparesWholeReferences(t *testing.T) {
	images := []Image{{Name: "guest", Tag: "45"}, {Name: "launcher", Tag: "1"}}
	require.Equal(t, images[:1],
		missing("localhost/virtflow/guest:456\nlocalhost/virtflow/launcher:1\nsha256:00\n", images))
	require.Equal(t, images, missing("", images))
}

func TestRetag(t *testing.T) {
	images := []Image{{Name: "api-server", Tag: "aa"}, {Name: "launcher", Tag: "bb"}}
	got := retag([]byte(`image: localhost/virtflow/api-server:dev
args: [--launcher-image=localhost/virtflow/launcher:dev]
other: localhost/virtflow/launcher:development
foreign: example.org/launcher:dev
`), images)
	require.Equal(t, `image: localhost/virtflow/api-server:aa
args: [--launcher-image=localhost/virtflow/launcher:bb]
other: localhost/virtflow/launcher:development
foreign: example.org/launcher:dev
`, string(got))
}

func TestKustomization(t *testing.T) {
	data, err := kustomization("../repo/deploy/dev-overlay", []Image{{Name: "guest", Tag: "45"}})
	require.NoError(t, err)
	var k struct {
		Resources []string
		Images    []map[string]string
	}
	require.NoError(t, json.Unmarshal(data, &k))
	require.Equal(t, []string{"../repo/deploy/dev-overlay"}, k.Resources)
	require.Equal(t, []map[string]string{{"name": "localhost/virtflow/guest", "newTag": "45"}}, k.Images)
}

func TestMarkerLineIsTheLastBoot(t *testing.T) {
	line, ok := markerLine([]byte(
		"boot\r\nvirtflow-guest ready 3.1 ip=10.0.2.2\r\nreboot\r\nvirtflow-guest ready 2.9 ip=10.0.2.2\r\nlogin: "))
	require.True(t, ok)
	require.Equal(t, "virtflow-guest ready 2.9 ip=10.0.2.2", line)
	_, ok = markerLine([]byte("still booting"))
	require.False(t, ok)
}

func TestWhatToTryNextNamesTheMachine(t *testing.T) {
	text := next("shop", "web")
	require.Contains(t, text, "/workflows/vm%2Fshop%2Fweb ")
	require.Contains(t, text, "virtctl -n shop migrate web ")
	require.Contains(t, text, "kubectl -n shop patch vm web ")
	require.Contains(t, text, "the virtual machine shop/web runs.")
	require.NotContains(t, text, "%!")
}
