package libvirtd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// Config has the paths and names of one libvirt daemon.
type Config struct {
	Daemon   string // the libvirtd program
	Emulator string // the QEMU program
	// Private is a writable directory of this pod for everything that libvirt stores.
	Private string
	// Capabilities is a directory with libvirt's cached capabilities of the emulator, made with the image. If it is
	// empty or missing, libvirt probes the emulator, which takes up to 4 s.
	Capabilities string
	// HostUUID distinguishes the daemons of two pods: equal ones refuse to migrate to each other. The pod's UID serves.
	HostUUID string
	// Domain is the name of the one domain.
	Domain string
}

// The directories beneath Config.Private. The path of a socket has at most 108 bytes, and libvirt appends about 60.
func (c Config) runtimeDir() string { return filepath.Join(c.Private, "run") }
func (c Config) cacheDir() string   { return filepath.Join(c.Private, "cache") }
func (c Config) configDir() string  { return filepath.Join(c.Private, "config") }
func (c Config) dataDir() string    { return filepath.Join(c.Private, "data") }
func (c Config) homeDir() string    { return filepath.Join(c.Private, "home") }

// Socket returns the path of the daemon's socket.
func (c Config) Socket() string { return filepath.Join(c.runtimeDir(), "libvirt", "libvirt-sock") }

func (c Config) daemonConfig() string {
	return filepath.Join(c.configDir(), "libvirt", "libvirtd.conf")
}

func (c Config) pidFile() string {
	return filepath.Join(c.runtimeDir(), "libvirt", "qemu", "run", c.Domain+".pid")
}

// statusFile returns the file with libvirtd's own status of the running domain, which it rewrites at each step.
func (c Config) statusFile() string {
	return filepath.Join(c.runtimeDir(), "libvirt", "qemu", "run", c.Domain+".xml")
}

// QEMULog returns the emulator's log: the first place to look when it does not start.
func (c Config) QEMULog() string {
	return filepath.Join(c.cacheDir(), "libvirt", "qemu", "log", c.Domain+".log")
}

func (c Config) environment() []string {
	return []string{
		"PATH=/usr/bin:/bin:/usr/sbin:/sbin",
		"HOME=" + c.homeDir(),
		"XDG_RUNTIME_DIR=" + c.runtimeDir(),
		"XDG_CACHE_HOME=" + c.cacheDir(),
		"XDG_CONFIG_HOME=" + c.configDir(),
		"XDG_DATA_HOME=" + c.dataDir(),
	}
}

// daemonSettings are for one pod, one domain, one client. Only the launcher's own user can reach the socket. A daemon
// stops reading from a client with so many calls in progress, even keep-alive messages: the limit is never reached.
const daemonSettings = `listen_tls = 0
listen_tcp = 0
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:stderr"
min_workers = 2
max_workers = 5
max_client_requests = 100
prio_workers = 2
`

// qemuSettings turn off what the pod does: it confines QEMU. Without virtlogd, files of the daemon have QEMU's output.
const qemuSettings = `stdio_handler = "file"
security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
remember_owner = 0
vnc_tls = 0
max_core = 0
`

// write writes the directories, the configuration, and the capabilities cache.
func (c Config) write() error {
	for _, dir := range []string{
		filepath.Join(c.runtimeDir(), "libvirt"), filepath.Join(c.configDir(), "libvirt", "qemu"),
		c.capabilitiesCache(), c.dataDir(), c.homeDir(),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making libvirt's directories: %w", err)
		}
	}
	daemon := daemonSettings
	if id, err := uuid.Parse(c.HostUUID); err == nil {
		daemon += fmt.Sprintf("host_uuid = %q\n", id)
	}
	for path, content := range map[string]string{
		c.daemonConfig(): daemon,
		filepath.Join(c.configDir(), "libvirt", "qemu.conf"): qemuSettings,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("writing libvirt's configuration: %w", err)
		}
	}
	if err := c.writeCapabilities(); err != nil {
		return fmt.Errorf("copying the cached capabilities: %w", err)
	}
	return nil
}

func (c Config) capabilitiesCache() string {
	return filepath.Join(c.cacheDir(), "libvirt", "qemu", "cache", "capabilities")
}

// writeCapabilities copies the cache that came with the image. libvirt uses it only with the change times of the
// emulator and the daemon, which every node sets again when it unpacks the image.
func (c Config) writeCapabilities() error {
	files, err := filepath.Glob(filepath.Join(c.Capabilities, "*.xml"))
	if err != nil || c.Capabilities == "" || len(files) == 0 {
		return err
	}
	qemu, err := changeTime(c.Emulator)
	if err != nil {
		return err
	}
	self, err := changeTime(c.Daemon)
	if err != nil {
		return err
	}
	for _, f := range files {
		content, err := os.ReadFile(f) // part of the image
		if err != nil {
			return err
		}
		out := withChangeTimes(string(content), qemu, self)
		if err := os.WriteFile(filepath.Join(c.capabilitiesCache(), filepath.Base(f)), []byte(out), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func withChangeTimes(capabilities string, qemu, self int64) string {
	out := regexp.MustCompile(`<qemuctime>\d+`).
		ReplaceAllString(capabilities, "<qemuctime>"+strconv.FormatInt(qemu, 10))
	return regexp.MustCompile(`<selfctime>\d+`).ReplaceAllString(out, "<selfctime>"+strconv.FormatInt(self, 10))
}

func changeTime(path string) (int64, error) {
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return s.Ctim.Sec, nil
}

// lastLines returns the end of QEMU's own log, for messages to people.
func (c Config) lastLines(n int) []string {
	b, err := os.ReadFile(c.QEMULog())
	if err != nil {
		return nil
	}
	const most = 64 << 10
	if len(b) > most {
		b = b[len(b)-most:]
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines
}
