package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/settings"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// world is a cluster for one test: in memory, or (with VIRTFLOW_TEST_KUBECONFIG) a real API server that has the CRDs.
type world struct {
	*cluster.Activities
	fake       *fakekube.Server
	kubernetes kubernetes.Interface
	kubevirt   *kube.Client
	ns         string
	// later is how far the activities' clock is ahead of when they were made, and the API server's of the real one.
	later time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{ns: "default"}
	var config *rest.Config
	if path := os.Getenv("VIRTFLOW_TEST_KUBECONFIG"); path != "" {
		c, err := clientcmd.BuildConfigFromFlags("", path)
		require.NoError(t, err)
		config = c
	} else {
		w.fake = fakekube.New(fakekube.Options{Now: func() time.Time { return time.Now().Add(w.later) }})
		config = w.fake.Config()
	}
	var err error
	w.kubernetes, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	w.kubevirt, err = kube.New(config)
	require.NoError(t, err)
	if w.fake == nil {
		ns, err := w.kubernetes.CoreV1().Namespaces().
			Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cluster-test-"}},
				metav1.CreateOptions{})
		require.NoError(t, err)
		w.ns = ns.Name
		_, err = w.kubernetes.CoreV1().ServiceAccounts(w.ns).
			Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
				metav1.CreateOptions{})
		require.NoError(t, err)
	}
	w.Activities = w.again(t)
	return w
}

// again is another process with the same activities: nothing is remembered.
func (w *world) again(t *testing.T) *cluster.Activities {
	t.Helper()
	begun := time.Now()
	a, err := cluster.New(cluster.Options{
		Kubernetes: w.kubernetes, KubeVirt: w.kubevirt, LauncherImage: "localhost/virtflow/launcher:dev",
		Log: zerolog.Nop(), Record: fakekube.Record(w.kubernetes),
		Settings: func() settings.Settings { s := settings.Default(); s.UseEmulation = true; return s },
		Now:      func() time.Time { return begun.Add(w.later) },
	})
	require.NoError(t, err)
	return a
}

// calls checks which requests were made since it was last called; a real API server is not asked.
func (w *world) calls(t *testing.T, want ...string) {
	t.Helper()
	if w.fake != nil {
		require.Equal(t, want, w.fake.Calls())
	}
}

func (w *world) vm(t *testing.T) (*kubevirt.VirtualMachine, contract.Object) {
	t.Helper()
	strategy := kubevirt.RunStrategyAlways
	memory := resource.MustParse("128Mi")
	vm := &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.ns, Finalizers: []string{contract.FinalizerVM}},
		Spec: kubevirt.VirtualMachineSpec{
			RunStrategy: &strategy,
			Template: &kubevirt.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"},
					Annotations: map[string]string{contract.AnnotationRequestedBy: "mallory"}},
				Spec: kubevirt.VirtualMachineInstanceSpec{
					Domain: kubevirt.DomainSpec{Memory: &kubevirt.Memory{Guest: &memory}},
					Volumes: []kubevirt.Volume{
						{Name: "root", VolumeSource: kubevirt.VolumeSource{
							ContainerDisk: &kubevirt.ContainerDiskSource{Image: "localhost/guest:1"}}},
						{Name: "init", VolumeSource: kubevirt.VolumeSource{
							CloudInitNoCloud: &kubevirt.CloudInitNoCloudSource{
								UserData: "#cloud-config\npassword: hunter2\n"}}},
					},
				},
			},
		},
	}
	made, err := w.kubevirt.VMs(w.ns).Create(t.Context(), vm, metav1.CreateOptions{})
	require.NoError(t, err)
	w.calls(t, "POST virtualmachines")
	return made, contract.Object{Namespace: w.ns, Name: made.Name, UID: string(made.UID)}
}

func errorType(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return ""
}

