package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/virtflow/virtflow/contract"
)

// kubelets is how many pods are handled at once, for all nodes together.
const kubelets = 32

// play simulates the kubelets until the run's life ends: every pod on a simulated node runs, is ready when its
// readiness gates are, and ends when it is deleted. With --failing-moves each target pod fails instead.
func (r *run) play(ctx, life context.Context) error {
	factory := informers.NewSharedInformerFactory(r.kubernetes, 0)
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(o any) {
		if pod, ok := o.(*corev1.Pod); ok && strings.HasPrefix(pod.Spec.NodeName, "simulated") {
			queue.Add(pod.Namespace + "/" + pod.Name)
		}
	}
	if _, err := pods.Informer().
		AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) {
			add(o)
		}}); err != nil {
		return err
	}
	factory.Start(life.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		return context.Cause(ctx)
	}
	context.AfterFunc(life, queue.ShutDown)
	for range kubelets {
		go func() {
			for {
				key, end := queue.Get()
				if end {
					return
				}
				namespace, name, _ := strings.Cut(key, "/")
				pod, err := pods.Lister().Pods(namespace).Get(name)
				if err == nil {
					err = r.sync(life, pod, func() { queue.Add(key) })
				}
				if err == nil || apierrors.IsNotFound(err) || life.Err() != nil {
					queue.Forget(key)
				} else {
					queue.AddRateLimited(key)
				}
				queue.Done(key)
			}
		}()
	}
	return nil
}

// sync brings one pod a step further; it calls again when the pod must be handled again without a change.
func (r *run) sync(ctx context.Context, pod *corev1.Pod, again func()) error {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && !ended:
		if !r.loaded.hasEnded(pod, again) {
			return nil
		}
		return r.patchStatus(ctx, pod, status(pod, corev1.PodSucceeded, corev1.ConditionFalse))
	case pod.DeletionTimestamp != nil:
		if g := pod.DeletionGracePeriodSeconds; g != nil && *g == 0 {
			return nil // its finalizers keep it
		}
		none := int64(0)
		return r.kubernetes.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
	case ended:
		return nil
	case r.targets.fail(pod):
		return r.patchStatus(ctx, pod, status(pod, corev1.PodFailed, corev1.ConditionFalse))
	}
	want := corev1.ConditionTrue
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionOf(pod, gate.ConditionType) != corev1.ConditionTrue {
			want = corev1.ConditionFalse
		}
	}
	if pod.Status.Phase == corev1.PodRunning && conditionOf(pod, corev1.PodReady) == want {
		return nil
	}
	return r.patchStatus(ctx, pod, status(pod, corev1.PodRunning, want))
}

func (r *run) patchStatus(ctx context.Context, pod *corev1.Pod, s corev1.PodStatus) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": s})
	if err != nil {
		return err
	}
	_, err = r.kubernetes.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// status returns a kubelet's status of a pod whose containers run, or have ended.
func status(pod *corev1.Pod, phase corev1.PodPhase, ready corev1.ConditionStatus) corev1.PodStatus {
	now := metav1.NewTime(time.Now())
	started := now
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	ip := fmt.Sprintf("198.18.%d.%d", pod.UID[0], pod.UID[1]) // unused: no guest runs
	s := corev1.PodStatus{
		Phase: phase, StartTime: &started, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: ready, LastTransitionTime: now},
			{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: now},
		},
	}
	for _, c := range pod.Spec.Containers {
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
		switch phase {
		case corev1.PodRunning:
		case corev1.PodFailed:
			state = corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, FinishedAt: now}}
		default:
			message, _ := json.Marshal(contract.TerminationMessage{Reason: contract.ReasonShutdown, Ran: true})
			state = corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: now,
					Message: string(message)}}
		}
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: phase == corev1.PodRunning, State: state,
			ContainerID: "simulated://" + string(pod.UID) + c.Name,
		})
	}
	return s
}
