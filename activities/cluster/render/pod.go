package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/bindings"
	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/settings"
)

// Options has what a launcher pod depends on beside its VMI.
type Options struct {
	// Image of the launcher, and when it is pulled ("": IfNotPresent).
	Image      string
	PullPolicy corev1.PullPolicy
	Settings   settings.Settings
	// NetworkResources has what a pod on some of the VMI's networks has to request, by their names.
	NetworkResources map[string]string
	// Limited are the resources for which the container gets a limit although the user sets none.
	Limited Limited
}

const (
	// user is KubeVirt's qemu user: user, group and fsGroup of every launcher.
	user int64 = 107
	// VMIFile is where the launcher finds the VMI.
	VMIFile = vmiDir + "/" + contract.FileVMI
	compute = "compute"
)

// Pod makes the launcher pod of a VMI. An error names the part of the VMI that cannot be served.
func Pod(vmi *kubevirt.VirtualMachineInstance, o Options) (*corev1.Pod, error) {
	if err := checkPermitted(&vmi.Spec.Domain, o.Settings); err != nil {
		return nil, err
	}
	if err := checkBindings(&vmi.Spec.Domain, o.Settings); err != nil {
		return nil, err
	}
	annotations, err := podAnnotations(vmi, &o.Settings)
	if err != nil {
		return nil, err
	}
	name := PodName(vmi.Name, string(vmi.UID))
	volumes, mounts, err := podVolumes(vmi, name)
	if err != nil {
		return nil, err
	}
	machine, err := hardware.From(&o.Settings.Configuration).Encode()
	if err != nil {
		return nil, err
	}
	grace := contract.PodGrace(vmi.Spec.TerminationGracePeriodSeconds)
	uid, no, onRoot := user, false, corev1.FSGroupChangeOnRootMismatch
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Namespace:       vmi.Namespace,
			Labels:          podLabels(vmi),
			Annotations:     annotations,
			Finalizers:      []string{contract.FinalizerPod},
			OwnerReferences: owners(vmi),
		},
		Spec: corev1.PodSpec{
			Hostname:                      hostname(vmi.Spec.Hostname, vmi.Name),
			Subdomain:                     vmi.Spec.Subdomain,
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			ServiceAccountName:            serviceAccount(vmi),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: &uid, RunAsGroup: &uid, FSGroup: &uid, FSGroupChangePolicy: &onRoot, RunAsNonRoot: yes(),
				SeccompProfile: seccomp(&o.Settings),
			},
			ReadinessGates:            []corev1.PodReadinessGate{{ConditionType: contract.ConditionUnpaused}},
			NodeSelector:              nodeSelector(vmi, o.Settings),
			Affinity:                  affinity(vmi),
			Tolerations:               vmi.Spec.Tolerations,
			TopologySpreadConstraints: vmi.Spec.TopologySpreadConstraints,
			PriorityClassName:         vmi.Spec.PriorityClassName,
			RuntimeClassName:          runtimeClass(&o.Settings),
			SchedulerName:             vmi.Spec.SchedulerName,
			DNSPolicy:                 vmi.Spec.DNSPolicy,
			DNSConfig:                 vmi.Spec.DNSConfig,
			ImagePullSecrets:          pullSecrets(vmi, o.Settings),
			ResourceClaims:            resourceClaims(vmi),
			Containers:                []corev1.Container{computeContainer(vmi, o, machine, mounts)},
			Volumes:                   volumes,
		},
	}, nil
}

func owners(vmi *kubevirt.VirtualMachineInstance) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(vmi, kubevirt.VirtualMachineInstanceGroupVersionKind)}
}

// podLabels returns the VMI's labels, without those that name its guest's node or mark its launcher as outdated, and
// with the labels by which launcher pods are found.
func podLabels(vmi *kubevirt.VirtualMachineInstance) map[string]string {
	l := maps.Clone(vmi.Labels)
	if l == nil {
		l = map[string]string{}
	}
	for _, k := range []string{contract.LabelNodeName, contract.LabelMigrationTarget, contract.LabelOutdatedImage} {
		delete(l, k)
	}
	l[contract.LabelLauncher] = contract.LabelLauncherValue
	l[contract.LabelCreatedBy] = string(vmi.UID)
	l["vm.kubevirt.io/name"] = hostname(vmi.Spec.Hostname, vmi.Name)
	l["vmi.kubevirt.io/id"] = observe.NameLabel(vmi.Name)
	return l
}