// TestLife takes one VM through its life, and does each step twice.
func TestLife(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made, vm := w.vm(t)

	created, err := w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm, Generation: made.Generation, Actor: "alice"})
	require.NoError(t, err)
	w.calls(t, "GET virtualmachines", "POST controllerrevisions", "POST virtualmachineinstances", "POST events")
	require.Equal(t, "Pending", created.VMI.Phase)
	require.Equal(t, vm.UID, created.VMI.OwnerUID)
	require.Equal(t, "alice", created.VMI.Actor)
	require.ElementsMatch(t, []string{contract.FinalizerVM, contract.FinalizerVMI}, created.VMI.Finalizers)
	require.Len(t, created.VMI.Conditions, 1)
	require.Equal(t, "PodNotExists", created.VMI.Conditions[0].Reason)
	again, err := w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm})
	require.NoError(t, err)
	require.Equal(t, created.VMI, again.VMI)
	w.calls(t, "GET virtualmachines", "POST controllerrevisions", "POST virtualmachineinstances",
		"GET virtualmachineinstances")

	vmi := contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}
	pod, err := w.CreateLauncherPod(ctx, contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	w.calls(t, "POST secrets", "POST pods", "POST events")
	require.Equal(t, vmi.UID, pod.Pod.VMIUID)
	other := w.again(t)
	found, err := other.CreateLauncherPod(ctx, contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	require.Equal(t, pod.Pod.UID, found.Pod.UID)
	w.calls(t, "GET virtualmachineinstances", "POST secrets", "POST pods", "GET pods")
	looked, err := other.FindLauncherPod(ctx, contract.FindPodInput{VMI: vmi})
	require.NoError(t, err)
	require.Len(t, looked.Pods(), 1)
	require.Equal(t, pod.Pod.UID, looked.Pods()[0].UID)
	w.calls(t, "GET pods")

	podObject := contract.Object{Namespace: w.ns, Name: pod.Pod.Name, UID: pod.Pod.UID}
	for range 2 {
		err = w.MarkPodUnpaused(ctx, contract.MarkPodInput{Pod: podObject})
		require.NoError(t, err)
		w.calls(t, "PATCH pods/status")
	}
	current, err := w.kubernetes.CoreV1().Pods(w.ns).Get(ctx, podObject.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "True", observe.Pod(current).Unpaused)
	w.calls(t, "GET pods")

	w.runInstance(t, vmi, created.VMI)
	w.stop(t, vm, vmi, podObject)
}

// runInstance writes a status, and meets a conflict with an old version.
func (w *world) runInstance(t *testing.T, vmi contract.Object, seen contract.VMIObservation) {
	t.Helper()
	node := "node1"
	now := time.Now().UTC().Truncate(time.Second)
	in := contract.PatchVMIInput{
		VMI: vmi, ResourceVersion: seen.ResourceVersion, NodeLabel: &node,
		Status: &contract.VMIStatus{
			Phase: "Running", NodeName: node, ActivePods: map[string]string{"p": node}, IPs: []string{"10.0.0.1"},
			GuestMemory: 128 << 20, MachineType: "q35",
			Conditions: []contract.Condition{{Type: "Ready", Status: "True", LastTransitionTime: &now}},
			PhaseTimes: append(seen.PhaseTimes, contract.PhaseTime{Phase: "Running", Time: now}),
			Interfaces: []contract.DomainInterface{
				{Name: "default", MAC: "02:00:00:00:00:01", PodInterfaceName: "eth0"}},
			Volumes: []contract.DomainVolume{{Name: "root", Target: "vda"}, {Name: "init", Target: "vdb", Size: 5}},
		},
		Events: []contract.Event{{Type: "Normal", Reason: "Started", Message: "VirtualMachineInstance started."}},
	}
	out, err := w.PatchVMI(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Written)
	require.True(t, out.Current.EverRan)
	require.Equal(t, node, out.Current.NodeName)
	w.calls(t, "PATCH virtualmachineinstances", "POST events")
	stored, err := w.kubevirt.VMIs(w.ns).Get(t.Context(), vmi.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1", stored.Status.Interfaces[0].IP)
	require.Equal(t, node, stored.Labels[contract.LabelNodeName])
	require.Equal(t, "init", stored.Status.VolumeStatus[0].Name)
	require.Equal(t, "128Mi", stored.Status.Memory.GuestAtBoot.String())
	w.calls(t, "GET virtualmachineinstances")

	out, err = w.PatchVMI(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Conflict)
	require.Equal(t, "Running", out.Current.Phase)
	w.calls(t, "PATCH virtualmachineinstances", "GET virtualmachineinstances")

	in.ResourceVersion, in.Status, in.NodeLabel, in.Events = out.Current.ResourceVersion,
		&contract.VMIStatus{Phase: "Succeeded"}, new(string), nil
	out, err = w.PatchVMI(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Written)
	stored, err = w.kubevirt.VMIs(w.ns).Get(t.Context(), vmi.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, stored.Status.ActivePods)
	require.Empty(t, stored.Status.Interfaces)
	require.Empty(t, stored.Status.NodeName)
	require.Empty(t, stored.Status.Conditions)
	require.NotContains(t, stored.Labels, contract.LabelNodeName)
	w.calls(t, "PATCH virtualmachineinstances", "GET virtualmachineinstances")
}

// stop takes everything down again.
func (w *world) stop(t *testing.T, vm, vmi, pod contract.Object) {
	t.Helper()
	ctx := t.Context()
	w.halt(t)
	w.calls(t, "PATCH virtualmachines")
	for range 2 {
		out, err := w.DeleteVMI(ctx, contract.DeleteVMIInput{VM: vm})
		require.NoError(t, err)
		require.False(t, out.Absent)
		require.Empty(t, out.Refused)
	}
	w.calls(t, "GET virtualmachineinstances", "GET virtualmachines", "DELETE virtualmachineinstances", "POST events",
		"GET virtualmachineinstances", "GET virtualmachines")
	wrong := vmi
	wrong.UID = "ffffffff-0000-4000-8000-000000000000"
	absent, err := w.DeleteVMI(ctx, contract.DeleteVMIInput{VM: vm, VMI: wrong})
	require.NoError(t, err)
	require.True(t, absent.Absent)
	w.calls(t, "GET virtualmachineinstances")

	deleted, err := w.DeleteLauncherPod(ctx, contract.DeletePodInput{VMI: vmi, Pod: pod, Grace: new(int64)})
	require.NoError(t, err)
	require.False(t, deleted.Absent)
	released, err := w.RemovePodFinalizer(ctx, contract.RemovePodFinalizerInput{Pod: pod})
	require.NoError(t, err)
	require.True(t, released.Absent, "it never had a node, and was deleted without grace")
	require.Empty(t, released.Refused)
	released, err = w.RemovePodFinalizer(ctx, contract.RemovePodFinalizerInput{Pod: pod})
	require.NoError(t, err)
	require.True(t, released.Absent)
	deleted, err = w.DeleteLauncherPod(ctx, contract.DeletePodInput{VMI: vmi, Pod: pod})
	require.NoError(t, err)
	require.True(t, deleted.Absent)
	err = w.MarkPodUnpaused(ctx, contract.MarkPodInput{Pod: pod})
	require.Equal(t, contract.ErrorGone, errorType(err))
	w.calls(t, "GET virtualmachineinstances", "DELETE pods", "POST events", "GET pods", "PATCH pods", "GET pods",
		"GET virtualmachineinstances", "DELETE pods", "PATCH pods/status")

	stored, err := w.kubevirt.VMIs(w.ns).Get(ctx, vmi.Name, metav1.GetOptions{})
	require.NoError(t, err)
	w.calls(t, "GET virtualmachineinstances")
	let, err := w.PatchVMI(ctx,
		contract.PatchVMIInput{VMI: vmi, ResourceVersion: stored.ResourceVersion, Finalizers: &[]string{}})
	require.NoError(t, err)
	require.True(t, let.Gone)
	w.calls(t, "GET pods", "PATCH virtualmachineinstances")
	let, err = w.PatchVMI(ctx,
		contract.PatchVMIInput{VMI: vmi, ResourceVersion: stored.ResourceVersion, Finalizers: &[]string{}})
	require.NoError(t, err)
	require.True(t, let.Gone)
	_, err = w.CreateLauncherPod(ctx, contract.CreatePodInput{VMI: vmi})
	require.Equal(t, contract.ErrorGone, errorType(err))
}

func TestPatchVM(t *testing.T) {
	w := newWorld(t)
	made, vm := w.vm(t)
	at := time.Now().UTC().Truncate(time.Second)
	status := contract.VMStatus{
		Created: true, PrintableStatus: "Starting", RunStrategy: "Always", DesiredGeneration: 1, ObservedGeneration: 1,
		StartFailure: &contract.StartFailure{ConsecutiveFailCount: 2, LastFailedVMIUID: "x", RetryAfter: &at},
		StateChangeRequests: []contract.StateChangeRequest{
			{Action: "Start", Data: map[string]string{"paused": "true"}}},
		Conditions: []contract.Condition{{Type: "Ready", Status: "False", Reason: "VMINotExists"}},
	}
	out, err := w.PatchVM(t.Context(),
		contract.PatchVMInput{VM: vm, ResourceVersion: made.ResourceVersion, Status: &status})
	require.NoError(t, err)
	require.True(t, out.Written)
	w.calls(t, "PATCH virtualmachines/status")
	require.Equal(t, status.StartFailure, out.Current.StartFailure)
	require.Equal(t, status.StateChangeRequests, out.Current.StateChangeRequests)

	old, err := w.PatchVM(t.Context(),
		contract.PatchVMInput{VM: vm, ResourceVersion: made.ResourceVersion, Status: &status})
	require.NoError(t, err)
	require.True(t, old.Conflict)
	require.Equal(t, out.Current, old.Current)
	w.calls(t, "PATCH virtualmachines/status", "GET virtualmachines")

	finalizers := []string{contract.FinalizerVM, "example.com/other"}
	both, err := w.PatchVM(t.Context(), contract.PatchVMInput{
		VM: vm, ResourceVersion: out.Current.ResourceVersion, Status: &contract.VMStatus{PrintableStatus: "Stopped"},
		Finalizers: &finalizers, RunStrategy: "Halted", Actor: "carol",
	})
	require.NoError(t, err)
	require.True(t, both.Written)
	require.Equal(t, finalizers, both.Current.Finalizers)
	require.Equal(t, "Halted", both.Current.RunStrategy)
	require.Equal(t, "carol", both.Current.Actor, "who asked for it is behind it from now on")
	require.Nil(t, both.Current.StartFailure)
	require.Empty(t, both.Current.StateChangeRequests)
	w.calls(t, "PATCH virtualmachines", "PATCH virtualmachines/status")

	require.NoError(t, w.kubevirt.VMs(w.ns).Delete(t.Context(), vm.Name, metav1.DeleteOptions{}))
	current, err := w.kubevirt.VMs(w.ns).Get(t.Context(), vm.Name, metav1.GetOptions{})
	require.NoError(t, err)
	_, err = w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
	require.Equal(t, contract.ErrorGone, errorType(err))
	last := contract.PatchVMInput{VM: vm, ResourceVersion: current.ResourceVersion, Status: &status,
		Finalizers: &[]string{}}
	for range 2 {
		gone, err := w.PatchVM(t.Context(), last)
		require.NoError(t, err)
		require.True(t, gone.Gone)
	}
}

func TestSecretsStayOutOfErrorsAndPods(t *testing.T) {
	w := newWorld(t)
	made, vm := w.vm(t)
	created, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm, Generation: made.Generation})
	require.NoError(t, err)
	out, err := w.CreateLauncherPod(t.Context(),
		contract.CreatePodInput{VMI: contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}})
	require.NoError(t, err)
	pod, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), out.Pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotContains(t, pod.Annotations[contract.AnnotationVMISpec], "hunter2")
	require.NotContains(t, pod.Annotations, contract.AnnotationRequestedBy)
	secret, err := w.kubernetes.CoreV1().Secrets(w.ns).Get(t.Context(), out.Pod.Name+"-cloud-init", metav1.GetOptions{})
	require.NoError(t, err)
	require.Contains(t, string(secret.Data["init.userdata"]), "hunter2")
	require.Equal(t, created.VMI.UID, string(secret.OwnerReferences[0].UID))
}

