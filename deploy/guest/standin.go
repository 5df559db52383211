package guest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// StandIn is a guest that answers on its console as a distribution does. KubeVirt's functional tests use images of
// these distributions.
type StandIn struct {
	// Name is also the label of the root file system.
	Name string
	// system is the name of the distribution in os-release.
	system string
	// issue is shown on the console before a login.
	issue string
	// prompt is bash's PS1, without the space at its end.
	prompt string
	user   account
	// HasTools reports whether the guest has an agent and the programs of toolPrograms.
	HasTools bool
	// ignoresLeaseName leaves out the lease's hostname: without cloud-init data the guest is called localhost.
	ignoresLeaseName bool
	// links has further names of programs.
	links map[string]string
}

// account is the user that cloud-init data is for.
type account struct{ name, hash string }

// Few rounds, because guests are emulated.
const (
	hashOfGocubsgo = "$6$rounds=1000$virtflow$" +
		"b.ALZBv0JeLEIoLU.8I57tgD.DNALaBAFu2FgU7x1pIVQsY4CtPNGmqiM.u8LDiELNAexM9EYdTCV2cMCkY310"
	hashOfFedora = "$6$rounds=1000$virtflow$" +
		"kJLnI6IUk9YTWUOOjd90V/uzRUmEAZQrI7/8Jc3pipJEkaXYP8uJe5ajMj6u8LfDJgJ7Pu6FMJ1iG7/k4dYpV0"
	noPassword = "*"
)

// StandIns returns all stand-ins.
func StandIns() []StandIn {
	const alpine = "Welcome to Alpine Linux\nKernel \\r on an \\m (\\l)\n\n"
	alpinePrompt, alpineUser := `\h:\w\$`, account{"alpine", noPassword}
	return []StandIn{
		{
			Name: "alpine", system: "Alpine Linux", issue: alpine, prompt: alpinePrompt, user: alpineUser,
			ignoresLeaseName: true,
		},
		{
			Name: "cirros", system: "CirrOS", prompt: `\$`, user: account{"cirros", hashOfGocubsgo},
			issue: "login as 'cirros' user. default password: 'gocubsgo'. use 'sudo' for root.\n",
		},
		{
			Name: "alpine-tools", system: "Alpine Linux", issue: alpine, prompt: alpinePrompt, user: alpineUser,
			ignoresLeaseName: true, HasTools: true,
		},
		{
			Name: "fedora", system: "Fedora Linux", prompt: `[\u@\h \W]\$`, user: account{"fedora", hashOfFedora},
			issue: "Fedora Linux\nKernel \\r on an \\m (\\l)\n\n", HasTools: true,
			links: map[string]string{"nc": "ncat"},
		},
	}
}

// StandInPackages are the packages from which stand-ins are made, besides the kernel.
func StandInPackages() []string {
	return append(Packages(), "bash", "e2fsprogs", "pciutils", "util-linux",
		"dmidecode", "iproute2", "iputils-ping", "isc-dhcp-client", "libtss2-tcti-device0", "mokutil", "ncat", "procps",
		"stress", "tpm2-tools", "virt-what")
}

// standInPrograms returns the programs that every stand-in has: the shell of logins, which does not run busybox's
// applets before other programs, as busybox's does, and what busybox lacks.
func standInPrograms() []string {
	return []string{
		"/bin/bash", "/usr/sbin/dropbear", "/usr/bin/dropbearkey",
		"/sbin/blkid", "/bin/lsblk", "/sbin/mke2fs", "/sbin/resize2fs", "/usr/bin/lspci",
	}
}

// toolPrograms returns what the stand-ins of images with test tooling have besides.
func toolPrograms() []string {
	const libraries = "/usr/lib/x86_64-linux-gnu/"
	return []string{
		"/bin/ip", "/bin/ping", "/sbin/dhclient", "/sbin/dhclient-script", "/usr/bin/mokutil", "/usr/bin/ncat",
		"/usr/bin/pgrep", "/usr/bin/pkill", "/usr/bin/stress", "/usr/bin/tpm2", "/usr/libexec/virt-what-cpuid-helper",
		"/usr/sbin/dmidecode", "/usr/sbin/qemu-ga",
		libraries + "libtss2-tcti-device.so.0",
		libraries + "ossl-modules/legacy.so", // ncat warns without it
	}
}

