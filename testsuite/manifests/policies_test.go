package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/internal/settings"
)

const controlWorker = "system:serviceaccount:virtflow:virtflow-control-worker"

// policies is the API server's own admission plugin with the policies of an overlay in force.
type policies struct {
	t      *testing.T
	plugin *validating.Plugin
	// launcher is the image that the overlay's control worker gives launcher pods.
	launcher string
}

// namespaces are those that requests name, and their labels.
func namespaces() map[string]map[string]string {
	return map[string]map[string]string{
		"default": nil, "kube-system": nil, "virtflow": nil, "kubernetes-tenant": nil,
		"kube-guests": {"virtflow.io/launchers": "allowed"}, "kube-others": {"virtflow.io/launchers": "refused"},
	}
}

func newPolicies(t *testing.T, overlay string) policies {
	t.Helper()
	p := policies{t: t}
	require.NoError(t, cdi.AddToScheme(scheme.Scheme))
	require.NoError(t, kubevirt.AddToScheme(scheme.Scheme))
	var objects []runtime.Object
	for name, labels := range namespaces() {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	bindings := 0
	for _, o := range rendered(t, overlay) {
		kind, _ := o["kind"].(string)
		data, err := json.Marshal(o)
		require.NoError(t, err)
		switch kind {
		case "ValidatingAdmissionPolicy":
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			require.NoError(t, json.Unmarshal(data, policy))
			policy.Namespace = "" // kustomize sets it; kubectl omits it, because policies are cluster-scoped
			objects = append(objects, defaulted(policy))
		case "ValidatingAdmissionPolicyBinding":
			binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			require.NoError(t, json.Unmarshal(data, binding))
			binding.Namespace = ""
			objects = append(objects, binding)
			bindings++
		}
	}
	require.GreaterOrEqual(t, bindings, 4)

	plugin, err := validating.NewPlugin(nil)
	require.NoError(t, err)
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetExternalKubeClientSet(client)
	plugin.SetRESTMapper(meta.NewDefaultRESTMapper(nil))
	plugin.SetDynamicClient(dynamicfake.NewSimpleDynamicClient(scheme.Scheme))
	plugin.SetDrainedNotification(t.Context().Done())
	plugin.SetAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer())
	require.NoError(t, plugin.ValidateInitialization())
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	require.True(t, plugin.WaitForReady())
	p.plugin = plugin
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plain"}}
	require.Error(t, p.ask(request{operation: admission.Delete, resource: "pods", old: plain}), "no policy is in force")
	return p
}

// defaulted returns a policy with the API server's defaults.
func defaulted(
	p *admissionregistrationv1.ValidatingAdmissionPolicy,
) *admissionregistrationv1.ValidatingAdmissionPolicy {
	exact, all := admissionregistrationv1.Exact, admissionregistrationv1.AllScopes
	m := p.Spec.MatchConstraints
	m.MatchPolicy, m.NamespaceSelector, m.ObjectSelector = &exact, &metav1.LabelSelector{}, &metav1.LabelSelector{}
	for i := range m.ResourceRules {
		m.ResourceRules[i].Scope = &all
	}
	return p
}

// request is a request to the API server's admission.
type request struct {
	user        string // default: the control worker
	operation   admission.Operation
	resource    string
	subresource string
	object, old runtime.Object
}

// ask returns the answer to a request: nil, or why it is denied.
func (p policies) ask(r request) error {
	p.t.Helper()
	if r.user == "" {
		r.user = controlWorker
	}
	var options runtime.Object
	switch r.operation {
	case admission.Create:
		options = &metav1.CreateOptions{}
	case admission.Update:
		options = &metav1.UpdateOptions{}
	default:
		options = &metav1.DeleteOptions{}
	}
	kind := map[string]schema.GroupVersionKind{
		"pods": corev1.SchemeGroupVersion.WithKind("Pod"), "secrets": corev1.SchemeGroupVersion.WithKind("Secret"),
		"persistentvolumeclaims": corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		"datavolumes":            cdi.SchemeGroupVersion.WithKind("DataVolume"),
		"virtualmachines":        kubevirt.VirtualMachineGroupVersionKind,
	}[r.resource]
	var named metav1.Object
	for _, o := range []runtime.Object{r.object, r.old} {
		if o != nil {
			var err error
			named, err = meta.Accessor(o)
			require.NoError(p.t, err)
			break
		}
	}
	attributes := admission.NewAttributesRecord(r.object, r.old, kind, named.GetNamespace(), named.GetName(),
		kind.GroupVersion().WithResource(r.resource), r.subresource, r.operation, options, false,
		&user.DefaultInfo{Name: r.user})
	return p.plugin.Validate(context.Background(), attributes, admission.NewObjectInterfacesFromScheme(scheme.Scheme))
}