// TestAQuotaOnLimits: the pod that is refused for having none gets them.
func TestAQuotaOnLimits(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("needs an API server whose requests are counted")
	}
	made, vm := w.vm(t)
	created, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm, Generation: made.Generation})
	require.NoError(t, err)
	_, err = w.kubernetes.CoreV1().ResourceQuotas(w.ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("8Gi")}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = w.kubernetes.CoreV1().Namespaces().Patch(t.Context(), w.ns, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"alpha.kubevirt.io/auto-memory-limits-ratio":"1.5"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	// The quota's own admission plugin speaks so.
	posts := 0
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Call() != "POST pods" {
			return nil
		}
		if posts++; posts > 1 {
			return nil
		}
		return &fakekube.Fault{Status: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: "failed quota: limits: must specify limits.memory for: compute",
		}}
	})
	out, err := w.CreateLauncherPod(t.Context(),
		contract.CreatePodInput{VMI: contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}})
	require.NoError(t, err)
	pod, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), out.Pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	limits, request := pod.Spec.Containers[0].Resources.Limits, pod.Spec.Containers[0].Resources.Requests.Memory()
	require.Equal(t, request.Value()*3/2, limits.Memory().Value(), "by the namespace's ratio")
	require.Zero(t, limits.Cpu().Value(), "no quota asks for it")
}

