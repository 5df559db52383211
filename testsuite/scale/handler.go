package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
)

// virt-handler's defaults.
const (
	handlerQPS, handlerBurst = 50, 100
	handlerThreads           = 10
	heartbeatEvery           = time.Minute
	heartbeatJitter          = 1.2
)

// handler makes the requests of a node's virt-handler, as virt-handler: it follows the VMIs and writes the status of
// those on its node. Its guests start and stop at once.
type handler struct {
	node       string
	kubernetes kubernetes.Interface
	vmis       *kube.Client
	recorder   record.EventRecorder
	guests     *guests
	written    sync.Map // the last version of each VMI that was written: a second write from it is refused
}

// machineType is the machine type that q35 stands for.
const machineType = "pc-q35-7.2"

// newHandler returns the handler of a node, whose events are recorded until the run's life ends.
func newHandler(life context.Context, config *rest.Config, node string, g *guests) (*handler, error) {
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS, config.Burst = "virt-handler", handlerQPS, handlerBurst
	// KubeVirt's policy permits only virt-handler to write this, and virt-handler to write only on its own node.
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + kubeVirtNamespace + ":kubevirt-handler",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + kubeVirtNamespace,
			"system:authenticated"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	vmis, err := kube.New(config)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := kubevirt.AddToScheme(scheme); err != nil {
		return nil, err
	}
	events := record.NewBroadcaster(record.WithContext(life))
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events("")})
	return &handler{node: node, kubernetes: clients, vmis: vmis, guests: g,
		recorder: events.NewRecorder(scheme, corev1.EventSource{Component: "virt-handler", Host: node})}, nil
}

// run makes the node schedulable and handles its VMIs until the run's life ends.
func (h *handler) run(ctx, life context.Context) error {
	if err := h.heartbeat(ctx); err != nil {
		return fmt.Errorf("the heartbeat: %w", err)
	}
	go wait.JitterUntilWithContext(life, func(ctx context.Context) { _ = h.heartbeat(ctx) }, heartbeatEvery,
		heartbeatJitter, true)
	if err := h.watchAll(life); err != nil {
		return err
	}
	mine := h.informer(kubevirt.NodeNameLabel)
	targets := h.informer(kubevirt.MigrationTargetNodeNameLabel)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(o any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			queue.Add(key)
		}
	}
	if _, err := mine.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if vmi, ok := o.(*kubevirt.VirtualMachineInstance); ok && vmi.IsRunning() {
				h.guests.start(vmi.UID) // of an earlier run
			}
			add(o)
		},
		UpdateFunc: func(_, o any) { add(o) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(*kubevirt.VirtualMachineInstance); ok {
				h.guests.end(gone.UID)
				h.written.Delete(gone.UID)
			}
		},
	}); err != nil {
		return err
	}
	go mine.RunWithContext(life)
	go targets.RunWithContext(life)
	if !cache.WaitForCacheSync(ctx.Done(), mine.HasSynced, targets.HasSynced) {
		return context.Cause(ctx)
	}
	context.AfterFunc(life, queue.ShutDown)
	for range handlerThreads {
		go h.work(life, queue, mine.GetStore())
	}
	return nil
}

// heartbeat writes virt-handler's heartbeat, which makes the node schedulable.
func (h *handler) heartbeat(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]string{
			kubevirt.NodeSchedulable: "true", kubevirt.DeprecatedCPUManager: "false",
			kubevirt.SupportedMachineTypeLabel + "q35": "true", kubevirt.HostModelCPULabel + "EPYC": "true",
			kubevirt.SupportedMachineTypeLabel + machineType: "true",
			kubevirt.SupportedHostModelMigrationCPU + "EPYC": "true",
		},
		"annotations": map[string]string{kubevirt.VirtHandlerHeartbeat: time.Now().UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	_, err = h.kubernetes.CoreV1().Nodes().Patch(ctx, h.node, types.StrategicMergePatchType, body,
		metav1.PatchOptions{})
	return err
}

// watchAll watches the VMIs of all nodes, as each virt-handler does, and discards the events: it costs the API server
// the same. It fails if the watch cannot begin.
func (h *handler) watchAll(life context.Context) error {
	open := func() (io.ReadCloser, error) {
		return h.kubernetes.CoreV1().RESTClient().Get().
			AbsPath("/apis/kubevirt.io/v1/"+kube.ResourceVMI).Param("watch", "true").Stream(life)
	}
	stream, err := open()
	if err != nil {
		return fmt.Errorf("watching all VMIs: %w", err)
	}
	go wait.UntilWithContext(life, func(context.Context) {
		if stream == nil {
			if stream, err = open(); err != nil {
				stream = nil
				return // another watch begins
			}
		}
		_, err = io.Copy(io.Discard, stream)
		_ = errors.Join(err, stream.Close())
		stream = nil
	}, time.Second)
	return nil
}

// informer follows the VMIs whose label has the node's name.
func (h *handler) informer(label string) cache.SharedInformer {
	vmis := h.vmis.VMIs(metav1.NamespaceAll)
	selector := label + "=" + h.node
	return cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return vmis.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return vmis.Watch(ctx, o)
		},
	}, &kubevirt.VirtualMachineInstance{}, 0)
}

func (h *handler) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], store cache.Store) {
	for {
		key, end := queue.Get()
		if end {
			return
		}
		var err error
		o, there, _ := store.GetByKey(key)
		if vmi, ok := o.(*kubevirt.VirtualMachineInstance); there && ok {
			err = h.sync(ctx, vmi)
		}
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			queue.Forget(key)
		} else {
			queue.AddRateLimited(key)
		}
		queue.Done(key)
	}
}