// podAnnotations returns the VMI's annotations, without those that are about the VMI object itself (kubectl's copy of
// what was applied has the user's cloud-init data in it), and the VMI as the launcher reads it.
func podAnnotations(vmi *kubevirt.VirtualMachineInstance, s *settings.Settings) (map[string]string, error) {
	a := map[string]string{}
	for k, v := range vmi.Annotations {
		if strings.HasPrefix(k, "kubectl.kubernetes.io") ||
			strings.HasPrefix(k, "kubevirt.io/storage-observed-api-version") ||
			strings.HasPrefix(k, "kubevirt.io/latest-observed-api-version") {
			continue
		}
		a[k] = v
	}
	networks, err := multus.Annotations(vmi, bindings.From(&s.Configuration).Definitions())
	if err != nil {
		return nil, err
	}
	maps.Copy(a, networks)
	maps.Copy(a, backupHooks(vmi))
	launched, err := json.Marshal(VMIForLauncher(vmi, s))
	if err != nil {
		return nil, fmt.Errorf("encoding VirtualMachineInstance %s/%s: %w", vmi.Namespace, vmi.Name, err)
	}
	a[contract.AnnotationVMISpec] = string(launched)
	a[contract.AnnotationDomain] = vmi.Name
	a["kubectl.kubernetes.io/default-container"] = compute
	a["descheduler.alpha.kubernetes.io/request-evict-only"] = ""
	return a, nil
}

// runtimeClass returns the cluster's runtime class for launchers; nil: the default of all pods.
func runtimeClass(s *settings.Settings) *string {
	if name := s.Configuration.DefaultRuntimeClass; name != "" {
		return &name
	}
	return nil
}

// seccomp returns the profile of launchers: the runtime's default, or the file on their nodes that the cluster's
// configuration names. The API server refuses a pod whose file has an invalid path, so that no launcher runs with
// another profile than the configured one.
func seccomp(s *settings.Settings) *corev1.SeccompProfile {
	if c := s.Configuration.SeccompConfiguration; c != nil && c.VirtualMachineInstanceProfile != nil {
		if p := c.VirtualMachineInstanceProfile.CustomProfile; p != nil && p.LocalhostProfile != nil {
			return &corev1.SeccompProfile{
				Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: p.LocalhostProfile}
		}
	}
	return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
}

// VMIForLauncher returns the copy of a VMI from which its launcher builds the domain. It has the identity, the
// specification without anything secret, the settings of the cluster's configuration, facts about the PVCs, and the
// labels that the node worker gives the guest's metrics.
func VMIForLauncher(vmi *kubevirt.VirtualMachineInstance, s *settings.Settings) *kubevirt.VirtualMachineInstance {
	out := &kubevirt.VirtualMachineInstance{
		TypeMeta: metav1.TypeMeta{APIVersion: kubevirt.GroupVersion.String(), Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{Name: vmi.Name, Namespace: vmi.Namespace, UID: vmi.UID,
			Labels: contract.MetricLabels(vmi.Labels)},
		Spec: *vmi.Spec.DeepCopy(),
	}
	out.Status.VolumeStatus = claimStatus(vmi)
	for _, name := range ofMachine() {
		if value, ok := vmi.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, name, value)
		}
	}
	if s.VGAForEFI {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, kubevirt.VGADisplayForEFIGuestsX86Annotation, "")
	}
	for name, attachment := range attachments(&out.Spec.Domain, s) {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, contract.AnnotationAttachment+name, string(attachment))
	}
	optOut(out, s.Configuration.VirtualMachineOptions)
	for i := range out.Spec.Volumes {
		if c := cloudInitSource(&out.Spec.Volumes[i]); c != nil {
			c.UserData, c.UserDataBase64, c.NetworkData, c.NetworkDataBase64 = "", "", "", ""
		}
	}
	return out
}

