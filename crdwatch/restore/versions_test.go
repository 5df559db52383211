package restore

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	watchapi "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
)

// history is what an API server has of VMs: their versions by name.
type history struct {
	mu      sync.Mutex
	version string
	vms     map[string]string
	watch   *watchapi.FakeWatcher
	expired bool
}

func (h *history) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := &kubevirt.VirtualMachineList{ListMeta: metav1.ListMeta{ResourceVersion: h.version}}
	for name, version := range h.vms {
		out.Items = append(out.Items, *vmAt(name, version))
	}
	return out, nil
}

func (h *history) follow(context.Context, metav1.ListOptions) (watchapi.Interface, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.expired {
		h.expired = false
		return nil, apierrors.NewResourceExpired("list again")
	}
	h.watch = watchapi.NewFakeWithChanSize(100, false)
	return h.watch, nil
}

// restarted is the API server after an outage, with etcd as given.
func (h *history) restarted(version string, vms map[string]string) {
	h.mu.Lock()
	h.version, h.vms, h.expired = version, vms, true
	w := h.watch
	h.watch = nil
	h.mu.Unlock()
	w.Stop()
}

// unlisted makes informers list in the plain way.
type unlisted struct{ cache.ListWatch }

func (*unlisted) IsWatchListSemanticsUnSupported() bool { return true }

func vmAt(name, version string) *kubevirt.VirtualMachine {
	return &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u", ResourceVersion: version}}
}

// TestWatchVersions: versions of a list after an outage are compared with those from before it; nothing else counts as
// a restore.
func TestWatchVersions(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		vms     map[string]string
		want    bool
	}{
		"nothing has changed": {"20", map[string]string{"one": "5", "two": "20"}, false},
		"changes were missed": {"30", map[string]string{"one": "25", "three": "22", "four": "30"},
			false},
		"everything was deleted":             {"30", nil, false},
		"put back":                           {"10", map[string]string{"one": "3", "two": "8"}, true},
		"put back, and caught up since":      {"40", map[string]string{"one": "5", "two": "8", "three": "39"}, true},
		"put back: what was deleted is back": {"40", map[string]string{"one": "5", "two": "20", "gone": "6"}, true},
		// nothing was lost
		"put back, and changed to what it held": {"20", map[string]string{"one": "5", "two": "20"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &history{version: "6", vms: map[string]string{"one": "5", "gone": "6"}}
			vms := cache.NewSharedIndexInformer(
				&unlisted{cache.ListWatch{ListWithContextFunc: h.list,
					WatchFuncWithContext: h.follow}}, &kubevirt.VirtualMachine{}, 0, nil)
			var mu sync.Mutex
			detected := false
			require.NoError(t, WatchVersions([]cache.SharedIndexInformer{vms}, func() {
				mu.Lock()
				defer mu.Unlock()
				detected = true
			}))
			older := func() bool {
				mu.Lock()
				defer mu.Unlock()
				return detected
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				vms.RunWithContext(ctx)
			}()
			t.Cleanup(func() {
				cancel()
				<-ended
			})
			holds := func(want map[string]string) func() bool {
				return func() bool {
					held := map[string]string{}
					for _, o := range vms.GetStore().List() {
						vm := o.(*kubevirt.VirtualMachine)
						held[vm.Name] = vm.ResourceVersion
					}
					return maps.Equal(held, want)
				}
			}
			watching := func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return h.watch != nil
			}
			require.Eventually(t, watching, time.Minute, time.Millisecond)
			h.watch.Add(vmAt("two", "7"))
			h.watch.Delete(vmAt("gone", "9"))
			h.watch.Modify(vmAt("two", "20"))
			require.Eventually(t, holds(map[string]string{"one": "5", "two": "20"}), time.Minute, time.Millisecond)
			h.restarted(c.version, c.vms)
			require.Eventually(t, holds(c.vms), time.Minute, time.Millisecond)
			if c.want {
				require.Eventually(t, older, time.Minute, time.Millisecond)
				return
			}
			require.Eventually(t, watching, time.Minute, time.Millisecond)
			h.watch.Add(vmAt("last", "41")) // handlers receive everything before it
			require.Eventually(t, func() bool {
				_, ok, err := vms.GetStore().GetByKey("a/last")
				return ok && err == nil
			}, time.Minute, time.Millisecond)
			require.False(t, older())
		})
	}
}
