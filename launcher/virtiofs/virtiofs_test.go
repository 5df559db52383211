package virtiofs_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/reaper"
	"github.com/virtflow/virtflow/launcher/virtiofs"
)

func TestPlan(t *testing.T) {
	const volumes = `,"volumes":[{"name":"c","configMap":{"name":"x"}},{"name":"p","persistentVolumeClaim":{"claimName":"y"}},
		{"name":"b","dataVolume":{"name":"z"}}]`
	for name, c := range map[string]struct{ list, problem string }{
		`{"name":"c","virtiofs":{}},{"name":"p","virtiofs":{}}`: {
			list: "c /files/c /s/virtiofs0.sock, p /claims/p /s/virtiofs1.sock"},
		"":                            {},
		`{"name":"b","virtiofs":{}}`:  {problem: "filesystems[0]: the PVC of volume b is a block device, not a file system"},
		`{"name":"no","virtiofs":{}}`: {problem: "filesystems[0]: no volume is named no"},
	} {
		t.Run(name, func(t *testing.T) {
			var vmi v1.VirtualMachineInstance
			require.NoError(t, json.Unmarshal([]byte(`{"spec":{"domain":{"devices":{"filesystems":[`+name+`]}}`+volumes+`},
				"status":{"volumeStatus":[{"name":"b","target":"","persistentVolumeClaimInfo":{"volumeMode":"Block"}}]}}`), &vmi))
			list, err := virtiofs.Plan(&vmi, virtiofs.Directories{Claims: "/claims", Files: "/files", Sockets: "/s"})
			if c.problem != "" {
				require.EqualError(t, err, "spec.domain.devices."+c.problem)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, s := range list {
				got = append(got, s.Name+" "+s.Directory+" "+s.Socket)
			}
			require.Equal(t, c.list, strings.Join(got, ", "))
		})
	}
}

// TestDaemons: each start has daemons of its own, whose sockets accept connections at once.
func TestDaemons(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "launcher")
	script := "#!/bin/sh\necho \"$@\" >>" + dir + "/runs\ntest -S /dev/fd/3 && echo socket >>" + dir +
		"/runs\necho it speaks >&2\nexec sleep 100\n"
	require.NoError(t, os.WriteFile(program, []byte(script), 0o700))
	processes := reaper.New()
	go processes.Reap(t.Context())
	var log strings.Builder
	d := virtiofs.New(program, "/virtiofsd", processes, zerolog.New(zerolog.SyncWriter(&log)))
	lost := make(chan string, 8)
	lose := func(volume string) { lost <- volume }
	list := []virtiofs.FileSystem{{Name: "a", Directory: "/dir", Socket: filepath.Join(dir, "a.sock")}}
	for range 2 {
		require.NoError(t, d.Run(list, lose))
		conn, err := net.Dial("unix", list[0].Socket)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Eventually(t, func() bool {
			ran, err := os.ReadFile(dir + "/runs")
			return err == nil && strings.HasSuffix(string(ran), "virtiofsd --program=/virtiofsd --shared-dir=/dir\nsocket\n")
		}, 10*time.Second, 10*time.Millisecond)
	}
	require.NoError(t, d.Run(nil, lose))
	require.Contains(t, log.String(), "virtiofsd: it speaks")
	require.Equal(t, 2, strings.Count(log.String(), "observed end of virtiofsd"))
	_, err := net.Dial("unix", list[0].Socket)
	require.Error(t, err, "the socket of a daemon that has ended refuses connections")
	require.Empty(t, lost, "they were replaced")

	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexit 1\n"), 0o700))
	require.NoError(t, d.Run(list, lose))
	require.Equal(t, "a", <-lost)
}

// asDaemon has this test's program be what the launcher becomes.
const asDaemon = "VIRTFLOW_TEST_AS_VIRTIOFSD"

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		if err := virtiofs.Command().Execute(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// TestDaemonIsConfined: it cannot use names that lead out of its directory.
func TestDaemonIsConfined(t *testing.T) {
	root := t.TempDir()
	shared := filepath.Join(root, "shared")
	for _, dir := range []string{shared, filepath.Join(shared, "sub"), filepath.Join(root, "sockets")} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	for file, content := range map[string]string{"shared/mine": "mine", "sockets/theirs": "theirs", "claim": "other"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(content), 0o600))
	}
	script := `cd "${2#--shared-dir=}"; cat mine; mv mine sub/; cat ../claim; rm ../sockets/theirs; mv sub/mine ../claim
		ln -s x ../sockets/link; echo new >../claim; mkdir ../dir; echo "done as $1"`
	program := filepath.Join(shared, "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "--program="+program, "--shared-dir="+shared)
	cmd.Env = append(os.Environ(), asDaemon+"=yes")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.True(t, strings.HasPrefix(string(out), "mine"), "%s", out)
	require.Contains(t, string(out), "done as --fd=3")
	require.NotContains(t, string(out), "other")
	var left []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			content, _ := os.ReadFile(path)
			left = append(left, strings.TrimPrefix(path, root)+": "+strings.SplitN(string(content), "\n", 2)[0])
		}
		return err
	}))
	require.Equal(t, []string{"/claim: other", "/shared/program: #!/bin/sh", "/shared/sub/mine: mine",
		"/sockets/theirs: theirs"}, left)
}
