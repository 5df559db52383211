package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// Group is the API group that the API server must serve the custom resources under.
const Group = "conformance.virtflow.io"

// patience is the limit for what the API server or its controllers do by themselves.
const patience = time.Minute

// rig is one API server with a namespace for one case.
type rig struct {
	*testing.T
	dynamic dynamic.Interface
	kube    kubernetes.Interface
	ns      string
}

// object is one custom or core object without a Go type.
type object = unstructured.Unstructured

// Run runs every case and prints a line with the figures; server names the API server.
func Run(t *testing.T, config *rest.Config, server string) {
	t.Helper()
	d, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	k, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	all := cases()
	passed := 0
	for _, c := range all {
		ok := t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			r := &rig{T: t, dynamic: d, kube: k}
			r.ns = r.namespace()
			c.run(r)
		})
		if ok {
			passed++
		}
	}
	suite.PrintFigures(t, "conformance: cases %d, passed %d (%s)", len(all), passed, server)
	require.NotEmpty(t, all)
}

// namespace creates a namespace that is deleted after the case.
func (r *rig) namespace() string {
	r.Helper()
	ctx := context.Background()
	ns, err := r.kube.CoreV1().Namespaces().
		Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}},
			metav1.CreateOptions{})
	require.NoError(r, err)
	r.Cleanup(func() { _ = r.kube.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}) })
	_, err = r.kube.CoreV1().ServiceAccounts(ns.Name).
		Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(r, err)
	}
	return ns.Name
}

func (r *rig) custom(resource string) dynamic.ResourceInterface {
	return r.dynamic.Resource(schema.GroupVersionResource{Group: Group, Version: "v1", Resource: resource}).
		Namespace(r.ns)
}

// vms have a status subresource.
func (r *rig) vms() dynamic.ResourceInterface { return r.custom("virtualmachines") }

// vmis have none.
func (r *rig) vmis() dynamic.ResourceInterface { return r.custom("virtualmachineinstances") }

// sets have a status and a scale.
func (r *rig) sets() dynamic.ResourceInterface { return r.custom("virtualmachineinstancereplicasets") }

// migrations have a status.
func (r *rig) migrations() dynamic.ResourceInterface {
	return r.custom("virtualmachineinstancemigrations")
}

func (r *rig) pods() dynamic.ResourceInterface {
	return r.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(r.ns)
}

// parse reads an object from JSON.
func parse(r *rig, format string, args ...any) *object {
	r.Helper()
	o := &object{}
	require.NoError(r, json.Unmarshal(fmt.Appendf(nil, format, args...), &o.Object))
	return o
}

const template = `{"metadata":{},"spec":{"domain":{"devices":{}}}}`

// vm returns a VirtualMachine; metadata is further JSON such as `"finalizers":["a/b"]`.
func (r *rig) vm(name, metadata string) *object {
	r.Helper()
	return parse(r, `{"apiVersion":"%s/v1","kind":"VirtualMachine","metadata":{"name":%q%s},"spec":{"runStrategy":"Halted","template":%s}}`, Group, name, more(metadata), template)
}

func (r *rig) vmi(name, metadata string) *object {
	r.Helper()
	return parse(r, `{"apiVersion":"%s/v1","kind":"VirtualMachineInstance","metadata":{"name":%q%s},"spec":{"domain":{"devices":{}}}}`, Group, name, more(metadata))
}

func (r *rig) migration(name, metadata string) *object {
	r.Helper()
	return parse(r, `{"apiVersion":"%s/v1","kind":"VirtualMachineInstanceMigration","metadata":{"name":%q%s},"spec":{"vmiName":"v"}}`, Group, name, more(metadata))
}

func (r *rig) set(name string, replicas int) *object {
	r.Helper()
	return parse(r, `{"apiVersion":"%s/v1","kind":"VirtualMachineInstanceReplicaSet","metadata":{"name":%q},"spec":{"replicas":%d,"selector":{"matchLabels":{"a":"b"}},"template":%s}}`,
		Group, name, replicas, template)
}

// pod returns a pod that no scheduler binds. Its node, if any, has no kubelet.
func (r *rig) pod(name, metadata, node string) *object {
	r.Helper()
	if node != "" {
		node = fmt.Sprintf(`,"nodeName":%q`, node)
	}
	return parse(r, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q%s},"spec":{"schedulerName":"none","terminationGracePeriodSeconds":30,"automountServiceAccountToken":false,
		"containers":[{"name":"compute","image":"localhost/none:1"}]%s}}`, name, more(metadata), node)
}

func more(metadata string) string {
	if metadata == "" {
		return ""
	}
	return "," + metadata
}

// nowhere is the name of a node that does not exist.
const nowhere = "conformance-nowhere"

func (r *rig) create(in dynamic.ResourceInterface, o *object) *object {
	r.Helper()
	made, err := in.Create(r.Context(), o, metav1.CreateOptions{})
	require.NoError(r, err)
	return made
}

func (r *rig) get(in dynamic.ResourceInterface, name string) *object {
	r.Helper()
	o, err := in.Get(r.Context(), name, metav1.GetOptions{})
	require.NoError(r, err)
	return o
}

// merge patches with JSON that is made from format.
func (r *rig) merge(in dynamic.ResourceInterface, name, sub, format string, args ...any) (*object, error) {
	return r.patch(in, name, sub, types.MergePatchType, format, args...)
}

func (r *rig) patch(
	in dynamic.ResourceInterface, name, sub string, kind types.PatchType, format string, args ...any,
) (*object, error) {
	var subs []string
	if sub != "" {
		subs = []string{sub}
	}
	return in.Patch(r.Context(), name, kind, fmt.Appendf(nil, format, args...), metav1.PatchOptions{}, subs...)
}

func (r *rig) merged(in dynamic.ResourceInterface, name, sub, format string, args ...any) *object {
	r.Helper()
	o, err := r.merge(in, name, sub, format, args...)
	require.NoError(r, err)
	return o
}

// refused checks an error by code and reason, and returns its status.
func (r *rig) refused(err error, code int, reason metav1.StatusReason) metav1.Status {
	r.Helper()
	var status apierrors.APIStatus
	require.ErrorAs(r, err, &status)
	require.Equal(r, []any{int32(code), reason}, []any{status.Status().Code, status.Status().Reason}, "%v", err)
	return status.Status()
}

// absent checks that an object does not exist, or soon does not.
func (r *rig) absent(in dynamic.ResourceInterface, name string) {
	r.Helper()
	r.until(name+" is gone", func() error {
		o, err := in.Get(r.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v %w", o, err)
	})
}

// until waits for a controller.
func (r *rig) until(what string, check func() error) {
	r.Helper()
	end := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			require.NoError(r, err, "still not: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// number reads an integer.
func number(o *object, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}

func text(o *object, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

type testCase struct {
	name string
	run  func(*rig)
}

func cases() []testCase {
	var out []testCase
	for _, group := range [][]testCase{creating(), updating(), patching(), deleting(), pods(), collecting(), watching(),
		migrating(), others()} {
		out = append(out, group...)
	}
	return out
}
