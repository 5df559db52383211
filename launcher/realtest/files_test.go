//go:build libvirt

package realtest

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// The agent sets the credentials of a user other than the one with which the tests log in.
const (
	otherUser   = "nobody"
	newPassword = "opensesame"
)

// TestGuestReadsItsFiles: each volume of files is a disk, on each bus, with the label and the names that a guest looks
// for. The guest can write to it unless it is a CD-ROM.
func TestGuestReadsItsFiles(t *testing.T) {
	p := newPod(t, vmi(func(spec map[string]any) {
		devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
		for _, d := range []struct{ name, bus, device string }{
			{"secret", "virtio", "disk"}, {"settings", "sata", "cdrom"}, {"pod", "scsi", "disk"},
			{"account", "sata", "disk"}, {"answers", "scsi", "cdrom"},
		} {
			devices["disks"] = append(devices["disks"].([]any),
				map[string]any{"name": d.name, "serial": d.name, d.device: map[string]any{"bus": d.bus}})
		}
		spec["volumes"] = append(spec["volumes"].([]any),
			map[string]any{"name": "secret", "secret": map[string]any{"secretName": "s", "volumeLabel": "MINE"}},
			map[string]any{"name": "settings", "configMap": map[string]any{"name": "c"}},
			map[string]any{"name": "pod", "downwardAPI": map[string]any{"volumeLabel": "podinfo"}},
			map[string]any{"name": "account", "serviceAccount": map[string]any{"serviceAccountName": "a"}},
			map[string]any{"name": "answers", "sysprep": map[string]any{"secret": map[string]any{"name": "s"}}})
		for _, v := range spec["volumes"].([]any) {
			if v := v.(map[string]any); v["name"] == "seed" {
				delete(v, "cloudInitNoCloud")
				v["cloudInitConfigDrive"] = map[string]any{}
			}
		}
		spec["accessCredentials"] = []any{map[string]any{"sshPublicKey": map[string]any{
			"source":            map[string]any{"secret": map[string]any{"secretName": "keys"}},
			"propagationMethod": map[string]any{"configDrive": map[string]any{}},
		}}, map[string]any{"sshPublicKey": map[string]any{
			"source":            map[string]any{"secret": map[string]any{"secretName": "mine"}},
			"propagationMethod": map[string]any{"qemuGuestAgent": map[string]any{"users": []string{"root"}}},
		}}, map[string]any{"userPassword": map[string]any{
			"source":            map[string]any{"secret": map[string]any{"secretName": "passwords"}},
			"propagationMethod": map[string]any{"qemuGuestAgent": map[string]any{}},
		}}}
	}))
	p.put("files/secret/Pass.Word_OF-mine", "said: secret")
	p.put("files/secret/pass.word_of-mine", "said: another")
	p.put("files/settings/deep/er/key", "said: setting")
	p.put("files/settings/"+strings.Repeat("long-", 20), "said: long")
	p.put("files/pod/labels", "said: labels")
	p.put("files/account/token", "said: token")
	p.put("files/answers/Autounattend.xml", "said: answers")
	p.put("access-credentials/keys/key", "ssh-ed25519 AAAA said: key")
	p.put("access-credentials/mine/key", "ssh-ed25519 BBBB first")
	p.put("access-credentials/passwords/"+otherUser, newPassword)
	p.boot()
	p.shell(`mkdir -p /m; for d in /dev/vd[c-z] /dev/sd? /dev/sr?; do mount -t iso9660 -o ro $d /m || continue; ` +
		`echo "label <$(dd if=$d bs=1 skip=32808 count=32 2>/dev/null | tr -d '\0 ')>" >/dev/console; ` +
		`(cd /m; find . -type f | while read f; do echo "$f $(cat "$f")" >/dev/console; done); ` +
		`umount /m; dd if=/dev/zero of=$d bs=1 count=1 seek=100 conv=notrunc,fsync && ` +
		`echo "$d is written to" >/dev/console; done; echo all is read >/dev/console; ` +
		// Then the agent sets the credentials. The test logs in to the serial port only once.
		`until grep -q first /root/.ssh/authorized_keys; do sleep 1; done; ` +
		`while grep -q '^nobody:\*' /etc/shadow; do sleep 1; done; echo a password is set >/dev/console; ` +
		`sed 's/^/has: /' /root/.ssh/authorized_keys >/dev/console; echo >/dev/console; ` +
		`until grep -q changed /root/.ssh/authorized_keys; do sleep 1; done; echo the key has changed >/dev/console`)
	p.eventually("the guest has read its disks", func() bool { return countLog(p, "guest console: all is read") > 0 })
	log := p.log()
	for _, want := range []string{
		"./Pass.Word_OF-mine said: secret", "./pass.word_of-mine said: another", "./deep/er/key said: setting",
		"./" + strings.Repeat("long-", 20) + " said: long", "./labels said: labels", "./token said: token",
		"./Autounattend.xml said: answers", "label <MINE>", "label <cfgdata>", "label <podinfo>",
		"label <unattendCD>", "label <config-2>", "./openstack/latest/user_data #cloud-config",
		`\"public_keys\":{\"0\":\"ssh-ed25519 AAAA said: key\"}`,
		"/dev/vdc is written to", "/dev/vdd is written to",
	} {
		require.Contains(t, log, want)
	}
	p.eventually("the guest's agent has set the credentials", func() bool {
		d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
		return err == nil && d.GetAccessCredentials().GetDone()
	})
	p.eventually("it was seen in the guest", func() bool { return countLog(p, "has: ssh-ed25519 BBBB first") > 0 })
	p.put("access-credentials/mine/key", "ssh-ed25519 BBBB changed")
	p.eventually("the guest has the newer key", func() bool {
		return countLog(p, "guest console: the key has changed") > 0
	})
	require.Contains(t, p.log(), "guest console: a password is set")
	require.NotContains(t, p.log(), newPassword)
	require.NotContains(t, p.log(), base64.StdEncoding.EncodeToString([]byte(newPassword)))
	require.Equal(t, 4, strings.Count(log, "guest console: /dev/"), "CD-ROMs are not written to")
}
