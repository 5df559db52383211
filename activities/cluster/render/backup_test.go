package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

func TestBackupHooks(t *testing.T) {
	for value, skipped := range map[string]bool{"": false, "true": true, "1": true, "false": false, "no": false} {
		vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{"kubevirt.io/skip-backup-hooks": value}}}
		hooks := backupHooks(vmi)
		require.Equal(t, skipped, len(hooks) == 0, value)
		if !skipped {
			require.Equal(t, `["/usr/bin/launcher","freeze"]`, hooks["pre.hook.backup.velero.io/command"])
			require.Equal(t, `["/usr/bin/launcher","thaw"]`, hooks["post.hook.backup.velero.io/command"])
		}
	}
}
