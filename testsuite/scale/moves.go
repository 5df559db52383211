package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

const (
	// evictEvery is how often kubectl drain requests an eviction again that was refused.
	evictEvery = 5 * time.Second
	// mostTargets is the limit for target pods of a guest in an hour (docs/lifecycle.md).
	mostTargets = 16
)

// failedMoves are the results of a drain whose target pods all fail at once.
type failedMoves struct {
	For time.Duration `json:"for"`
	// Targets are the target pods that nodes have seen, Most those of one guest.
	Targets int `json:"targets"`
	Most    int `json:"most"`
	// PodsLeft and MigrationsLeft are the objects of failed migrations that exist at the end.
	PodsLeft       int `json:"podsLeft"`
	MigrationsLeft int `json:"migrationsLeft"`
	// Evicted are evictions that were not refused: a guest would have been lost.
	Evicted int `json:"evicted"`
}

// targets knows which target pods have failed. Its methods may be called concurrently.
type targets struct {
	mu     sync.Mutex
	failed map[string]map[types.UID]bool // by the UID of their guest's VMI
}

// fail reports whether a pod fails at once: every target pod of a run with --failing-moves does.
func (t *targets) fail(pod *corev1.Pod) bool {
	if t == nil || pod.Labels[contract.LabelMigration] == "" {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = map[string]map[types.UID]bool{}
	}
	vmi := pod.Labels[kubevirt.CreatedByLabel]
	if t.failed[vmi] == nil {
		t.failed[vmi] = map[types.UID]bool{}
	}
	t.failed[vmi][pod.UID] = true
	return true
}

// count returns how many target pods have failed, of all guests and of the one with most.
func (t *targets) count() (all, most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pods := range t.failed {
		all += len(pods)
		most = max(most, len(pods))
	}
	return all, most
}

// moves evicts all guests as kubectl drain does, for the time of --failing-moves. Their target pods fail.
func (s *stage) moves(ctx context.Context) error {
	began, out := time.Now(), failedMoves{}
	tick := time.NewTicker(evictEvery)
	defer tick.Stop()
	for time.Since(began) < s.FailingMoves {
		evicted, err := s.evictAll(ctx)
		if err != nil {
			return fmt.Errorf("evicting the guests of %s: %w", s.namespace, err)
		}
		out.Evicted += evicted
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	out.For = time.Since(began)
	out.Targets, out.Most = s.targets.count()
	pods, err := s.kubernetes.CoreV1().Pods(s.namespace).
		List(ctx, metav1.ListOptions{LabelSelector: contract.LabelMigration})
	if err != nil {
		return err
	}
	migrations, err := s.kubevirt.Migrations(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	out.PodsLeft, out.MigrationsLeft = len(pods.Items), len(migrations.Items)
	s.report.FailedMoves = &out
	printFailedMoves(os.Stdout, s.count, s.object().plural, out)
	s.found(holds("target pods were made, and failed", out.Targets > 0),
		exactly("guests that were evicted", 0, out.Evicted))
	if !s.KubeVirt {
		hours := math.Ceil(out.For.Hours())
		s.found(atMost(fmt.Sprintf("target pods of one guest in %.0f h", hours), mostTargets*hours, float64(out.Most)))
	}
	return nil
}

// evictAll requests the eviction of each guest's pod, and returns how many requests were granted.
func (s *stage) evictAll(ctx context.Context) (evicted int, err error) {
	pods, err := s.kubernetes.CoreV1().Pods(s.namespace).
		List(ctx, metav1.ListOptions{LabelSelector: "!" + contract.LabelMigration})
	if err != nil {
		return 0, err
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		err := s.kubernetes.PolicyV1().Evictions(s.namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
		switch {
		case err == nil:
			evicted++
		case !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err):
			return evicted, err
		}
	}
	return evicted, nil
}

func printFailedMoves(out io.Writer, count int, plural string, m failedMoves) {
	fmt.Fprintf(out, "scale: %d %s were evicted each %s for %s, and every target pod failed at once: %d target pods, at "+
		"most %d of one guest; %d target pods and %d migrations exist at the end\n", count, plural, evictEvery,
		round(m.For), m.Targets, m.Most, m.PodsLeft, m.MigrationsLeft)
}
