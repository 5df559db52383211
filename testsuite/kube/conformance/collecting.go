package conformance

import (
	"fmt"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owned returns metadata that names a VM as owner.
func owned(o *object, block bool) string {
	return fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"VirtualMachine","name":%q,"uid":%q,"controller":%t,"blockOwnerDeletion":%t}`, Group, o.GetName(), o.GetUID(), block, block)
}

func refs(list ...string) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += ","
		}
		out += s
	}
	return `"ownerReferences":[` + out + `]`
}

func policy(p metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &p}
}

func collecting() []testCase {
	return []testCase{
		{"dependents go after their owner", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", ""))
			r.create(r.vmis(), r.vmi("b", refs(owned(vm, true))))
			r.create(r.vmis(), r.vmi("held", refs(owned(vm, true))+`,"finalizers":["a.b/c"]`))
			r.create(r.vmis(), r.vmi("other", ""))
			r.delete(r.vms(), "a", policy(metav1.DeletePropagationBackground))
			r.absent(r.vms(), "a")
			r.absent(r.vmis(), "b")
			r.until("the held one is marked", func() error { return r.marked("held") })
			require.Nil(r, r.get(r.vmis(), "other").GetDeletionTimestamp())
			r.merged(r.vmis(), "held", "", `{"metadata":{"finalizers":null}}`)
			r.absent(r.vmis(), "held")
		}},
		{"without a policy it is the same", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", ""))
			r.create(r.vmis(), r.vmi("b", refs(owned(vm, true))))
			r.delete(r.vms(), "a", metav1.DeleteOptions{})
			r.absent(r.vmis(), "b")
		}},
		{"an owner that finalizers hold keeps its dependents", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", `"finalizers":["a.b/c"]`))
			r.create(r.vmis(), r.vmi("b", refs(owned(vm, true))))
			gone := r.create(r.vms(), r.vm("gone", ""))
			r.create(r.vmis(), r.vmi("marker", refs(owned(gone, true))))
			r.delete(r.vms(), "a", policy(metav1.DeletePropagationBackground))
			r.delete(r.vms(), "gone", metav1.DeleteOptions{})
			r.absent(r.vmis(), "marker") // the collector has processed the deletion before this
			require.Nil(r, r.get(r.vmis(), "b").GetDeletionTimestamp())
			r.merged(r.vms(), "a", "", `{"metadata":{"finalizers":null}}`)
			r.absent(r.vmis(), "b")
		}},
		{"orphaned", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", ""))
			r.create(r.vmis(), r.vmi("b", refs(owned(vm, true))))
			r.delete(r.vms(), "a", policy(metav1.DeletePropagationOrphan))
			r.absent(r.vms(), "a")
			o := r.get(r.vmis(), "b")
			require.Empty(r, o.GetOwnerReferences())
			require.Nil(r, o.GetDeletionTimestamp())
		}},
		{"foreground: the owner waits for those that block", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", ""))
			r.create(r.vmis(), r.vmi("blocks", refs(owned(vm, true))+`,"finalizers":["a.b/c"]`))
			r.create(r.vmis(), r.vmi("free", refs(owned(vm, false))+`,"finalizers":["a.b/c"]`))
			r.delete(r.vms(), "a", policy(metav1.DeletePropagationForeground))
			o := r.get(r.vms(), "a")
			require.NotNil(r, o.GetDeletionTimestamp())
			require.Equal(r, []string{"foregroundDeletion"}, o.GetFinalizers())
			r.until("both are marked", func() error {
				if err := r.marked("blocks"); err != nil {
					return err
				}
				return r.marked("free")
			})
			require.NotNil(r, r.get(r.vms(), "a").GetDeletionTimestamp())
			r.merged(r.vmis(), "blocks", "", `{"metadata":{"finalizers":null}}`)
			r.absent(r.vms(), "a")
			require.NotNil(r, r.get(r.vmis(), "free").GetDeletionTimestamp())
			r.merged(r.vmis(), "free", "", `{"metadata":{"finalizers":null}}`)
		}},
		{"foreground with a finalizer of the owner's own", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", `"finalizers":["a.b/c"]`))
			r.create(r.vmis(), r.vmi("b", refs(owned(vm, true))))
			r.delete(r.vms(), "a", policy(metav1.DeletePropagationForeground))
			r.absent(r.vmis(), "b")
			r.until("only its own finalizer is left", func() error {
				if f := r.get(r.vms(), "a").GetFinalizers(); len(f) != 1 || f[0] != "a.b/c" {
					return fmt.Errorf("%v", f)
				}
				return nil
			})
			r.merged(r.vms(), "a", "", `{"metadata":{"finalizers":null}}`)
			r.absent(r.vms(), "a")
		}},
		{"the policy may be changed while finalizers hold it", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", `"finalizers":["a.b/c"]`))
			r.create(r.vmis(), r.vmi("b", refs(owned(vm, true))+`,"finalizers":["a.b/c"]`))
			r.delete(r.vms(), "a", metav1.DeleteOptions{})
			require.Equal(r, []string{"a.b/c"}, r.get(r.vms(), "a").GetFinalizers())
			r.delete(r.vms(), "a", policy(metav1.DeletePropagationForeground))
			require.Equal(r, []string{"a.b/c", "foregroundDeletion"}, r.get(r.vms(), "a").GetFinalizers())
			r.until("the dependent is marked", func() error { return r.marked("b") })
			r.merged(r.vmis(), "b", "", `{"metadata":{"finalizers":null}}`)
			r.until("the collector has removed its finalizer", func() error {
				if f := r.get(r.vms(), "a").GetFinalizers(); len(f) != 1 {
					return fmt.Errorf("%v", f)
				}
				return nil
			})
			r.merged(r.vms(), "a", "", `{"metadata":{"finalizers":null}}`)
		}},
		{"two owners", func(r *rig) {
			one, two := r.create(r.vms(), r.vm("one", "")), r.create(r.vms(), r.vm("two", ""))
			r.create(r.vmis(), r.vmi("b", refs(owned(one, true), owned(two, false))))
			r.delete(r.vms(), "one", metav1.DeleteOptions{})
			r.until("one reference is left", func() error {
				if l := r.get(r.vmis(), "b").GetOwnerReferences(); len(l) != 1 || l[0].UID != two.GetUID() {
					return fmt.Errorf("%v", l)
				}
				return nil
			})
			r.delete(r.vms(), "two", metav1.DeleteOptions{})
			r.absent(r.vmis(), "b")
		}},
		{"an owner of that name with another UID is no owner", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", ""))
			vm.SetUID(notThis)
			r.create(r.vmis(), r.vmi("b", refs(owned(vm, true))))
			r.absent(r.vmis(), "b")
		}},
		{"pods of an owner", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", ""))
			r.create(r.pods(), r.pod("b", refs(owned(vm, true)), nowhere))
			r.delete(r.vms(), "a", metav1.DeleteOptions{})
			r.until("the pod ends gracefully", func() error {
				o := r.get(r.pods(), "b")
				if g := o.GetDeletionGracePeriodSeconds(); g == nil || *g != 30 {
					return fmt.Errorf("%v", o.Object["metadata"])
				}
				return nil
			})
			r.delete(r.pods(), "b", grace(0))
		}},
	}
}

// marked fails while an instance is not being deleted.
func (r *rig) marked(name string) error {
	if r.get(r.vmis(), name).GetDeletionTimestamp() == nil {
		return fmt.Errorf("%s is not being deleted", name)
	}
	return nil
}