// TestAutoCPULimit: the KubeVirt object selects namespaces whose guests have a CPU limit.
func TestAutoCPULimit(t *testing.T) {
	w := newWorld(t)
	_, err := w.kubernetes.CoreV1().Namespaces().Patch(t.Context(), w.ns, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"team":"a"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	selects := func(team string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
	named := func(limit string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		request  corev1.ResourceList
		own      corev1.ResourceList
		want     string
	}{
		"none":      {nil, nil, nil, "0"},
		"its":       {selects("a"), nil, nil, "6"},
		"another":   {selects("b"), nil, nil, "0"},
		"all":       {&metav1.LabelSelector{}, nil, nil, "6"},
		"own-limit": {selects("a"), nil, named("2500m"), "2500m"},
		"request":   {selects("a"), named("6500m"), nil, "6500m"},
		"invalid": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: "Is"}}}, nil, nil, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			w.Settings = func() settings.Settings {
				s := settings.Default()
				s.Configuration.AutoCPULimitNamespaceLabelSelector = c.selector
				return s
			}
			vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
			vmi.Spec.Domain.CPU = &kubevirt.CPU{Sockets: 3, Cores: 2, Threads: 1}
			vmi.Spec.Domain.Resources.Requests, vmi.Spec.Domain.Resources.Limits = c.request, c.own
			made, err := w.kubevirt.VMIs(w.ns).Create(t.Context(), vmi, metav1.CreateOptions{})
			require.NoError(t, err)
			out, err := w.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: contract.Object{
				Namespace: w.ns, Name: name, UID: string(made.UID)}})
			require.NoError(t, err)
			pod, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), out.Pod.Name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, c.want, pod.Spec.Containers[0].Resources.Limits.Cpu().String())
		})
	}
}