// instance returns an instance with everything that affects its pod.
func instance() *kubevirt.VirtualMachineInstance {
	return &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "3f2a9c1e-0000-4000-8000-000000000000"},
		Spec: kubevirt.VirtualMachineInstanceSpec{
			Architecture: "amd64",
			Domain: kubevirt.DomainSpec{
				CPU: &kubevirt.CPU{Sockets: 1, Cores: 1, Threads: 1},
				Devices: kubevirt.Devices{
					Interfaces: []kubevirt.Interface{
						{Name: "default", Ports: []kubevirt.Port{{Name: "ssh", Port: 22}}}}},
			},
			Networks:      []kubevirt.Network{*kubevirt.DefaultPodNetwork()},
			LivenessProbe: &kubevirt.Probe{Handler: kubevirt.Handler{GuestAgentPing: &kubevirt.GuestAgentPing{}}},
			ReadinessProbe: &kubevirt.Probe{
				Handler: kubevirt.Handler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
			Volumes: []kubevirt.Volume{
				{Name: "root", VolumeSource: kubevirt.VolumeSource{
					ContainerDisk: &kubevirt.ContainerDiskSource{Image: "example.com/disk:1",
						ImagePullSecret: "registry"}}},
				{Name: "data", VolumeSource: kubevirt.VolumeSource{EmptyDisk: &kubevirt.EmptyDiskSource{}}},
				{Name: "init", VolumeSource: kubevirt.VolumeSource{CloudInitNoCloud: &kubevirt.CloudInitNoCloudSource{
					UserData: "#cloud-config", NetworkDataSecretRef: &corev1.LocalObjectReference{Name: "net"},
				}}},
				{Name: "settings", VolumeSource: kubevirt.VolumeSource{ConfigMap: &kubevirt.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
				{Name: "account", VolumeSource: kubevirt.VolumeSource{
					ServiceAccount: &kubevirt.ServiceAccountVolumeSource{ServiceAccountName: "reader"}}},
			},
		},
	}
}

// pod returns the launcher pod that the control worker creates for it.
func (p policies) pod() *corev1.Pod {
	p.t.Helper()
	pod, err := render.Pod(instance(), render.Options{Image: p.launcher, Settings: settings.Default()})
	require.NoError(p.t, err)
	return pod
}

func secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s, err := render.Secret(instance())
	require.NoError(t, err)
	require.NotNil(t, s)
	return s
}

// TestControlWorkerWritesArePermitted: the policies permit all writes of the control worker, also in a cluster of
// users, and while control workers of two versions run.
func TestControlWorkerWritesArePermitted(t *testing.T) {
	for overlay, images := range map[string][]string{
		"dev-overlay": {"localhost/virtflow/launcher:0123456789ab", "localhost/virtflow/launcher:dev"},
		"existing": {
			"registry.example.com/virtflow/launcher:v0.1.0", "registry.example.com/virtflow/launcher:v0.2.0",
			"registry.example.com/virtflow/launcher@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		},
	} {
		p := newPolicies(t, overlay)
		for _, image := range images {
			p.launcher = image
			require.NoError(t, p.ask(request{operation: admission.Create, resource: "pods", object: p.pod()}), image)
		}
		numa := p.pod()
		numa.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_NICE"}
		require.NoError(t, p.ask(request{operation: admission.Create, resource: "pods", object: numa}),
			"of a guest that has the NUMA nodes of its host")
		confined := p.pod()
		file := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("a.json")}
		confined.Spec.SecurityContext.SeccompProfile = file
		confined.Spec.Containers[0].SecurityContext.SeccompProfile = file
		require.NoError(t, p.ask(request{operation: admission.Create, resource: "pods", object: confined}),
			"with the seccomp profile that the KubeVirt object names")
		require.NoError(t, p.ask(request{operation: admission.Create, resource: "secrets", object: secret(t)}))
		for _, class := range []string{"", "shared"} {
			require.NoError(t, p.ask(request{operation: admission.Create, resource: "persistentvolumeclaims",
				object: state(t, class)}))
		}

		old := p.pod()
		released := old.DeepCopy()
		released.Finalizers = nil
		require.NoError(t, p.ask(request{operation: admission.Update, resource: "pods", object: released, old: old}),
			"removes its finalizer")
		annotated := old.DeepCopy()
		annotated.Annotations["descheduler.alpha.kubernetes.io/prefer-no-eviction"] = "true"
		require.NoError(t, p.ask(request{operation: admission.Update, resource: "pods", object: annotated, old: old}))
		ready := old.DeepCopy()
		ready.Status.Conditions = []corev1.PodCondition{
			{Type: "kubevirt.io/virtual-machine-unpaused", Status: corev1.ConditionTrue}}
		require.NoError(t, p.ask(
			request{operation: admission.Update, resource: "pods", subresource: "status", object: ready, old: old}))
		orphaned := old.DeepCopy()
		orphaned.OwnerReferences = nil
		released = orphaned.DeepCopy()
		released.Finalizers = nil
		require.NoError(t, p.ask(
			request{operation: admission.Update, resource: "pods", object: released,
				old: orphaned}), "one without an owner can be deleted as well")
		require.NoError(t, p.ask(request{operation: admission.Delete, resource: "pods", old: orphaned}))
		require.NoError(t, p.ask(request{operation: admission.Delete, resource: "pods", old: old}))
	}
}

