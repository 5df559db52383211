package launchers

import (
	"regexp"
	"strings"
)

// The kubelet's names for the cgroup of a pod: pod<uid> with the cgroupfs driver, and with the systemd driver
// kubepods[-burstable|-besteffort]-pod<uid with _>.slice, perhaps beneath a root of its own (kubelet-kubepods-…).
var (
	cgroupfsPod = regexp.MustCompile(`^pod([0-9a-fA-F_-]{32,36})$`)
	systemdPod  = regexp.MustCompile(`^(?:[a-z0-9_-]+-)?kubepods(?:-[a-z]+)?-pod([0-9a-fA-F_-]{32,36})\.slice$`)
)

// isInPod reports whether the process whose /proc/PID/cgroup reads peer is in the pod's cgroup. own is the caller's
// /proc/self/cgroup: what both have in common does not count, because the node itself may be a container in a pod of an
// outer cluster. In every hierarchy the outermost pod counts: the pod itself has named what is beneath.
func isInPod(own, peer, uid string) bool {
	ours := hierarchies(own)
	found := false
	for name, path := range hierarchies(peer) {
		pod := outermostPod(beneath(ours[name], path))
		if pod == "" {
			continue
		}
		if pod != strings.ToLower(uid) {
			return false
		}
		found = true
	}
	return found
}

// hierarchies maps the controllers of each line of /proc/PID/cgroup ("" for version 2) to the elements of its path.
func hierarchies(file string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(file) {
		_, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if ok {
			all[controllers] = strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
		}
	}
	return all
}

// beneath returns path without the elements that it has in common with base at its beginning.
func beneath(base, path []string) []string {
	n := 0
	for n < len(base) && n < len(path) && base[n] == path[n] {
		n++
	}
	return path[n:]
}

// outermostPod returns the UID of the first pod on the path, in lower case with dashes, or "".
func outermostPod(path []string) string {
	for _, element := range path {
		for _, form := range []*regexp.Regexp{cgroupfsPod, systemdPod} {
			if m := form.FindStringSubmatch(element); m != nil {
				return strings.ToLower(strings.ReplaceAll(m[1], "_", "-"))
			}
		}
	}
	return ""
}
