//go:build libvirt

package realtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAGuestReadsItsFiles: each volume of files is a disk, on each bus, with the label and the names that a guest looks
// for; it may write to what is no CD-ROM.
func TestAGuestReadsItsFiles(t *testing.T) {
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
	p.boot()
	p.shell(`mkdir -p /m; for d in /dev/vd[c-z] /dev/sd? /dev/sr?; do mount -t iso9660 -o ro $d /m || continue; ` +
		`echo "label <$(dd if=$d bs=1 skip=32808 count=32 2>/dev/null | tr -d '\0 ')>" >/dev/console; ` +
		`(cd /m; find . -type f | while read f; do echo "$f $(cat "$f")" >/dev/console; done); ` +
		`umount /m; dd if=/dev/zero of=$d bs=1 count=1 seek=100 conv=notrunc,fsync && ` +
		`echo "$d is written to" >/dev/console; done; echo all is read >/dev/console`)
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
	require.Equal(t, 4, strings.Count(log, "guest console: /dev/"), "CD-ROMs are not written to")
}