// TestRefusesLaunchersInClusterNamespaces: a guest there would get the namespace's Secrets and tokens.
func TestRefusesLaunchersInClusterNamespaces(t *testing.T) {
	p := newPolicies(t, "existing")
	p.launcher = "registry.example.com/virtflow/launcher:v0.1.0"
	for namespace, want := range map[string]bool{
		"default": true, "kubernetes-tenant": true, "kube-guests": true,
		"kube-system": false, "virtflow": false, "kube-others": false,
	} {
		pod := p.pod()
		pod.Namespace = namespace
		err := p.ask(request{operation: admission.Create, resource: "pods", object: pod})
		if want {
			require.NoError(t, err, namespace)
		} else {
			require.ErrorContains(t, err, "virtflow.io/launchers=allowed", namespace)
		}
		// One that runs there ends.
		require.NoError(t, p.ask(request{operation: admission.Delete, resource: "pods", old: pod}), namespace)
	}
}

// TestLauncherPodsGainNothing: each change of the pod that the control worker creates is refused.
func TestLauncherPodsGainNothing(t *testing.T) {
	p := newPolicies(t, "existing")
	p.launcher = "registry.example.com/virtflow/launcher:v0.1.0"
	yes, no, root := true, false, int64(0)
	always, unmasked := corev1.ContainerRestartPolicyAlways, corev1.UnmaskedProcMount
	volume := func(s corev1.VolumeSource) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: s})
		}
	}
	container := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { change(&pod.Spec.Containers[0]) }
	}
	for name, change := range map[string]func(*corev1.Pod){
		"another name":     func(pod *corev1.Pod) { pod.Name = "web" },
		"no label":         func(pod *corev1.Pod) { delete(pod.Labels, "kubevirt.io") },
		"another instance": func(pod *corev1.Pod) { pod.Labels["kubevirt.io/created-by"] = "other" },
		"no finalizer":     func(pod *corev1.Pod) { pod.Finalizers = nil },
		"more finalizers":  func(pod *corev1.Pod) { pod.Finalizers = append(pod.Finalizers, "example.com/x") },
		"no owner":         func(pod *corev1.Pod) { pod.OwnerReferences = nil },
		"another owner":    func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "VirtualMachine" },
		"no controller":    func(pod *corev1.Pod) { pod.OwnerReferences[0].Controller = &no },
		"two owners": func(pod *corev1.Pod) {
			pod.OwnerReferences = append(pod.OwnerReferences, pod.OwnerReferences[0])
		},
		"a token":       func(pod *corev1.Pod) { pod.Spec.AutomountServiceAccountToken = nil },
		"the network":   func(pod *corev1.Pod) { pod.Spec.HostNetwork = true },
		"the processes": func(pod *corev1.Pod) { pod.Spec.HostPID = true },
		"the IPC":       func(pod *corev1.Pod) { pod.Spec.HostIPC = true },
		"a node":        func(pod *corev1.Pod) { pod.Spec.NodeName = "control-plane" },
		"maybe root":    func(pod *corev1.Pod) { pod.Spec.SecurityContext.RunAsNonRoot = nil },
		"no seccomp":    func(pod *corev1.Pod) { pod.Spec.SecurityContext.SeccompProfile = nil },
		"unconfined": func(pod *corev1.Pod) {
			pod.Spec.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
			pod.Spec.Containers[0].SecurityContext.SeccompProfile = nil
		},
		"sysctls": func(pod *corev1.Pod) {
			pod.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "a", Value: "b"}}
		},
		"a host path": volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"a projected token": volume(
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			}}}),
		"a token for another audience": func(pod *corev1.Pod) {
			for i := range pod.Spec.Volumes {
				if p := pod.Spec.Volumes[i].Projected; p != nil {
					p.Sources[0].ServiceAccountToken.Audience = "vault"
				}
			}
		},
		"a second container": func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0])
		},
		"an init container": func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "x", Image: p.launcher, RestartPolicy: &always}}
		},
		"another image": container(func(c *corev1.Container) {
			c.Image = "registry.example.com/other/launcher:v0.1.0"
		}),
		"an image named alike": container(func(c *corev1.Container) {
			c.Image = "registry.example.com/virtflow/launcher-2:v0.1.0"
		}),
		"an image beneath": container(func(c *corev1.Container) {
			c.Image = "registry.example.com/virtflow/launcher/x:v0.1.0"
		}),
		"the other way round": container(func(c *corev1.Container) {
			c.Image = "registry.example.com:80/virtflow/launcher"
		}),
		"privileged": container(func(c *corev1.Container) { c.SecurityContext.Privileged = &yes }),
		"escalation": container(func(c *corev1.Container) {
			c.SecurityContext.AllowPrivilegeEscalation = nil
		}),
		"no security context": container(func(c *corev1.Container) { c.SecurityContext = nil }),
		"root":                container(func(c *corev1.Container) { c.SecurityContext.RunAsUser = &root }),
		"maybe root in it":    container(func(c *corev1.Container) { c.SecurityContext.RunAsNonRoot = &no }),
		"an unconfined container": container(func(c *corev1.Container) {
			c.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
		}),
		"another seccomp profile than the pod's": container(func(c *corev1.Container) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{
				Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("a.json")}
		}),
		"all of /proc": container(func(c *corev1.Container) { c.SecurityContext.ProcMount = &unmasked }),
		"a capability": container(func(c *corev1.Container) {
			c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		}),
		"the usual capabilities": container(func(c *corev1.Container) { c.SecurityContext.Capabilities.Drop = nil }),
		"a port of the host":     container(func(c *corev1.Container) { c.Ports[0].HostPort = 22 }),
		"another command":        container(func(c *corev1.Container) { c.Command = []string{"/bin/sh"} }),
		"arguments":              container(func(c *corev1.Container) { c.Args = []string{"capabilities"} }),
		"another probe": container(func(c *corev1.Container) {
			c.LivenessProbe.Exec.Command = []string{"/run/virtflow/container-disks/root/x"}
		}),
		"a mount over the launcher": container(func(c *corev1.Container) {
			c.VolumeMounts[0].MountPath = "/run/virtflow/claims/../../../usr/bin"
		}),
		"a mount of its own": container(func(c *corev1.Container) { c.VolumeMounts[0].MountPath = "/usr/bin" }),
		"a device over another": container(func(c *corev1.Container) {
			c.VolumeDevices = []corev1.VolumeDevice{{Name: "x", DevicePath: "/dev/virtflow/../kvm"}}
		}),
		"a hook": container(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh"}}}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			pod := p.pod()
			change(pod)
			require.ErrorContains(t, p.ask(request{operation: admission.Create, resource: "pods", object: pod}),
				"virtflow-control-worker-pods")
		})
	}
}