// TestAWebhookThatAnswersNotFound: the error of a webhook that answers NotFound to what is made for an instance does
// not mean that the instance is gone.
func TestAWebhookThatAnswersNotFound(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("needs an API server that fails on demand")
	}
	made, vm := w.vm(t)
	created, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm, Generation: made.Generation})
	require.NoError(t, err)
	for _, kind := range []string{"secrets", "pods"} {
		w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
			if r.Call() != "POST "+kind {
				return nil
			}
			return &fakekube.Fault{Status: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound,
				Reason: metav1.StatusReasonNotFound, Message: "admission webhook denied the request: no such policy"}}
		})
		_, err = w.CreateLauncherPod(t.Context(),
			contract.CreatePodInput{VMI: contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}})
		require.ErrorContains(t, err, "no such policy", kind)
		require.Equal(t, contract.ErrorForbidden, errorType(err), kind)
	}
}

func TestErrors(t *testing.T) {
	if os.Getenv("VIRTFLOW_TEST_KUBECONFIG") != "" {
		t.Skip("needs an API server that fails on demand")
	}
	for name, c := range map[string]struct {
		status    metav1.Status
		kind      string
		retryable bool
	}{
		"invalid, with a secret in it": {metav1.Status{Code: http.StatusUnprocessableEntity,
			Reason: metav1.StatusReasonInvalid, Message: "Invalid value: hunter2", Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{
					{Field: "spec.volumes[1].cloudInitNoCloud.userData", Message: "Invalid value: hunter2"}},
			}}, contract.ErrorInvalid, false},
		"quota": {metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: "exceeded quota"}, contract.ErrorForbidden, false},
		"no such priority class": {metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: "no PriorityClass with name gold was found"}, contract.ErrorForbidden, false},
		"no such namespace": {metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
			Message: "namespaces \"default\" not found"}, contract.ErrorForbidden, false},
		"denied by a webhook": {metav1.Status{Code: http.StatusTeapot,
			Message: `admission webhook "w" denied the request: no`}, contract.ErrorForbidden, false},
		"denied by a webhook that is broken": {metav1.Status{Code: http.StatusInternalServerError,
			Message: `admission webhook "w" denied the request: no`}, contract.ErrorForbidden, false},
		"a webhook that cannot be called": {metav1.Status{Code: http.StatusInternalServerError,
			Reason: metav1.StatusReasonInternalError, Message: `failed calling webhook "w": connection refused`},
			"Kubernetes", true},
		"unauthorized": {metav1.Status{Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized,
			Message: "Unauthorized"}, "Kubernetes", true},
		"too many requests": {metav1.Status{Code: http.StatusTooManyRequests,
			Reason: metav1.StatusReasonTooManyRequests, Message: "try again later"}, "Kubernetes", true},
		"unavailable": {metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: "etcd is away"}, "Kubernetes", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, vm := w.vm(t)
			c.status.Kind, c.status.APIVersion, c.status.Status = "Status", "v1", metav1.StatusFailure
			w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
				if r.Call() == "POST virtualmachineinstances" {
					return &fakekube.Fault{Status: &c.status}
				}
				return nil
			})
			_, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			require.Equal(t, c.kind, app.Type())
			require.Equal(t, c.retryable, !app.NonRetryable())
			require.NotContains(t, err.Error(), "hunter2")
			require.Contains(t, w.fake.Calls(), "POST events")
		})
	}
}