// optOut applies what the cluster's configuration turns off. A VMI that asks for the log of its console has it.
func optOut(vmi *kubevirt.VirtualMachineInstance, o *kubevirt.VirtualMachineOptions) {
	if o == nil {
		return
	}
	if o.DisableFreePageReporting != nil {
		metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, kubevirt.FreePageReportingDisabledAnnotation, "true")
	}
	if d := &vmi.Spec.Domain.Devices; o.DisableSerialConsoleLog != nil && d.LogSerialConsole == nil {
		no := false
		d.LogSerialConsole = &no
	}
}

// ofMachine returns the annotations of a VMI that its launcher reads.
func ofMachine() []string {
	return []string{
		kubevirt.ClusterInstancetypeAnnotation, kubevirt.InstancetypeAnnotation,
		kubevirt.DisablePCIHole64, kubevirt.FreePageReportingDisabledAnnotation, kubevirt.MemfdMemoryBackend,
		kubevirt.PlacePCIDevicesOnRootComplex, kubevirt.PauseGuestAgentProbesAnnotation,
	}
}

// logLevel is the environment variable of the launcher's flag --log-level.
const logLevel = "VIRTFLOW_LOG_LEVEL"

// computeContainer returns the launcher's container. Machine is the cluster's hardware, encoded; "": the default.
func computeContainer(
	vmi *kubevirt.VirtualMachineInstance, o Options, machine string, mounts []corev1.VolumeMount,
) corev1.Container {
	no := false
	policy := o.Settings.PullPolicy
	if policy == "" {
		policy = o.PullPolicy
	}
	if policy == "" {
		policy = corev1.PullIfNotPresent
	}
	env := []corev1.EnvVar{
		field("POD_NAME", "metadata.name"),
		field("POD_UID", "metadata.uid"),
		{Name: "ALLOW_EMULATION", Value: strconv.FormatBool(o.Settings.UseEmulation)},
	}
	if machine != "" {
		env = append(env, corev1.EnvVar{Name: hardware.Variable, Value: machine})
	}
	if level := o.Settings.LogLevels().Launcher; level != zerolog.Disabled {
		env = append(env, corev1.EnvVar{Name: logLevel, Value: level.String()})
	}
	env = append(env, networkEnv(vmi, o.NetworkResources)...)
	return corev1.Container{
		Name:                     compute,
		Image:                    o.Image,
		ImagePullPolicy:          policy,
		Env:                      env,
		Ports:                    ports(vmi),
		Resources:                computeResources(vmi, o),
		VolumeMounts:             mounts,
		VolumeDevices:            claimDevices(vmi),
		LivenessProbe:            probe(vmi.Spec.LivenessProbe),
		ReadinessProbe:           probe(vmi.Spec.ReadinessProbe),
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot:             yes(),
			AllowPrivilegeEscalation: &no,
			ReadOnlyRootFilesystem:   yes(),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities(vmi)},
			SeccompProfile:           seccomp(&o.Settings),
		},
	}
}

// capabilities of the container beyond none. Only with this one does RuntimeDefault's seccomp profile let QEMU say on
// which NUMA node memory lies. The launcher, which is not root and cannot become it, never has the capability itself.
func capabilities(vmi *kubevirt.VirtualMachineInstance) []corev1.Capability {
	if c := vmi.Spec.Domain.CPU; c != nil && c.NUMA != nil && c.NUMA.GuestMappingPassthrough != nil {
		return []corev1.Capability{"SYS_NICE"}
	}
	return nil
}

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

func ports(vmi *kubevirt.VirtualMachineInstance) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, i := range vmi.Spec.Domain.Devices.Interfaces {
		for _, p := range i.Ports {
			protocol := corev1.Protocol(strings.ToUpper(p.Protocol))
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			out = append(out, corev1.ContainerPort{Name: p.Name, ContainerPort: p.Port, Protocol: protocol})
		}
	}
	return out
}

func yes() *bool {
	b := true
	return &b
}