// BuildStandIns makes the files of all stand-ins: dir/vmlinuz, dir/initrd, and the disks, dir/NAME.qcow2, which boot
// with both.
func BuildStandIns(ctx context.Context, from Unpacked, dir string) error {
	initramfs := newTree()
	err := addBusybox(ctx, initramfs, from.Root)
	if err == nil {
		err = addBoot(ctx, initramfs, from, rootModules())
	}
	if err == nil {
		// The root file system of a kernel that is started without this disk's command line.
		initramfs.Bytes("etc/root", 0o644, []byte(StandIns()[0].Name+"\n"))
		err = from.writeBoot(dir, initramfs)
	}
	if err != nil {
		return fmt.Errorf("build the stand-ins: %w", err)
	}
	for _, s := range StandIns() {
		root, err := s.root(ctx, from)
		if err == nil {
			err = from.writeRootDisk(ctx, dir, s.Name, root)
		}
		if err != nil {
			return fmt.Errorf("build stand-in %s: %w", s.Name, err)
		}
	}
	return nil
}

// root puts the root file system together.
func (s StandIn) root(ctx context.Context, from Unpacked) (*tree.Tree, error) {
	programs := standInPrograms()
	if s.HasTools {
		programs = append(programs, toolPrograms()...)
	}
	t, err := newRoot(ctx, from.Root, "standins", programs...)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"mkfs.ext2", "mkfs.ext3", "mkfs.ext4"} {
		t.Symlink("usr/sbin/"+name, "mke2fs")
	}
	t.Dir("media/cdrom", 0o755)
	enable(t, "devices", "dropbear")
	if err := addModules(ctx, t, from.Kernel); err != nil {
		return nil, err
	}
	if s.HasTools {
		if err := t.FS(files, "tools"); err != nil {
			return nil, err
		}
		enable(t, "qemu-guest-agent")
		t.Dir("etc/sysconfig", 0o755)
		t.Dir("var/lib/dhcp", 0o755)
		if err := addTPM(t, string(from.Root)); err != nil {
			return nil, err
		}
	}
	for name, target := range s.links {
		t.Symlink("usr/bin/"+name, target)
	}
	s.addFiles(t)
	return t, nil
}

// addModules adds the modules that are loaded for the devices that there are, where modprobe looks for them.
func addModules(ctx context.Context, t *tree.Tree, kernel string) error {
	available, err := findModules(kernel)
	if err != nil {
		return err
	}
	modules, err := available.order(ctx, append(wantedModules(), deviceModules()...))
	if err != nil {
		return err
	}
	for _, file := range modules {
		name, err := filepath.Rel(kernel, file)
		if err == nil {
			err = t.File(closure.Merged("/"+name), file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addTPM adds the names of tpm2's commands.
func addTPM(t *tree.Tree, root string) error {
	names, err := filepath.Glob(filepath.Join(root, "usr/bin/tpm2_*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		t.Symlink("usr/bin/"+filepath.Base(name), "tpm2")
	}
	return nil
}

// addFiles adds the files by which the stand-ins differ.
func (s StandIn) addFiles(t *tree.Tree) {
	const id = 1000
	home := "home/" + s.user.name
	t.Dir(home, 0o700)
	t.Own(home, id, id)
	for name, content := range map[string]string{
		"hostname": "localhost\n",
		"issue":    s.issue,
		"os-release": fmt.Sprintf("ID=virtflow-guest\nNAME=\"virtflow test guest for %[1]s\"\n"+
			"PRETTY_NAME=\"virtflow test guest for %[1]s\"\nVERSION=\"1 (busybox)\"\nVERSION_ID=\"1\"\n", s.system),
		"bash.bashrc": fmt.Sprintf("# Interactive shells read this.\nPS1='%s '\nunset HISTFILE\nset +H\n", s.prompt),
		"passwd": fmt.Sprintf("root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n"+
			"%[1]s:x:%[2]d:%[2]d:%[1]s:/%[3]s:/bin/bash\n", s.user.name, id, home),
		"shadow": fmt.Sprintf("root::19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n%s:%s:19000:0:99999:7:::\n",
			s.user.name, s.user.hash),
		"group":  fmt.Sprintf("root:x:0:\ntty:x:5:\nnogroup:x:65534:\n%s:x:%d:\n", s.user.name, id),
		"shells": strings.Join([]string{"/bin/sh", "/bin/bash", ""}, "\n"),
	} {
		t.Bytes("etc/"+name, 0o644, []byte(content))
	}
	if s.ignoresLeaseName {
		t.Bytes("etc/ignore-lease-name", 0o644, nil)
	}
}