// sync brings one VMI a step further. The VMI's next version, which this write creates, triggers the next step.
func (h *handler) sync(ctx context.Context, vmi *kubevirt.VirtualMachineInstance) error {
	if last, ok := h.written.Load(vmi.UID); ok && last == vmi.ResourceVersion {
		return nil
	}
	running := h.guests.isRunning(vmi.UID)
	written := next(vmi, running, time.Now())
	if written == nil {
		return nil
	}
	switch {
	case !running && written.Status.Phase == kubevirt.Scheduled:
		h.guests.start(vmi.UID)
		h.recorder.Event(vmi, corev1.EventTypeNormal, kubevirt.Created.String(), "VirtualMachineInstance defined.")
	case written.IsFinal() && h.guests.stop(vmi.UID):
		h.recorder.Event(vmi, corev1.EventTypeNormal, kubevirt.ShuttingDown.String(), "Signaled Graceful Shutdown")
		h.recorder.Event(vmi, corev1.EventTypeNormal, kubevirt.Deleted.String(), "Signaled Deletion")
	}
	if _, err := h.vmis.VMIs(vmi.Namespace).Update(ctx, written, metav1.UpdateOptions{}); err != nil {
		return err
	}
	h.written.Store(vmi.UID, vmi.ResourceVersion)
	switch written.Status.Phase {
	case kubevirt.Running:
		h.recorder.Event(vmi, corev1.EventTypeNormal, kubevirt.Started.String(), "VirtualMachineInstance started.")
	case kubevirt.Succeeded:
		h.recorder.Event(vmi, corev1.EventTypeNormal, kubevirt.Stopped.String(),
			"The VirtualMachineInstance was shut down.")
		h.guests.end(vmi.UID)
	case kubevirt.Failed:
		h.recorder.Event(vmi, corev1.EventTypeWarning, kubevirt.Stopped.String(), "The VirtualMachineInstance crashed.")
	default:
	}
	return nil
}

// next returns the VMI with virt-handler's next write; nil: it writes nothing.
func next(vmi *kubevirt.VirtualMachineInstance, running bool, now time.Time) *kubevirt.VirtualMachineInstance {
	out := vmi.DeepCopy()
	switch {
	case vmi.IsFinal():
		return nil
	case vmi.DeletionTimestamp != nil && running:
		enter(out, kubevirt.Succeeded, now)
	case vmi.DeletionTimestamp != nil:
		enter(out, kubevirt.Failed, now)
	case vmi.Status.Phase == kubevirt.Scheduled && !isDefined(vmi):
		define(out)
	case vmi.Status.Phase == kubevirt.Scheduled && running:
		boot(out)
		enter(out, kubevirt.Running, now)
	default:
		return nil
	}
	return out
}

// enter sets a VMI's phase.
func enter(vmi *kubevirt.VirtualMachineInstance, phase kubevirt.VirtualMachineInstancePhase, now time.Time) {
	vmi.Status.Phase = phase
	vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
		kubevirt.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase,
			PhaseTransitionTimestamp: metav1.NewTime(now)})
}

// isDefined reports whether the guest's definition is in the status.
func isDefined(vmi *kubevirt.VirtualMachineInstance) bool { return vmi.Status.MigrationMethod != "" }

// define writes what is known before the guest runs. (KubeVirt treats a guest with a disk of its own as one whose
// blocks must be copied.)
func define(vmi *kubevirt.VirtualMachineInstance) {
	vmi.Status.MigrationMethod, vmi.Status.SelinuxContext = kubevirt.BlockMigration, "none"
	for _, is := range []kubevirt.VirtualMachineInstanceConditionType{kubevirt.VirtualMachineInstanceIsMigratable,
		kubevirt.VirtualMachineInstanceIsStorageLiveMigratable} {
		vmi.Status.Conditions = append(vmi.Status.Conditions,
			kubevirt.VirtualMachineInstanceCondition{Type: is, Status: corev1.ConditionTrue})
	}
	for i := range vmi.Status.VolumeStatus {
		vmi.Status.VolumeStatus[i].ContainerDiskVolume = &kubevirt.ContainerDiskInfo{Checksum: 1}
	}
}

// boot writes what is known of the running guest.
func boot(vmi *kubevirt.VirtualMachineInstance) {
	vmi.Status.Machine = &kubevirt.Machine{Type: machineType}
	if vmi.Status.Memory != nil {
		vmi.Status.Memory.GuestCurrent = vmi.Status.Memory.GuestAtBoot
	}
	for i := range vmi.Status.VolumeStatus {
		vmi.Status.VolumeStatus[i].Target = "vda"
	}
	interfaces := make([]kubevirt.VirtualMachineInstanceNetworkInterface, len(vmi.Spec.Domain.Devices.Interfaces))
	for i, of := range vmi.Spec.Domain.Devices.Interfaces {
		interfaces[i] = kubevirt.VirtualMachineInstanceNetworkInterface{Name: of.Name, MAC: "02:00:00:00:00:01",
			InfoSource: "domain", QueueCount: 1, LinkState: "up", PodInterfaceName: "eth0",
			IP: "198.18.0.1", IPs: []string{"198.18.0.1"}}
	}
	vmi.Status.Interfaces = interfaces
}
