package recipes

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/virtflow/virtflow/deploy/guest"
)

// exchange is a line that is typed on a guest's console, and an expression for the answer. It is awaited behind the
// answer before.
type exchange struct{ send, want string }

// dialog returns what KubeVirt's functional tests rely on of a stand-in.
func dialog(standIn, host string) []exchange {
	const pid = "kill -0 $(cat /var/run/udhcpc.eth0.pid); echo DHCP $?"
	switch standIn {
	case "cirros":
		return []exchange{
			{"", "login as 'cirros' user. default password: 'gocubsgo'. use 'sudo' for root."},
			{"", host + " login: "},
			{"cirros", "Password:"},
			{"gocubsgo", `\$ $`},
			{"id -u; sudo id -u", `\n1000\r\n0\r\n\$ $`},
			{"lspci | grep -c 1af4:", `\n[1-9]+\r\n`},
		}
	case "fedora":
		return []exchange{
			{"", host + " login: "},
			{"fedora", "Password:"},
			{"fedora", `\[fedora@` + host + ` ~\]\$ $`},
			{"cat /home/fedora/.ssh/authorized_keys", "ssh-ed25519 AAAA key of " + host},
			{"sudo su", `\[root@` + host + ` fedora\]# $`},
			{"stress-ng --vm 1 --vm-bytes 1M --vm-keep & sleep 1; pkill -f stress-ng; echo ended $?",
				`ended 0\r\n`},
			{"systemctl stop qemu-guest-agent; systemctl is-active qemu-guest-agent", `\ninactive\r\n`},
			{"systemctl start qemu-guest-agent; systemctl is-active qemu-guest-agent", `\nactive\r\n`},
		}
	case "alpine-tools":
		return append(dialog("alpine", host),
			exchange{`nc -klp 1500 -e sh -c "printf 'Hello World!'; sleep 1" &`, `# $`},
			exchange{"sleep 1; echo | nc 127.0.0.1 1500 -i 1 -w 1", `\nHello World!`},
			exchange{"blkid -L " + standIn, `\n/dev/vda2\r\n`})
	}
	return []exchange{
		{"", "Welcome to Alpine Linux"},
		{"", host + " login: "},
		{"root", host + `:~# $`},
		{"stty cols 500 rows 500; echo $?", `\n0\r\n` + host + `:~# $`},
		{pid, `\nDHCP 0\r\n`},
	}
}

// verifyStandIns boots each stand-in, talks to it on its console, freezes what has an agent, and presses the power
// button.
func verifyStandIns(ctx context.Context, b boot, folder string) error {
	for _, s := range guest.StandIns() {
		b.name, b.disk = "guest-"+s.Name, filepath.Join(folder, s.Name+".qcow2")
		b.userData = "#cloud-config\nssh_authorized_keys:\n  - ssh-ed25519 AAAA key of " + b.name + "\n"
		if err := b.run(ctx, func(ctx context.Context) error { return b.talk(ctx, s) }); err != nil {
			return err
		}
		b.builder.Log.Info().Str("guest", b.name).Msg("talked to guest")
	}
	return nil
}

func (b boot) talk(ctx context.Context, s guest.StandIn) error {
	conn, err := net.Dial("unix", b.path("serial.sock"))
	if err != nil {
		return fmt.Errorf("connect to the console: %w", err)
	}
	defer conn.Close()
	go io.Copy(io.Discard, conn) //nolint:errcheck // what the guest writes is in the log
	read := 0
	for _, e := range dialog(s.Name, b.name) {
		if e.send != "" {
			if _, err := io.WriteString(conn, e.send+"\n"); err != nil {
				return fmt.Errorf("type %q: %w", e.send, err)
			}
		}
		want := regexp.MustCompile(e.want)
		if err := await(ctx, fmt.Sprintf("%q after %q", e.want, e.send), func() bool {
			log, _ := os.ReadFile(b.path("serial.log"))
			at := want.FindIndex(log[read:])
			if at == nil {
				return false
			}
			read += at[1]
			return true
		}); err != nil {
			return err
		}
	}
	if s.HasTools {
		if err := b.freeze(ctx); err != nil {
			return err
		}
	}
	if _, err := b.daemon.Virsh(ctx, "shutdown", b.name, "--mode", "acpi"); err != nil {
		return err
	}
	return b.awaitEnd(ctx)
}

// freeze has the agent freeze the root file system, and thaw it.
func (b boot) freeze(ctx context.Context) error {
	if err := b.awaitAgent(ctx); err != nil {
		return err
	}
	for _, command := range []string{"guest-fsfreeze-freeze", "guest-fsfreeze-thaw"} {
		answer, err := b.daemon.Virsh(ctx, "qemu-agent-command", b.name, `{"execute":"`+command+`"}`)
		if err != nil {
			return err
		}
		if strings.TrimSpace(answer) != `{"return":1}` {
			return fmt.Errorf("%s: the agent answered %s, want one file system", command, answer)
		}
	}
	return nil
}