// TestControlWorkerChangesLauncherPodsOnly: the control worker may change only launcher pods, and of these only what it
// writes.
func TestControlWorkerChangesLauncherPodsOnly(t *testing.T) {
	p := newPolicies(t, "dev-overlay")
	p.launcher = "localhost/virtflow/launcher:dev"
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "database"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	const denied = "virtflow-control-worker-pods"
	require.ErrorContains(t, p.ask(request{operation: admission.Delete, resource: "pods", old: other}), denied)
	require.ErrorContains(t, p.ask(request{operation: admission.Update, resource: "pods", object: other, old: other}),
		denied)
	require.ErrorContains(t, p.ask(
		request{operation: admission.Update, resource: "pods", subresource: "status", object: other,
			old: other}), denied)
	disguised := other.DeepCopy()
	disguised.Labels = map[string]string{"kubevirt.io": "virt-launcher"}
	require.ErrorContains(t, p.ask(
		request{operation: admission.Update, resource: "pods", object: disguised, old: other}), denied)
	require.NoError(t, p.ask(request{user: "jane", operation: admission.Delete, resource: "pods", old: other}),
		"others may delete pods")

	for name, change := range map[string]func(*corev1.Pod){
		"its image":      func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "x" },
		"its owner":      func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "other" },
		"its label":      func(pod *corev1.Pod) { delete(pod.Labels, "kubevirt.io") },
		"its instance":   func(pod *corev1.Pod) { pod.Labels["kubevirt.io/created-by"] = "other" },
		"its migration":  func(pod *corev1.Pod) { pod.Labels["kubevirt.io/migrationJobUID"] = "other" },
		"its definition": func(pod *corev1.Pod) { pod.Annotations["virtflow.io/vmi"] = "{}" },
	} {
		changed := p.pod()
		change(changed)
		require.ErrorContains(t, p.ask(
			request{operation: admission.Update, resource: "pods", object: changed, old: p.pod()}), denied, name)
	}
}

