package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	kubevirt "kubevirt.io/api/core/v1"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
)

// Options configures the activities; all but ReadSettings, Object, Policies, PullPolicy and Now must be
// set.
type Options struct {
	Kubernetes kubernetes.Interface
	KubeVirt   *kube.Client
	// Settings returns what the KubeVirt object says right now (settings.Watcher.Current).
	Settings func() settings.Settings
	// ReadSettings returns what the KubeVirt object says in the API server (settings.Watcher.Read); without it Settings
	// counts.
	ReadSettings func(context.Context) (settings.Settings, error)
	// Object returns the KubeVirt object, or nil (settings.Watcher.Object); without it nothing is written there.
	Object func() *kubevirt.KubeVirt
	// Policies returns the cluster's MigrationPolicies; without it there are none.
	Policies func() ([]*v1alpha1.MigrationPolicy, error)
	// Record has an event written, and does not wait for it (events.Queue).
	Record func(*corev1.Event)
	// LauncherImage runs in launcher pods; PullPolicy holds where the KubeVirt object names none.
	LauncherImage string
	PullPolicy    corev1.PullPolicy
	Log           zerolog.Logger
	// Now is time.Now unless a test sets it.
	Now func() time.Time
}

// Activities are registered as one: the name of each method is the name of its activity. They are safe for concurrent
// use.
type Activities struct {
	Options
	// fresh has instances that this process has just made, by UID, so that their pods cost no second read.
	fresh *cache.LRUExpireCache
	// nodes has what decides whether guests can leave a node, by the node's name.
	nodes *cache.LRUExpireCache
}

const (
	// freshFor is for how long the answer to the creation of an instance counts as a read of it: no pod is placed,
	// runs, ends and is gone within that time, so that none is made for an instance that had one.
	freshFor  = 2 * time.Second
	freshSize = 1024
)

// clock is the clock of a cache.
type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// New checks the options. Nothing is contacted.
func New(o Options) (*Activities, error) {
	switch {
	case o.Kubernetes == nil || o.KubeVirt == nil || o.Settings == nil || o.Record == nil:
		return nil, errors.New("the activities need clients, settings, and where events are recorded")
	case o.LauncherImage == "":
		return nil, errors.New("no launcher image is given: it is what every launcher pod runs")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ReadSettings == nil {
		o.ReadSettings = func(context.Context) (settings.Settings, error) { return o.Settings(), nil }
	}
	return &Activities{
		Options: o,
		fresh:   cache.NewLRUExpireCacheWithClock(freshSize, clock(o.Now)),
		nodes:   cache.NewLRUExpireCacheWithClock(freshSize, clock(o.Now)),
	}, nil
}
