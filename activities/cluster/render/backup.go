package render

import (
	"encoding/json"
	"strconv"

	kubevirt "kubevirt.io/api/core/v1"
)

// annotationSkipBackupHooks keeps Velero from freezing a guest where it is true.
const annotationSkipBackupHooks = "kubevirt.io/skip-backup-hooks"

// backupHooks returns the annotations by which Velero has a guest's file systems frozen while it backs up the pod's
// claims. Names and time limit are those of KubeVirt, the commands are the launcher's.
// https://velero.io/docs/v1.17/backup-hooks/#specifying-hooks-as-pod-annotations
func backupHooks(vmi *kubevirt.VirtualMachineInstance) map[string]string {
	if skip, err := strconv.ParseBool(vmi.Annotations[annotationSkipBackupHooks]); err == nil && skip {
		return nil
	}
	return map[string]string{
		"pre.hook.backup.velero.io/container":  compute,
		"pre.hook.backup.velero.io/command":    command("freeze"),
		"pre.hook.backup.velero.io/timeout":    "60s",
		"post.hook.backup.velero.io/container": compute,
		"post.hook.backup.velero.io/command":   command("thaw"),
	}
}

// command of the launcher, as Velero reads one.
func command(name string) string {
	text, _ := json.Marshal([]string{launcherProgram, name})
	return string(text)
}