// TestControlWorkerCreatesCloudInitSecretsOnly.
func TestControlWorkerCreatesCloudInitSecretsOnly(t *testing.T) {
	p := newPolicies(t, "existing")
	no := false
	for name, change := range map[string]func(*corev1.Secret){
		"another name":     func(s *corev1.Secret) { s.Name = "database" },
		"an account's":     func(s *corev1.Secret) { s.Type = corev1.SecretTypeServiceAccountToken },
		"changeable":       func(s *corev1.Secret) { s.Immutable = nil },
		"no owner":         func(s *corev1.Secret) { s.OwnerReferences = nil },
		"another owner":    func(s *corev1.Secret) { s.OwnerReferences[0].Kind = "VirtualMachine" },
		"no controller":    func(s *corev1.Secret) { s.OwnerReferences[0].Controller = &no },
		"another instance": func(s *corev1.Secret) { s.Labels["kubevirt.io/created-by"] = "other" },
	} {
		s := secret(t)
		change(s)
		require.ErrorContains(t, p.ask(request{operation: admission.Create, resource: "secrets", object: s}),
			"virtflow-control-worker-secrets", name)
	}
	require.ErrorContains(t, p.ask(request{operation: admission.Delete, resource: "secrets", old: secret(t)}),
		"virtflow-control-worker-secrets")
	require.ErrorContains(t, p.ask(
		request{operation: admission.Update, resource: "secrets", object: secret(t),
			old: secret(t)}), "virtflow-control-worker-secrets")
}

// TestOthersCreateNoCloudInitSecrets: no other user may create a launcher's cloud-init Secret, whose name can be
// derived: the control worker would use such a Secret as its own, and a guest would get another user's data.
func TestOthersCreateNoCloudInitSecrets(t *testing.T) {
	p := newPolicies(t, "existing")
	name := render.SecretName(render.PodName(strings.Repeat("web.", 16)+"web", "9a6e8b5e-0000-4000-8000-000000000000"))
	ask := func(user, name string) error {
		return p.ask(request{user: user, operation: admission.Create, resource: "secrets",
			object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}})
	}
	require.ErrorContains(t, ask("system:serviceaccount:default:deployer", name), "only virtflow makes Secrets")
	require.ErrorContains(t, ask("system:admin", "virt-launcher-web-abcde-cloud-init"), "only virtflow makes Secrets")
	require.NoError(t, ask("system:serviceaccount:default:deployer", "web-cloud-init"))
}

// TestFinalizersAreBounded: the bound holds for every writer; an object with too many finalizers can lose some.
func TestFinalizersAreBounded(t *testing.T) {
	p := newPolicies(t, "existing")
	vm := func(finalizers int) *kubevirt.VirtualMachine {
		vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		for i := range finalizers {
			vm.Finalizers = append(vm.Finalizers, fmt.Sprintf("example.com/%d", i))
		}
		return vm
	}
	ask := func(operation admission.Operation, object, old *kubevirt.VirtualMachine) error {
		r := request{user: "jane", operation: operation, resource: "virtualmachines", object: object}
		if old != nil {
			r.old = old
		}
		return p.ask(r)
	}
	require.NoError(t, ask(admission.Create, vm(0), nil))
	require.NoError(t, ask(admission.Create, vm(32), nil))
	require.ErrorContains(t, ask(admission.Create, vm(33), nil), "an object has at most 32 finalizers")
	require.NoError(t, ask(admission.Update, vm(32), vm(0)))
	require.ErrorContains(t, ask(admission.Update, vm(33), vm(32)), "an object has at most 32 finalizers")
	require.ErrorContains(t, ask(admission.Update, vm(41), vm(40)), "an object has at most 32 finalizers")
	require.NoError(t, ask(admission.Update, vm(40), vm(40)), "something else changes")
	require.NoError(t, ask(admission.Update, vm(0), vm(40)))
}