func TestPatchNodeAndEvents(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	node, err := w.kubernetes.CoreV1().Nodes().
		Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster-test",
				Labels: map[string]string{"a": "b", "keep": "x"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.kubernetes.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}) })
	yes := "true"
	in := contract.PatchNodeInput{Name: node.Name, UID: string(node.UID),
		Labels: map[string]*string{contract.LabelSchedulable: &yes, "a": nil}}
	err = w.PatchNode(ctx, in)
	require.NoError(t, err)
	node, err = w.kubernetes.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "true", node.Labels[contract.LabelSchedulable])
	require.NotContains(t, node.Labels, "a")
	require.Contains(t, node.Labels, "keep")
	in.UID = "ffffffff-0000-4000-8000-000000000000"
	err = w.PatchNode(ctx, in)
	require.Equal(t, contract.ErrorGone, errorType(err))
}

// TestAnOrphanedPodIsFound: a VMI deleted with --cascade=orphan has its pod's ownerReference taken off.
func TestAnOrphanedPodIsFound(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vmi := contract.Object{Namespace: w.ns, Name: "web", UID: "the-vmi"}
	pod, err := w.kubernetes.CoreV1().Pods(w.ns).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: render.PodName(vmi.Name, vmi.UID),
			Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
				contract.LabelCreatedBy: vmi.UID},
			Annotations: map[string]string{contract.AnnotationDomain: vmi.Name},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "compute", Image: "launcher"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	found, err := w.FindLauncherPod(ctx, contract.FindPodInput{VMI: vmi})
	require.NoError(t, err)
	require.Len(t, found.Pods(), 1)
	require.Equal(t, string(pod.UID), found.Pods()[0].UID)
	require.Equal(t, vmi.UID, found.Pods()[0].VMIUID)

	pod.Labels, pod.Annotations = nil, nil
	_, err = w.kubernetes.CoreV1().Pods(w.ns).Update(ctx, pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = w.FindLauncherPod(ctx, contract.FindPodInput{VMI: vmi})
	require.Equal(t, contract.ErrorConflict, errorType(err), "a pod that has the name is not reported as none")
	known := contract.Object{Namespace: w.ns, Name: pod.Name, UID: string(pod.UID)}
	found, err = w.FindLauncherPod(ctx, contract.FindPodInput{VMI: vmi, Known: []contract.Object{known}})
	require.NoError(t, err)
	require.Len(t, found.Pods(), 1)
	require.Equal(t, string(pod.UID), found.Pods()[0].UID, "a pod that is known is so by its UID")
	require.Equal(t, vmi.UID, found.Pods()[0].VMIUID)
	known.UID = "earlier"
	found, err = w.FindLauncherPod(ctx, contract.FindPodInput{VMI: vmi, Known: []contract.Object{known}})
	require.NoError(t, err)
	require.Empty(t, found.Pods())
}
