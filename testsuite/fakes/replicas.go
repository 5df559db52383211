package fakes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

// ReplicaCluster is Kubernetes with one replica set and any number of instances. Its methods are the activities of replica sets. What the
// instances do the test says. It is safe for concurrent use.
type ReplicaCluster struct {
	mu      sync.Mutex
	version int

	Set    *contract.ReplicaSetObservation
	Status *contract.ReplicaSetStatus
	// VMIs are the instances by name.
	VMIs   map[string]*contract.ReplicaObservation
	Events []contract.Event
	Calls  []string
	// Quota is how many instances there may be; 0: any number.
	Quota int
	// Most is the highest number of instances that were there at once.
	Most int

	// Boots makes new instances run, after the time that it says; nil: the test does it.
	Boots func(name string) time.Duration
	// After runs f after a while, in the time of the test.
	After func(d time.Duration, f func())
	// Ends is how long an instance takes to go once it is deleted.
	Ends time.Duration
	// Fail is asked before each activity; an error fails it without effect.
	Fail func(activity string) error
	// Lose is asked after each write of the set's status; an error is answered in place of what has been done.
	Lose func() error
	// Conflicts makes every write of the set meet a conflict.
	Conflicts bool
	// Changed is called after each change with what crdwatch would send.
	Changed func(signal string, payload any)
}

// NewReplicaCluster has no objects. After must be set before anything is made.
func NewReplicaCluster() *ReplicaCluster {
	return &ReplicaCluster{version: 100, VMIs: map[string]*contract.ReplicaObservation{}, Ends: time.Second}
}

// Register registers every activity of replica sets.
func (c *ReplicaCluster) Register(r Registry) {
	for name, f := range map[string]any{
		contract.ActivityFindReplicas: c.Find, contract.ActivityClaimReplicas: c.Claim, contract.ActivityCreateReplicas: c.Create,
		contract.ActivityDeleteReplicas: c.Delete, contract.ActivityPatchReplicaSet: c.Patch,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

func (c *ReplicaCluster) begin(name string) error {
	c.mu.Lock()
	c.Calls = append(c.Calls, name)
	c.mu.Unlock()
	if c.Fail != nil {
		return c.Fail(name)
	}
	return nil
}

func (c *ReplicaCluster) bump() string {
	c.version++
	return strconv.Itoa(c.version)
}

// deliver signals news of instances; the lock is not held.
func (c *ReplicaCluster) deliver(list ...contract.ReplicaObservation) {
	if len(list) > 0 && c.Changed != nil {
		c.Changed(contract.SignalObserveReplicas, contract.ReplicasObservation{Replicas: list})
	}
}

// ChangeSet makes or changes the set as a user would, and counts its generation.
func (c *ReplicaCluster) ChangeSet(change func(*contract.ReplicaSetObservation)) {
	c.mu.Lock()
	if c.Set == nil {
		c.Set = &contract.ReplicaSetObservation{UID: "set-uid-123456", Replicas: 1, Selector: "app=web", Actor: "alice"}
	}
	change(c.Set)
	c.Set.Generation++
	c.Set.ResourceVersion = c.bump()
	o := *c.Set
	if o.Gone {
		c.Set = nil
	}
	c.mu.Unlock()
	c.Changed(contract.SignalObserveReplicaSet, o)
}

// Scale is what kubectl scale does.
func (c *ReplicaCluster) Scale(n int) {
	c.ChangeSet(func(o *contract.ReplicaSetObservation) { o.Replicas = n })
}

// Add makes an instance as a user would.
func (c *ReplicaCluster) Add(o contract.ReplicaObservation) {
	c.mu.Lock()
	o.ResourceVersion = c.bump()
	c.VMIs[o.Name] = &o
	c.mu.Unlock()
	c.deliver(o)
}

// Change changes an instance, and tells of it.
func (c *ReplicaCluster) Change(name string, change func(*contract.ReplicaObservation)) {
	c.mu.Lock()
	o := c.VMIs[name]
	if o == nil {
		c.mu.Unlock()
		return
	}
	change(o)
	o.ResourceVersion = c.bump()
	said := *o
	c.mu.Unlock()
	c.deliver(said)
}

// Run makes the guest of an instance run.
func (c *ReplicaCluster) Run(name string) {
	c.Change(name, func(o *contract.ReplicaObservation) {
		if o.Phase == "Pending" {
			o.Phase, o.Ready, o.EverRan = "Running", true, true
		}
	})
}

// Names are those of the instances, in order.
func (c *ReplicaCluster) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.VMIs))
}

// Vanish deletes an instance, as kubectl delete vmi does.
func (c *ReplicaCluster) Vanish(name string) {
	c.Change(name, func(o *contract.ReplicaObservation) { o.Deleting = true })
	c.After(c.Ends, func() {
		c.mu.Lock()
		o := c.VMIs[name]
		delete(c.VMIs, name)
		c.mu.Unlock()
		if o != nil {
			c.deliver(contract.ReplicaObservation{UID: o.UID, Name: o.Name, Gone: true, OwnerUID: o.OwnerUID, Ordinal: o.Ordinal})
		}
	})
}

// Find is the activity of that name, as are the following.
func (c *ReplicaCluster) Find(_ context.Context, in contract.FindReplicasInput) (contract.FindReplicasResult, error) {
	if err := c.begin(contract.ActivityFindReplicas); err != nil {
		return contract.FindReplicasResult{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := contract.FindReplicasResult{ResourceVersion: strconv.Itoa(c.version)}
	for _, name := range slices.Sorted(maps.Keys(c.VMIs)) {
		if o := c.VMIs[name]; o.OwnerUID == in.Set.UID || o.OwnerUID == "" && o.Matches {
			out.Replicas = append(out.Replicas, *o)
		}
	}
	return out, nil
}

// Claim adopts and releases.
func (c *ReplicaCluster) Claim(_ context.Context, in contract.ClaimReplicasInput) (contract.ClaimReplicasResult, error) {
	var out contract.ClaimReplicasResult
	if err := c.begin(contract.ActivityClaimReplicas); err != nil {
		return out, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range slices.Concat(in.Adopt, in.Release) {
		v := c.VMIs[o.Name]
		if v == nil || v.UID != o.UID {
			out.Replicas = append(out.Replicas, contract.ReplicaObservation{UID: o.UID, Gone: true})
			continue
		}
		v.OwnerUID = ""
		if i < len(in.Adopt) {
			v.OwnerUID = in.Set.UID
		}
		v.ResourceVersion = c.bump()
		out.Replicas = append(out.Replicas, *v)
	}
	return out, nil
}

// Create makes a batch.
func (c *ReplicaCluster) Create(_ context.Context, in contract.CreateReplicasInput) (contract.CreateReplicasResult, error) {
	var out contract.CreateReplicasResult
	if err := c.begin(fmt.Sprintf("%s %d", contract.ActivityCreateReplicas, in.Count)); err != nil {
		return out, err
	}
	var made []contract.ReplicaObservation
	c.mu.Lock()
	if c.Set == nil || c.Set.UID != in.Set.UID {
		c.mu.Unlock()
		return out, temporal.NewNonRetryableApplicationError("the set is gone", contract.ErrorGone, nil)
	}
	for i := range in.Count {
		name := fmt.Sprintf("web%03d", in.From+i)
		if there := c.VMIs[name]; there != nil {
			if there.OwnerUID == in.Set.UID {
				out.Made++
			} else {
				out.Taken = append(out.Taken, in.From+i)
			}
			continue
		}
		if c.Quota > 0 && len(c.VMIs) >= c.Quota {
			out.Refused = &contract.Refusal{Type: contract.ErrorForbidden, Message: "exceeded quota"}
			break
		}
		v := contract.ReplicaObservation{
			UID: fmt.Sprintf("uid-%d", c.version+1), Name: name, ResourceVersion: c.bump(), OwnerUID: in.Set.UID, Matches: true, Phase: "Pending",
			Ordinal: in.From + i, Created: time.Unix(int64(c.version), 0).UTC(),
		}
		c.VMIs[name] = &v
		c.Most = max(c.Most, len(c.VMIs))
		made = append(made, v)
		out.Made++
		if c.Boots != nil {
			c.After(c.Boots(name), func() { c.Run(name) })
		}
	}
	c.mu.Unlock()
	c.deliver(made...)
	return out, nil
}

// Delete deletes a batch.
func (c *ReplicaCluster) Delete(_ context.Context, in contract.DeleteReplicasInput) (contract.DeleteReplicasResult, error) {
	if err := c.begin(contract.ActivityDeleteReplicas); err != nil {
		return contract.DeleteReplicasResult{}, err
	}
	all := slices.Concat(in.Remove, in.Finished)
	for _, o := range all {
		c.mu.Lock()
		v := c.VMIs[o.Name]
		mine := v != nil && v.UID == o.UID
		c.mu.Unlock()
		if mine {
			c.Vanish(o.Name)
		}
	}
	return contract.DeleteReplicasResult{Deleted: len(all)}, nil
}

// Patch writes the status.
func (c *ReplicaCluster) Patch(_ context.Context, in contract.PatchReplicaSetInput) (contract.PatchReplicaSetResult, error) {
	if err := c.begin(contract.ActivityPatchReplicaSet); err != nil {
		return contract.PatchReplicaSetResult{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.Set == nil:
		return contract.PatchReplicaSetResult{Gone: true}, nil
	case in.ResourceVersion != c.Set.ResourceVersion || c.Conflicts:
		o := *c.Set
		return contract.PatchReplicaSetResult{Conflict: true, Current: &o}, nil
	}
	c.Status = &in.Status
	c.Events = append(c.Events, in.Events...)
	c.Set.ResourceVersion = c.bump()
	if c.Lose != nil {
		if err := c.Lose(); err != nil {
			return contract.PatchReplicaSetResult{}, err
		}
	}
	o := *c.Set
	return contract.PatchReplicaSetResult{Written: true, Current: &o}, nil
}

// Unavailable is the error of an API server that does not answer.
func Unavailable() error { return temporal.NewApplicationError("connection refused", "Kubernetes") }
